"""Infer the shapes that a file leaves open, and the elements of small tensors that determine shapes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tflite

from costcore.graphs import GraphValue
from costcore.graphs.graph import (
    LARGE,
    Shape,
    broadcast,
    expanded,
    gathered,
    joined,
    matmul,
    over_elements,
    padded,
    quotient,
    reduced,
    reshaped,
    sliced,
    squeezed,
    window,
)
from costcore.ir import prod
from costcore.numbers import Dim, ceil_div, floor_div, is_symbolic, maximum, minimum

from .model import OperatorInfo
from .rows import BINARY, REDUCTIONS

Found = Sequence["Dim | None"]
"""A shape; None for a size that depends on data."""


class Site:
    """An operator and its operands, as the argument of shape rules.

    Args:
        operator: the operator.
        inputs: its operands.
    """

    def __init__(self, operator: OperatorInfo, inputs: Sequence[GraphValue | None]) -> None:
        self.options, self.inputs, self.count = operator.options, inputs, len(operator.outputs)

    def shape(self, position: int = 0) -> Shape:
        """Return the shape of an operand.

        Raises:
            LookupError: if it is absent.
        """
        value = self.inputs[position]
        if value is None:
            raise LookupError(position)
        return value.shape

    def need(self, position: int) -> tuple[Any, ...]:
        """Return the elements of an operand.

        Raises:
            LookupError: if they are not known.
        """
        value = self.inputs[position]
        if value is None or value.data is None:
            raise LookupError(position)
        return value.data

    def option(self, name: str, default: int = 0) -> int:
        """Return an option of one integer."""
        return int(self.options.get(name, default))


Rule = Callable[[Site], Sequence["Found | None"]]


def _one(rule: Callable[[Site], Found | None]) -> Rule:
    return lambda s: (rule(s),)


def _spatial_sizes(s: Site, kernel: Sequence[Dim]) -> Shape:
    """Return the spatial sizes of the result of a convolution or pooling of ``[N, H, W, C]`` or ``[N, D, H, W, C]``."""
    found = []
    for size, k, side in zip(s.shape()[1:], kernel, "DHW"[-len(kernel) :], strict=False):
        step, dilation = max(s.option(f"Stride{side}", 1), 1), max(s.option(f"Dilation{side}Factor", 1), 1)
        is_same = s.option("Padding", tflite.Padding.VALID) == tflite.Padding.SAME
        found.append(ceil_div(size, step) if is_same else window(size, k, step, dilation))
    return tuple(found)


def _pool(s: Site) -> Shape:
    x = s.shape()
    return (x[0], *_spatial_sizes(s, (s.option("FilterHeight", 1), s.option("FilterWidth", 1))), x[3])


def _linear(s: Site) -> Shape:
    x, (units, width) = s.shape(), s.shape(1)
    return (*x[:-1], units) if s.options.get("KeepNumDims") else (floor_div(prod(x), width), units)


def _reshape(s: Site) -> Shape:
    value = s.inputs[1] if len(s.inputs) > 1 else None
    if value is not None and value.data is None:
        raise LookupError(1)
    return reshaped(s.shape(), s.options.get("NewShape", ()) if value is None else s.need(1), zero_copies=False)


def _squeeze(s: Site) -> Shape:
    axes = s.options.get("SqueezeDims") or None
    return squeezed(s.shape(), None if axes is None else map(int, axes))


def _split(s: Site, position: int, axis: int) -> Sequence[Shape]:
    x = s.shape(position)
    axis %= max(len(x), 1)
    return [(*x[:axis], floor_div(x[axis], max(s.count, 1)), *x[axis + 1 :])] * s.count


def _split_v(s: Site) -> Sequence[Shape]:
    x, sizes, axis = s.shape(), [*s.need(1)], int(s.need(2)[0]) % max(len(s.shape()), 1)
    if -1 in sizes:
        sizes[sizes.index(-1)] = x[axis] - sum(size for size in sizes if size != -1)
    return [(*x[:axis], size, *x[axis + 1 :]) for size in sizes]


def _packed(s: Site) -> Shape:
    x = s.shape()
    axis = s.option("Axis") % (len(x) + 1)
    return (*x[:axis], len(s.inputs), *x[axis:])


def _unpacked(s: Site) -> Sequence[Shape]:
    return [reduced(s.shape(), (s.option("Axis"),), False)] * s.count


def _slice(s: Site) -> Found:
    x, begins, sizes = s.shape(), s.need(1), s.need(2)
    return tuple(whole - begin if size == -1 else size for whole, begin, size in zip(x, begins, sizes, strict=True))


def _strided(s: Site) -> Shape:
    x, begins, ends, steps = s.shape(), s.need(1), s.need(2), s.need(3)

    def is_set(name: str, i: int) -> bool:
        return bool(s.option(f"{name}Mask") >> i & 1)

    consumed = sum(not is_set("NewAxis", i) and not is_set("Ellipsis", i) for i in range(len(begins)))
    found: list[Dim] = []
    axis = 0
    for i, (begin, end, step) in enumerate(zip(begins, ends, steps, strict=True)):
        if is_set("Ellipsis", i):
            found += x[axis : axis + len(x) - consumed]
            axis += len(x) - consumed
        elif is_set("NewAxis", i):
            found.append(1)
        else:
            if not is_set("ShrinkAxis", i):
                first, last = None if is_set("Begin", i) else begin, None if is_set("End", i) else end
                found.append(sliced(x[axis], first, last, step))
            axis += 1
    return (*found, *x[axis:])


def _resized(s: Site) -> Shape:
    x = s.shape()
    return (x[0], *s.need(1), x[3])


def _blocks(s: Site, outward: bool) -> Shape:
    n, height, width, c = s.shape()
    block = max(s.option("BlockSize", 1), 1)
    if outward:
        return (n, height * block, width * block, floor_div(c, block * block))
    return (n, floor_div(height, block), floor_div(width, block), c * block * block)


def _batches(s: Site, outward: bool) -> Shape:
    x, block, sides = s.shape(), s.need(1), s.need(2)
    pairs = list(zip(x[1:], block, zip(sides[::2], sides[1::2], strict=True), strict=False))
    rest = x[1 + len(block) :]
    if outward:
        return (floor_div(x[0], prod(block)), *(size * b - sum(side) for size, b, side in pairs), *rest)
    return (x[0] * prod(block), *(floor_div(size + sum(side), b) for size, b, side in pairs), *rest)


def _range(s: Site) -> Shape:
    (start,), (stop,), (step,) = (s.need(i) for i in range(3))
    return (ceil_div(stop - start, step),)


def _one_hot(s: Site) -> Shape:
    x, axis = s.shape(), s.option("Axis", -1) % (len(s.shape()) + 1)
    return (*x[:axis], s.need(1)[0], *x[axis:])


def _transposed_conv(s: Site, kernel: Sequence[Dim], channels: Dim) -> Shape:
    try:
        return tuple(s.need(0))
    except LookupError:
        x = s.shape(2)
        is_same = s.option("Padding", tflite.Padding.VALID) == tflite.Padding.SAME
        steps = [max(s.option(f"Stride{side}", 1), 1) for side in "DHW"[-len(kernel) :]]
        places = zip(x[1:-1], steps, kernel, strict=True)
        return (x[0], *(size * step if is_same else (size - 1) * step + k for size, step, k in places), channels)


def _topk(s: Site) -> Sequence[Shape]:
    return [(*s.shape()[:-1], s.need(1)[0])] * s.count


def _detections(s: Site) -> Sequence[Shape]:
    kept = s.option("max_detections", 100) * max(s.option("max_classes_per_detection", 1), 1)
    return [(1, kept, 4), (1, kept), (1, kept), (1,)][: s.count]


def _spectrogram(s: Site) -> Shape:
    (samples, channels), window, step = s.shape(), s.option("window_size"), s.option("stride", 1)
    bins = 2 ** (window - 1).bit_length() // 2 + 1  # the length of the transform is the next power of 2
    return (channels, maximum(floor_div(samples - window, step) + 1, 0), bins)


def _same(s: Site) -> Sequence[Shape]:
    return [s.shape()] * s.count


def _elementwise(s: Site) -> Shape:
    return broadcast(*(value.shape for value in s.inputs if value is not None))


RULES: Mapping[str, Rule] = {
    **dict.fromkeys((*BINARY, "ADD", "DIV", "MUL", "SELECT_V2", "SUB", "PRELU"), _one(_elementwise)),
    **dict.fromkeys(
        ("MEAN", *REDUCTIONS), _one(lambda s: reduced(s.shape(), map(int, s.need(1)), bool(s.options.get("KeepDims"))))
    ),
    **dict.fromkeys(("ARG_MAX", "ARG_MIN"), _one(lambda s: reduced(s.shape(), s.need(1), False))),
    "AudioSpectrogram": _one(_spectrogram),
    **dict.fromkeys(("AVERAGE_POOL_2D", "L2_POOL_2D", "MAX_POOL_2D"), _one(_pool)),
    "BATCH_MATMUL": _one(
        lambda s: matmul(s.shape(), s.shape(1), bool(s.options.get("AdjX")), bool(s.options.get("AdjY")))
    ),
    "BATCH_TO_SPACE_ND": _one(lambda s: _batches(s, True)),
    "BROADCAST_TO": _one(lambda s: tuple(s.need(1))),
    "CONCATENATION": _one(lambda s: joined([s.shape(i) for i in range(len(s.inputs))], s.option("Axis"))),
    "CONV_2D": _one(lambda s: (s.shape()[0], *_spatial_sizes(s, s.shape(1)[1:3]), s.shape(1)[0])),
    "CONV_3D": _one(lambda s: (s.shape()[0], *_spatial_sizes(s, s.shape(1)[:3]), s.shape(1)[4])),
    "CONV_3D_TRANSPOSE": _one(lambda s: _transposed_conv(s, s.shape(1)[:3], s.shape(1)[3])),
    "DEPTHWISE_CONV_2D": _one(lambda s: (s.shape()[0], *_spatial_sizes(s, s.shape(1)[1:3]), s.shape(1)[3])),
    "DEPTH_TO_SPACE": _one(lambda s: _blocks(s, True)),
    "EMBEDDING_LOOKUP": _one(lambda s: (*s.shape(), *s.shape(1)[1:])),
    "EXPAND_DIMS": _one(lambda s: expanded(s.shape(), [int(s.need(1)[0])])),
    "FILL": _one(lambda s: tuple(s.need(0))),
    "FULLY_CONNECTED": _one(_linear),
    "GATHER": _one(lambda s: gathered(s.shape(), s.shape(1), s.option("Axis"), s.option("BatchDims"))),
    "GATHER_ND": _one(lambda s: (*s.shape(1)[:-1], *s.shape()[int(s.shape(1)[-1]) :])),
    "Mfcc": _one(lambda s: (*s.shape()[:-1], s.option("dct_coefficient_count", 13))),
    "ONE_HOT": _one(_one_hot),
    "PACK": _one(_packed),
    **dict.fromkeys(("MIRROR_PAD", "PAD", "PADV2"), _one(lambda s: padded(s.shape(), s.need(1)[::2], s.need(1)[1::2]))),
    "RANGE": _one(_range),
    "RESHAPE": _one(_reshape),
    **dict.fromkeys(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"), _one(_resized)),
    **dict.fromkeys(("SELECT", "WHERE"), _one(lambda s: s.shape(1) if len(s.inputs) > 1 else (None, len(s.shape())))),
    "RFFT2D": _one(lambda s: (*s.shape()[:-2], s.need(1)[0], floor_div(s.need(1)[1], 2) + 1)),
    "SCATTER_ND": _one(lambda s: tuple(s.need(2))),
    "SVDF": _one(lambda s: (s.shape()[0], floor_div(s.shape(1)[0], max(s.option("Rank", 1), 1)))),
    "SHAPE": _one(lambda s: (len(s.shape()),)),
    "SLICE": _one(_slice),
    "SPACE_TO_BATCH_ND": _one(lambda s: _batches(s, False)),
    "SPACE_TO_DEPTH": _one(lambda s: _blocks(s, False)),
    "SPLIT": lambda s: _split(s, 1, int(s.need(0)[0])),
    "SPLIT_V": _split_v,
    "SQUEEZE": _one(_squeeze),
    "STRIDED_SLICE": _one(_strided),
    "TFLite_Detection_PostProcess": _detections,
    "TILE": _one(lambda s: tuple(a * b for a, b in zip(s.shape(), s.need(1), strict=True))),
    "TOPK_V2": _topk,
    "TRANSPOSE": _one(lambda s: tuple(s.shape()[axis] for axis in s.need(1))),
    "TRANSPOSE_CONV": _one(lambda s: _transposed_conv(s, s.shape(1)[1:3], s.shape(1)[0])),
    **dict.fromkeys(("LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM"), _one(lambda s: (*s.shape()[:-1], s.shape(8)[1]))),
    **dict.fromkeys(("RNN", "UNIDIRECTIONAL_SEQUENCE_RNN"), _one(lambda s: (*s.shape()[:-1], s.shape(1)[0]))),
    "UNIQUE": lambda s: [(None,), s.shape()][: s.count],
    "UNPACK": _unpacked,
}
"""Shape rules by operator."""

WITHOUT_RULE = frozenset(
    (
        *("BIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_RNN", "BITCAST", "BROADCAST_ARGS", "DILATE"),
        *("MATRIX_DIAG", "MULTINOMIAL", "NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5", "RANDOM_STANDARD_NORMAL"),
        *("RANDOM_UNIFORM", "REDUCE_WINDOW", "SEGMENT_SUM", "SPARSE_TO_DENSE", "STABLEHLO_BROADCAST_IN_DIM"),
        *("STABLEHLO_CONCATENATE", "STABLEHLO_CONVOLUTION", "STABLEHLO_DOT_GENERAL", "STABLEHLO_DYNAMIC_SLICE"),
        *("STABLEHLO_GATHER", "STABLEHLO_PAD", "STABLEHLO_REDUCE", "STABLEHLO_REDUCE_WINDOW", "STABLEHLO_RESHAPE"),
        *("STABLEHLO_RNG_BIT_GENERATOR", "STABLEHLO_SLICE", "STABLEHLO_TRANSPOSE", "UNSORTED_SEGMENT_MAX"),
        *("UNSORTED_SEGMENT_MIN", "UNSORTED_SEGMENT_PROD", "UNSORTED_SEGMENT_SUM"),
    )
)
"""Builtin operators with unknown shapes. Others without a rule keep the shape of the first operand."""

FAILURES = (ArithmeticError, LookupError, TypeError, ValueError)
"""Exceptions that a rule raises if an operand or option is absent, unknown or wrong."""


def shapes_of(operator: OperatorInfo, inputs: Sequence[GraphValue | None]) -> Sequence[Found | None]:
    """Return the shapes of the results of an operator; None for a result without a rule."""
    try:
        rule = RULES.get(operator.name) or (None if operator.is_custom or operator.name in WITHOUT_RULE else _same)
        found = [] if rule is None else [*rule(Site(operator, inputs))]
    except FAILURES:
        found = []
    return (*found, *([None] * len(operator.outputs)))[: len(operator.outputs)]


# Elements of small values.


ARITHMETIC: Mapping[str, Callable[..., Any]] = {
    "ADD": operator.add,
    "DIV": lambda a, b: quotient(a, b, are_integers=True),
    "FLOOR_DIV": floor_div,
    "FLOOR_MOD": lambda a, b: a - b * floor_div(a, b),
    "MAXIMUM": maximum,
    "MINIMUM": minimum,
    "MUL": operator.mul,
    "NEG": operator.neg,
    "SUB": operator.sub,
}

WITH_SAME_ELEMENTS = frozenset(("CAST", "EXPAND_DIMS", "RESHAPE", "SQUEEZE"))


def data_of(operator: OperatorInfo, inputs: Sequence[GraphValue | None], output: GraphValue) -> None:
    """Set the elements of a small result that can be computed from shapes and constants."""
    try:
        found = _data(operator.name, Site(operator, inputs), output)
    except FAILURES:
        return
    if found is not None and not is_symbolic(output.size) and output.size == len(found):
        output.data = tuple(found)


def _data(kind: str, s: Site, output: GraphValue) -> Sequence[Any] | None:
    if kind == "SHAPE":
        return s.shape()
    if kind in ("CONCATENATION", "PACK"):
        if s.option("Axis") % output.ndim:
            return None
        return [each for i in range(len(s.inputs)) for each in s.need(i)]
    is_whole = kind in ("SLICE", "STRIDED_SLICE") and s.shape() == output.shape
    if kind in WITH_SAME_ELEMENTS or (is_whole and (kind == "SLICE" or min(s.need(3)) > 0)):
        return s.need(0)
    if kind == "GATHER" and len(s.shape()) == 1:
        return [s.need(0)[int(i)] for i in s.need(1)]
    if kind in ("REDUCE_PROD", "SUM") and output.size == 1:
        first, *rest = s.need(0)
        for each in rest:
            first = first * each if kind == "REDUCE_PROD" else first + each
        return [first]
    if kind in ("SLICE", "STRIDED_SLICE") and len(s.shape()) == 1:
        x, begin, end = s.need(0), int(s.need(1)[0]), int(s.need(2)[0])
        if kind == "SLICE":
            return x[begin : None if end == -1 else begin + end]
        if s.option("ShrinkAxisMask"):
            return [x[begin]]
        last = None if s.option("EndMask") or abs(end) >= LARGE else end
        return x[slice(None if s.option("BeginMask") else begin, last, int(s.need(3)[0]))]
    if kind in ARITHMETIC:
        return over_elements(ARITHMETIC[kind], *(s.need(i) for i in range(len(s.inputs))))
    return None
