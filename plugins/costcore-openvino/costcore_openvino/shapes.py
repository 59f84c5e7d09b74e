"""Infer the shapes that a file leaves open, and the elements of small tensors that determine shapes.

Rules follow the specification of operator sets 1 to 16 (https://docs.openvino.ai, "Operation Specifications").
Constants such as axes are in the weights file (.bin). If it is there, only constants of up to 64 bytes are read.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, permutations
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

from costcore.errors import CostError
from costcore.files import is_file, open_file, unreadable
from costcore.graphs import GraphValue
from costcore.graphs.graph import (
    LARGE,
    MOST_ELEMENTS,
    Shape,
    as_integer,
    broadcast,
    einsum,
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
    times,
    window,
)
from costcore.ir import prod
from costcore.numbers import Dim, ceil_div, floor_div, is_symbolic, maximum, minimum

from .model import LayerInfo, integer, numbers
from .rows import NARY, REDUCTIONS, UNARY

MOST_BYTES = 64
"""The maximum size of a constant that is read, in bytes."""

FORMATS = {"i32": "<i", "i64": "<q"}
OTHER_FORMATS = {
    "f16": "<e",
    "f32": "<f",
    "f64": "<d",
    "boolean": "<?",
    "i8": "<b",
    "u8": "<B",
    "i16": "<h",
    "u16": "<H",
    "u32": "<I",
    "u64": "<Q",
}
"""Formats of other constants, such as the scales of an interpolation; only read if :attr:`Integers.are_all`."""


class Integers(NamedTuple):
    """The small constants of a model.

    Attributes:
        path: the weights file.
        nbytes: its size; 0 if there is no file.
        are_all: whether to read constants of all types, not only int32 and int64.
    """

    path: Path
    nbytes: int
    are_all: bool = False

    @classmethod
    def beside(cls, model: str, are_all: bool = False) -> Integers:
        """Return the constants of an IR file; the weights file has the same name with the suffix ``.bin``."""
        path = Path(model).with_suffix(".bin")
        return cls(path, path.stat().st_size if is_file(path) else 0, are_all)

    def of(self, layer: LayerInfo) -> tuple[Any, ...] | None:
        """Return the elements of a constant; None if it is too large, of another type, or not in the file.

        Raises:
            CostError: if the file cannot be read, or has become shorter.
        """
        offset, size = (integer(layer.data.get(name, "")) for name in ("offset", "size"))
        kind = layer.data.get("element_type", "")
        form = FORMATS.get(kind) or (OTHER_FORMATS.get(kind) if self.are_all else None)
        if form is None or offset is None or size is None or offset < 0 or not 0 <= size <= MOST_BYTES:
            return None
        if any(0 in port.shape for port in layer.outputs):  # OpenVINO writes one byte for an empty constant
            return ()
        if size % struct.calcsize(form) or offset + size > self.nbytes:
            return None
        with open_file(self.path) as file:
            try:
                file.seek(offset)
                content = file.read(size)
            except OSError as error:  # the file was replaced by a pipe
                raise unreadable(self.path, error) from error
        if len(content) < size:
            raise CostError(f"{self.path} became shorter while it was read")
        return tuple(each for (each,) in struct.iter_unpack(form, content))


class Site(NamedTuple):
    """A layer and its operands: the argument of a shape rule."""

    layer: LayerInfo
    inputs: Sequence[GraphValue | None]

    def shape(self, position: int = 0) -> Shape:
        """Return the shape of an operand.

        Raises:
            LookupError: if it is absent.
        """
        value = self.inputs[position]
        if value is None:
            raise LookupError(position)
        return value.shape

    def known(self, position: int) -> tuple[Any, ...] | None:
        """Return the elements of an operand; None if they are unknown."""
        value = self.inputs[position] if position < len(self.inputs) else None
        return None if value is None else value.data

    def need(self, position: int) -> tuple[Any, ...]:
        """Return the elements of an operand.

        Raises:
            LookupError: if they are unknown.
        """
        found = self.known(position)
        if found is None:
            raise LookupError(position)
        return found

    def numbers(self, name: str) -> tuple[int, ...]:
        """Return the integers of an attribute."""
        return numbers(self.layer.data.get(name))

    def number(self, name: str, default: int = 0) -> int:
        """Return the first integer of an attribute."""
        return (self.numbers(name) or (default,))[0]

    def is_true(self, name: str, default: str = "") -> bool:
        """Return whether an attribute is set."""
        return self.layer.data.get(name, default).lower() in ("1", "true")

    def text(self, name: str, default: str = "") -> str:
        """Return an attribute."""
        return self.layer.data.get(name, default).lower()


Found = Sequence["Dim | None"]
"""A shape; None for a size that depends on data."""

Rule = Callable[[Site], Sequence["Found | None"]]


def _one(rule: Callable[[Site], Found | None]) -> Rule:
    return lambda s: (rule(s),)


def _axes(s: Site, position: int) -> tuple[int, ...]:
    return tuple(map(int, s.need(position)))


def _space(s: Site, kernel: Sequence[Dim]) -> Shape:
    """Return the spatial sizes of the result of a convolution or pooling."""
    count, x = len(kernel), s.shape()
    steps, dilations = ((*s.numbers(name), *((1,) * count))[:count] for name in ("strides", "dilations"))
    rounding = s.text("rounding_type")
    divide = ceil_div if "ceil" in rounding else floor_div
    kind, found = s.text("auto_pad", "explicit"), []
    sides = [((*s.numbers(f"pads_{end}"), *((0,) * count))[:count]) for end in ("begin", "end")]
    for i, k in enumerate(kernel):
        padding: Dim = sides[0][i] + sides[1][i]
        if kind.startswith("same"):
            found.append(ceil_div(x[2 + i], max(steps[i], 1)))
            continue
        size = window(x[2 + i], k, steps[i], dilations[i], 0 if kind == "valid" else padding, divide)
        if rounding == "ceil_torch":
            # PyTorch drops windows that would begin in the padding at the end
            size = minimum(size, ceil_div(x[2 + i] + sides[0][i], max(steps[i], 1)))
        found.append(size)
    return tuple(found)


def _conv(s: Site) -> Shape:
    w = s.shape(1)
    return (s.shape()[0], w[0], *_space(s, w[2:]))


def _group_conv(s: Site) -> Shape:
    w = s.shape(1)
    return (s.shape()[0], w[0] * w[1], *_space(s, w[3:]))


def _transposed(s: Site, channels: Dim, kernel: Sequence[Dim]) -> Shape:
    x, count = s.shape(), len(kernel)
    if len(s.inputs) > 2:
        return (x[0], channels, *s.need(2))
    steps, dilations = ((*s.numbers(name), *((1,) * count))[:count] for name in ("strides", "dilations"))
    is_padded = s.text("auto_pad", "explicit") in ("explicit", "notset")
    begin, end, more = (
        (*(s.numbers(name) if is_read else ()), *((0,) * count))[:count]
        for name, is_read in (("pads_begin", is_padded), ("pads_end", is_padded), ("output_padding", True))
    )
    space = (
        (x[2 + i] - 1) * steps[i] + dilations[i] * (k - 1) + 1 - begin[i] - end[i] + more[i]
        for i, k in enumerate(kernel)
    )
    return (x[0], channels, *space)


def _pool(s: Site) -> Sequence[Shape]:
    shape = (*s.shape()[:2], *_space(s, s.numbers("kernel")))
    return [shape] * len(s.layer.outputs)


def _reshape(s: Site) -> Shape | None:
    return reshaped(s.shape(), s.need(1), s.is_true("special_zero"))


def _permuted(s: Site) -> Shape:
    x, order = s.shape(), s.known(1)
    if order is None:
        raise LookupError(1)
    return tuple(x[axis] for axis in order) if order else tuple(reversed(x))


def _squeeze(s: Site) -> Shape:
    x = s.shape()
    if len(s.inputs) == 1:
        return squeezed(x, None)
    # axes of other sizes are kept; an open size is assumed to be 1, unless allow_axis_skip is set
    skips = s.is_true("allow_axis_skip")
    gone = (axis for axis in _axes(s, 1) if x[axis] == 1 or (is_symbolic(x[axis]) and not skips))
    return squeezed(x, tuple(gone))


def _strided_slice(s: Site) -> Shape | None:
    x, begins, ends = s.shape(), s.need(1), s.need(2)
    steps = s.need(3) if len(s.inputs) > 3 else (1,) * len(begins)
    masks = {name: s.numbers(f"{name}_mask") for name in ("begin", "end", "new_axis", "shrink_axis", "ellipsis")}

    def is_set(name: str, i: int) -> bool:
        return i < len(masks[name]) and masks[name][i] == 1

    consumed = sum(not is_set("new_axis", i) and not is_set("ellipsis", i) for i in range(len(begins)))
    found: list[Dim] = []
    axis = 0
    for i, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        if is_set("ellipsis", i):
            skipped = len(x) - consumed
            found += x[axis : axis + skipped]
            axis += skipped
        elif is_set("new_axis", i):
            found.append(1)
        else:
            if not is_set("shrink_axis", i):
                first, last = None if is_set("begin", i) else begin, None if is_set("end", i) else end
                found.append(sliced(x[axis], first, last, steps[i]))
            axis += 1
    return (*found, *x[axis:])


def _slice(s: Site) -> Found:
    x: list[Dim | None] = [*s.shape()]
    begins, ends, steps = (s.known(i) for i in (1, 2, 3))
    axes = s.known(4) if len(s.inputs) > 4 else tuple(range(len(s.need(1))))
    for i, axis in enumerate(s.need(4) if axes is None else axes):
        known = None not in (begins, ends, steps)
        x[axis] = sliced(x[axis], begins[i], ends[i], steps[i]) if known else None  # type: ignore[index]
    return tuple(x)


def _split(s: Site) -> Sequence[Shape]:
    x, count = s.shape(), max(len(s.layer.outputs), 1)
    axis = _axes(s, 1)[0] % max(len(x), 1)
    return [(*x[:axis], floor_div(x[axis], count), *x[axis + 1 :])] * count


def _variadic_split(s: Site) -> Sequence[Shape]:
    x, lengths = s.shape(), [*s.need(2)]
    axis = _axes(s, 1)[0] % max(len(x), 1)
    if -1 in lengths:
        lengths[lengths.index(-1)] = x[axis] - sum(each for each in lengths if each != -1)
    return [(*x[:axis], each, *x[axis + 1 :]) for each in lengths]


def _gather(s: Site) -> Shape:
    return gathered(s.shape(), s.shape(1), _axes(s, 2)[0], s.number("batch_dims"))


def _gather_nd(s: Site) -> Shape:
    x, indices, batch = s.shape(), s.shape(1), s.number("batch_dims")
    leading = (prod(indices[:batch]),) if batch > 1 and s.layer.version == "opset5" else indices[:batch]
    return (*leading, *indices[batch:-1], *x[batch + int(indices[-1]) :])


def _broadcast(s: Site) -> Shape:
    wanted = tuple(s.need(1))
    return broadcast(s.shape(), wanted) if s.text("mode") == "bidirectional" else wanted


def _tile(s: Site) -> Shape:
    reps, x = s.need(1), s.shape()
    rank = max(len(reps), len(x))
    sides = ((1,) * (rank - len(each)) + tuple(each) for each in (reps, x))
    return tuple(a * b for a, b in zip(*sides, strict=True))


def _interpolate(s: Site) -> Shape:
    x = list(s.shape())
    if s.layer.version == "opset1":
        for axis, size in zip(s.numbers("axes"), s.need(1), strict=True):
            x[axis] = size
        return tuple(x)
    is_new = s.layer.version != "opset4"
    by_scales = s.text("shape_calculation_mode") == "scales"
    scales = s.need(1 if is_new else 2) if by_scales else None
    sizes = () if by_scales else s.need(1)
    position = 2 if is_new else 3
    axes = s.need(position) if len(s.inputs) > position else tuple(range(len(x)))
    before, after = (s.numbers(f"pads_{end}") for end in ("begin", "end"))
    for pads in (before, after):
        x = [size + (pads[i] if i < len(pads) else 0) for i, size in enumerate(x)]
    for i, axis in enumerate(axes):
        if scales is None:
            x[axis] = sizes[i]
        else:
            # undo the rounding to float32: 11 / 10 is stored as 1.10000002
            factor = Fraction(float(scales[i])).limit_denominator(1 << 14) if not is_symbolic(scales[i]) else scales[i]
            x[axis] = as_integer(times(x[axis], factor))
    return tuple(x)


def _topk(s: Site) -> Sequence[Found]:
    x, (k,) = s.shape(), s.known(1) or (None,)
    axis = s.number("axis") % max(len(x), 1)
    return [(*x[:axis], k, *x[axis + 1 :])] * len(s.layer.outputs)


def _range(s: Site) -> Shape:
    (start,), (stop,), (step,) = (s.need(i) for i in range(3))
    if s.text("output_type").startswith(("i", "u")):
        start, stop, step = (as_integer(each) for each in (start, stop, step))
    if any(isinstance(each, float) for each in (start, stop, step)):
        start, stop, step = (each if is_symbolic(each) else Fraction(each) for each in (start, stop, step))
        length = quotient(stop - start, step, False)
        length = -as_integer(-length) if is_symbolic(length) else ceil(length)
    else:
        length = ceil_div(stop - start, step)
    return (length if is_symbolic(length) else max(length, 0),)


def _one_hot(s: Site) -> Shape:
    x, axis = s.shape(), s.number("axis", -1)
    at = axis % (len(x) + 1)
    return (*x[:at], s.need(1)[0], *x[at:])


def _depth_to_space(s: Site) -> Shape:
    n, c, *space = s.shape()
    block = s.number("block_size", 1)
    return (n, floor_div(c, block ** len(space)), *(size * block for size in space))


def _space_to_depth(s: Site) -> Shape:
    n, c, *space = s.shape()
    block = max(s.number("block_size", 1), 1)
    return (n, c * block ** len(space), *(floor_div(size, block) for size in space))


def _sequence(s: Site, is_lstm: bool) -> Sequence[Shape]:
    x, hidden = s.shape(), s.number("hidden_size")
    directions = 2 if s.text("direction") == "bidirectional" else 1
    state = (x[0], directions, hidden)
    return [(x[0], directions, x[1], hidden), state, *([state] if is_lstm else [])]


def _patches(s: Site) -> Shape:
    n, c, *space = s.shape()
    sizes, steps, rates = (s.numbers(name) for name in ("sizes", "strides", "rates"))
    is_valid = s.text("auto_pad") == "valid"
    found = (
        window(size, k, step, rate) if is_valid else ceil_div(size, max(step, 1))
        for size, k, step, rate in zip(space, sizes, steps, rates, strict=True)
    )
    return (n, c * prod(sizes), *found)


def _space_to_batch(s: Site) -> Shape:
    n, *rest = padded(s.shape(), s.need(2), s.need(3))
    blocks = s.need(1)
    return (n * prod(blocks), *(floor_div(size, block) for size, block in zip(rest, blocks[1:], strict=True)))


def _batch_to_space(s: Site) -> Shape:
    x, blocks, begin, end = s.shape(), s.need(1), s.need(2), s.need(3)
    rest = (size * block - a - b for size, block, a, b in zip(x[1:], blocks[1:], begin[1:], end[1:], strict=True))
    return (floor_div(x[0], prod(blocks)), *rest)


def _fourier(s: Site) -> Shape:
    """Return the shape of a Fourier transform. RDFT halves an axis and appends (re, im); IRDFT is its inverse."""
    x, kind = list(s.shape()), s.layer.type
    rank = len(x) - (kind != "RDFT")
    axes = [axis % max(rank, 1) for axis in s.need(1)]
    lengths = s.known(2) if len(s.inputs) > 2 else (-1,) * len(axes)
    if lengths is None:
        raise LookupError(2)
    for axis, length in zip(axes, lengths, strict=True):
        if length != -1:
            x[axis] = length
        elif kind == "IRDFT" and axis == axes[-1]:
            x[axis] = 2 * (x[axis] - 1)
    if kind == "RDFT":
        x[axes[-1]] = floor_div(x[axes[-1]], 2) + 1
        x.append(2)
    return tuple(x[:-1] if kind == "IRDFT" else x)


def _frames(s: Site) -> Shape:
    x, (size,), (step,) = s.shape(), s.need(2), s.need(3)
    frames, bins = floor_div(x[-1] - size, step) + 1, floor_div(size, 2) + 1
    return (*x[:-1], *((bins, frames) if s.is_true("transpose_frames") else (frames, bins)), 2)


def _signal(s: Site) -> Shape:
    """Return the shape of a signal that is restored from overlapping frames."""
    *batch, _, frames, _ = s.shape()
    if len(s.inputs) > 4:
        return (*batch, s.need(4)[0])
    (size,), (step,) = s.need(2), s.need(3)
    return (*batch, (frames - 1) * step + (0 if s.is_true("center") else size))


def _unique(s: Site) -> Sequence[Found]:
    x: list[Dim | None] = [*s.shape()]
    values: list[Dim | None] = [None]
    count: Dim = prod(s.shape())
    if len(s.inputs) > 1:
        axis = _axes(s, 1)[0]
        count, values = s.shape()[axis], x
        values[axis] = None
    return [values, (None,), (count,), (None,)]


def _prior_boxes(s: Site) -> Shape:
    """Return the shape of default boxes. The number per position is computed as in the reference implementation."""
    height, width = s.need(0)

    def listed(name: str) -> list[float]:
        return [float(part) for part in s.text(name).split(",") if part.strip()]

    if s.layer.type == "PriorBoxClustered":
        return (2, 4 * height * width * len(listed("width")))
    ratios = {1.0}
    for ratio in listed("aspect_ratio"):
        ratios |= {round(ratio, 6), *([round(1 / ratio, 6)] if s.is_true("flip") and ratio else [])}
    sizes, fixed = len(listed("min_size")), len(listed("fixed_size"))
    count = len(ratios) * sizes + len(listed("max_size"))
    if not s.is_true("scale_all_sizes", "true"):
        count = len(ratios) + sizes - 1
    count = len(ratios) * fixed if fixed else count
    shapes = len(listed("fixed_ratio")) or len(ratios)
    count += sum(shapes * (int(density) ** 2 - 1) for density in listed("density"))
    return (2, 4 * height * width * count)


def _regions(s: Site) -> Shape:
    x = s.shape()
    if s.is_true("do_softmax", "true"):
        first, last = (s.number(name, default) % len(x) for name, default in (("axis", 1), ("end_axis", -1)))
        return (*x[:first], prod(x[first : last + 1]), *x[last + 1 :])
    return (x[0], (s.number("classes") + s.number("coords") + 1) * len(s.numbers("mask")), *x[2:])


def _reorganized(s: Site) -> Shape:
    n, c, *space = s.shape()
    step = max(s.number("stride", 1), 1)
    return (n, c * step * step, *(floor_div(size, step) for size in space))


def _pooled_regions(s: Site) -> Shape:
    size = s.numbers("output_size") or s.numbers("output_roi_size") or (s.number("pooled_h"), s.number("pooled_w"))
    return (s.shape(1)[0], s.shape()[1], *size)


def _detections(s: Site) -> Shape:
    """Return the shape of final detections, at the maximum number."""
    locations, priors = s.shape(), s.shape(2)
    kept = s.number("keep_top_k", -1)
    box = 4 if s.is_true("normalized") else 5
    boxes = floor_div(priors[-1], box)
    if kept > 0:
        return (1, 1, locations[0] * kept, 7)
    top = s.number("top_k", -1)
    classes = floor_div(s.shape(1)[-1], boxes) if boxes != 0 else 0
    return (1, 1, locations[0] * classes * (top if top > 0 else boxes), 7)


def _proposal(s: Site) -> Sequence[Shape]:
    n = s.shape()[0] * s.number("post_nms_topn")
    return [(n, 5), (n,)][: len(s.layer.outputs)]


def _at_most(name: str, *last: int) -> Rule:
    """Return a rule for operators with an attribute for the maximum number of detections."""
    return lambda s: [(s.number(name), *last), (s.number(name),), (s.number(name),)][: len(s.layer.outputs)]


def _prior_grid(s: Site) -> Shape:
    count, (height, width) = s.shape()[0], s.shape(1)[2:]
    return (height * width * count, 4) if s.is_true("flatten", "true") else (height, width, count, 4)


def _colors(s: Site) -> Shape:
    """Return the shape of an RGB image. In a single YUV plane, chroma is below luma."""
    n, height, width, _ = s.shape()
    return (n, height if len(s.inputs) > 1 else floor_div(2 * height, 3), width, 3)


def _same(s: Site) -> Sequence[Shape]:
    return [s.shape()] * len(s.layer.outputs)


def _elementwise(s: Site) -> Shape:
    return broadcast(*(value.shape for value in s.inputs if value is not None))


RULES: Mapping[str, Rule] = {
    **dict.fromkeys((*UNARY, "Clamp", "Convert", "ConvertLike", "Elu", "Gelu", "PReLU", "Softmax", "SoftMax"), _same),
    **dict.fromkeys(("BatchNormInference", "CumSum", "GroupNormalization", "LRN", "LogSoftmax", "MVN"), _same),
    **dict.fromkeys(("GRN", "Inverse", "NormalizeL2", "RMS", "Reverse", "ReverseSequence", "Roll"), _same),
    **dict.fromkeys(("ScatterElementsUpdate", "ScatterNDUpdate", "ScatterUpdate", "SliceScatter"), _same),
    **dict.fromkeys(("Bucketize", "ErfInv", "FakeConvert", "Identity", "ShuffleChannels"), _same),
    **dict.fromkeys((*NARY, "Select", "Xor"), _one(_elementwise)),
    **dict.fromkeys(REDUCTIONS, _one(lambda s: reduced(s.shape(), _axes(s, 1), s.is_true("keep_dims")))),
    "AdaptiveAvgPool": lambda s: [(*s.shape()[:2], *s.need(1))] * len(s.layer.outputs),
    "AdaptiveMaxPool": lambda s: [(*s.shape()[:2], *s.need(1))] * len(s.layer.outputs),
    **dict.fromkeys(("AvgPool", "MaxPool"), _pool),
    "BatchToSpace": _one(_batch_to_space),
    **dict.fromkeys(("BinaryConvolution", "Convolution"), _one(_conv)),
    "Broadcast": _one(_broadcast),
    "Col2Im": _one(lambda s: (*s.shape()[:-2], floor_div(s.shape()[-2], prod(s.need(2))), *s.need(1))),
    "CTCGreedyDecoder": _one(lambda s: (s.shape()[1], s.shape()[0], 1, 1)),
    "CTCGreedyDecoderSeqLen": lambda s: [s.shape()[:2], s.shape()[:1]],
    "CTCLoss": _one(lambda s: s.shape()[:1]),
    "Concat": _one(lambda s: joined([s.shape(i) for i in range(len(s.inputs))], s.number("axis"))),
    "ConvolutionBackpropData": _one(lambda s: _transposed(s, s.shape(1)[1], s.shape(1)[2:])),
    "ConvertPromoteTypes": lambda s: [s.shape(i) for i in range(2)],
    "DeformableConvolution": _one(lambda s: (s.shape()[0], s.shape(2)[0], *_space(s, s.shape(2)[2:]))),
    "DeformablePSROIPooling": _one(
        lambda s: (s.shape(1)[0], s.number("output_dim"), *((s.number("group_size", 1),) * 2))
    ),
    "DepthToSpace": _one(_depth_to_space),
    "DetectionOutput": _one(_detections),
    "Einsum": _one(lambda s: einsum(s.text("equation"), [s.shape(i) for i in range(len(s.inputs))])),
    **dict.fromkeys(("EmbeddingBagOffsets", "EmbeddingBagOffsetsSum"), _one(lambda s: (*s.shape(2), *s.shape()[1:]))),
    **dict.fromkeys(("EmbeddingBagPacked", "EmbeddingBagPackedSum"), _one(lambda s: (s.shape(1)[0], *s.shape()[1:]))),
    "EmbeddingSegmentsSum": _one(lambda s: (s.need(3)[0], *s.shape()[1:])),
    "ExperimentalDetectronDetectionOutput": _at_most("max_detections_per_image", 4),
    "ExperimentalDetectronGenerateProposalsSingleImage": _at_most("post_nms_count", 4),
    "ExperimentalDetectronPriorGridGenerator": _one(_prior_grid),
    "ExperimentalDetectronROIFeatureExtractor": lambda s: [
        (s.shape()[0], s.shape(1)[1], *((s.number("output_size"),) * 2)),
        s.shape(),
    ][: len(s.layer.outputs)],
    "ExperimentalDetectronTopKROIs": _at_most("max_rois", 4),
    "ExtractImagePatches": _one(_patches),
    "Eye": _one(lambda s: (*(s.need(3) if len(s.inputs) > 3 else ()), *s.need(0), *s.need(1))),
    "GenerateProposals": lambda s: [(None, 4), (None,), s.shape()[:1]],
    "Gather": _one(_gather),
    "GatherElements": _one(lambda s: s.shape(1)),
    "GatherND": _one(_gather_nd),
    "GatherTree": _same,
    "GridSample": _one(lambda s: (*s.shape()[:2], *s.shape(1)[1:-1])),
    "GroupConvolution": _one(_group_conv),
    "GroupConvolutionBackpropData": _one(lambda s: _transposed(s, s.shape(1)[0] * s.shape(1)[2], s.shape(1)[3:])),
    "Interpolate": _one(_interpolate),
    **dict.fromkeys(("DFT", "IDFT", "IRDFT", "RDFT"), _one(_fourier)),
    "LSTMSequence": lambda s: _sequence(s, True),
    **dict.fromkeys(("GRUSequence", "RNNSequence"), lambda s: _sequence(s, False)),
    **dict.fromkeys(("I420toBGR", "I420toRGB", "NV12toBGR", "NV12toRGB"), _one(_colors)),
    "LSTMCell": lambda s: [s.shape(1), s.shape(2)],
    **dict.fromkeys(("GRUCell", "RNNCell"), _one(lambda s: s.shape(1))),
    "MatMul": _one(lambda s: matmul(s.shape(), s.shape(1), s.is_true("transpose_a"), s.is_true("transpose_b"))),
    **dict.fromkeys(("MatrixNms", "MulticlassNms"), lambda s: [(None, 6), (None, 1), s.shape()[:1]]),
    "Multinomial": _one(lambda s: (s.shape()[0], *s.need(1))),
    **dict.fromkeys(("NMSRotated", "NonMaxSuppression"), lambda s: [(None, 3), (None, 3), (1,)]),
    "NonZero": lambda s: [(len(s.shape()), None)],
    "OneHot": _one(_one_hot),
    "Pad": _one(lambda s: padded(s.shape(), s.need(1), s.need(2))),
    **dict.fromkeys(("PriorBox", "PriorBoxClustered"), _one(_prior_boxes)),
    "Proposal": _proposal,
    "PSROIPooling": _one(lambda s: (s.shape(1)[0], s.number("output_dim"), *((s.number("group_size", 1),) * 2))),
    **dict.fromkeys(("ROIAlign", "ROIAlignRotated", "ROIPooling"), _one(_pooled_regions)),
    "RandomUniform": _one(lambda s: tuple(s.need(0))),
    "Range": _one(_range),
    "RegionYolo": _one(_regions),
    "ReorgYolo": _one(_reorganized),
    "Reshape": _one(_reshape),
    "ISTFT": _one(_signal),
    "STFT": _one(_frames),
    "ScaledDotProductAttention": _one(
        lambda s: (*broadcast(s.shape()[:-2], s.shape(1)[:-2]), s.shape()[-2], s.shape(2)[-1])
    ),
    "SearchSorted": _one(lambda s: s.shape(1)),
    "SegmentMax": _one(lambda s: (*(s.need(2) if len(s.inputs) > 2 else (None,)), *s.shape()[1:])),
    "ShapeOf": _one(lambda s: (len(s.shape()),)),
    "Slice": _one(_slice),
    "SpaceToBatch": _one(_space_to_batch),
    "SparseFillEmptyRows": lambda s: [(None, 2), (None,), (s.need(1)[0],)],
    "SpaceToDepth": _one(_space_to_depth),
    "Split": _split,
    "Squeeze": _one(_squeeze),
    "StridedSlice": _one(_strided_slice),
    "StringTensorPack": _same,
    "StringTensorUnpack": lambda s: [s.shape(), s.shape(), (None,)],
    "Tile": _one(_tile),
    "TopK": _topk,
    "Transpose": _one(_permuted),
    "Unique": _unique,
    "Unsqueeze": _one(lambda s: expanded(s.shape(), _axes(s, 1))),
    "VariadicSplit": _variadic_split,
}


MOST_ALIGNED = 6
"""The maximum number of axes for which :func:`aligned` tries all combinations."""

FAILURES = (ArithmeticError, LookupError, TypeError, ValueError)
"""Exceptions that a rule raises if an operand or attribute is absent, unknown or wrong."""


def shapes_of(layer: LayerInfo, inputs: Sequence[GraphValue | None]) -> Sequence[Found | None]:
    """Return the shapes of the results of a layer; None for a shape that no rule infers."""
    rule = RULES.get(layer.type)
    try:
        found = [] if rule is None else [*rule(Site(layer, inputs))]
    except FAILURES:
        found = []
    return (*found, *([None] * len(layer.outputs)))[: len(layer.outputs)]


def aligned(layer: LayerInfo, x: Shape, stated: Found) -> Shape | None:
    """Try all choices of unknown axes; return the first shape that agrees with the file.

    Axes are unknown if the weights file is missing.
    """
    less = len(x) - len(stated)
    found: Iterable[Sequence[Dim]] = ()
    if max(len(x), len(stated)) > MOST_ALIGNED:
        return None
    if layer.type == "Transpose" and not less:
        found = permutations(x)
    elif layer.type == "Unsqueeze" and less < 0:
        found = (expanded(x, axes) for axes in combinations(range(len(stated)), -less))
    elif layer.type in REDUCTIONS and not less:
        found = (reduced(x, axes, True) for n in range(1, len(x) + 1) for axes in combinations(range(len(x)), n))
    elif layer.type in (*REDUCTIONS, "Gather", "Squeeze") and less > 0:
        found = (reduced(x, axes, False) for axes in combinations(range(len(x)), less))
    for each in found:
        # open sizes of the file are symbolic here, and the others are equal
        if all(is_symbolic(a) if b is None else a == b for a, b in zip(each, stated, strict=True)):
            return tuple(each)
    return None


# Elements of small tensors.


def _compared(test: Callable[[Any], bool]) -> Callable[[Any, Any], bool]:
    """Return a comparison by the sign of the difference. Symbolic sizes are at least 1."""

    def compare(a: Any, b: Any) -> bool:
        difference = a - b
        if is_symbolic(difference) and not difference.is_number:
            sign = 1 if difference.is_positive else -1 if difference.is_negative else None
            if sign is None:
                raise LookupError("unknown sign")
            return test(sign)
        return test(difference)

    return compare


COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "Equal": _compared(lambda d: d == 0),
    "NotEqual": _compared(lambda d: d != 0),
    "Greater": _compared(lambda d: d > 0),
    "GreaterEqual": _compared(lambda d: d >= 0),
    "Less": _compared(lambda d: d < 0),
    "LessEqual": _compared(lambda d: d <= 0),
}

ARITHMETIC: Mapping[str, Callable[..., Any]] = {
    **COMPARISONS,
    "Abs": abs,
    "Add": operator.add,
    "Ceiling": lambda x: -as_integer(-x) if is_symbolic(x) else -(-x // 1),
    "Floor": lambda x: as_integer(x) if is_symbolic(x) else x // 1,
    "FloorMod": lambda a, b: a - b * floor_div(a, b),
    "LogicalAnd": lambda a, b: bool(a) and bool(b),
    "LogicalNot": lambda x: not x,
    "LogicalOr": lambda a, b: bool(a) or bool(b),
    "Maximum": maximum,
    "Minimum": minimum,
    "Mod": lambda a, b: a - b * as_integer(quotient(a, b, False)),
    "Multiply": times,
    "Negative": operator.neg,
    "Select": lambda condition, a, b: a if condition else b,
    "Subtract": operator.sub,
}

WITH_SAME_ELEMENTS = frozenset(("ConvertLike", "Identity", "ReadValue", "Reshape", "Squeeze", "Unsqueeze"))


def data_of(layer: LayerInfo, inputs: Sequence[GraphValue | None], outputs: Sequence[GraphValue]) -> None:
    """Set the elements of small results that can be computed from shapes and constants."""
    try:
        found = [*_data(Site(layer, inputs), outputs)]
    except FAILURES:
        return
    for value, data in zip(outputs, found, strict=False):
        size = value.size
        if data is not None and not is_symbolic(size) and size == len(data) <= MOST_ELEMENTS:
            value.data = tuple(data)


def _data(s: Site, outputs: Sequence[GraphValue]) -> Sequence[Sequence[Any] | None]:
    kind = s.layer.type
    if kind == "ShapeOf":
        return [s.shape()]
    if kind == "Concat":
        if outputs[0].ndim != 1:
            return []
        parts = [s.need(i) for i in range(len(s.inputs))]
        return [[each for part in parts for each in part]]
    if not s.inputs or s.known(0) is None:
        return []
    x = s.need(0)
    are_integers = "int" in outputs[0].dtype
    if kind in WITH_SAME_ELEMENTS or (kind == "Transpose" and len(s.shape()) == 1):
        return [x]
    if kind == "Convert":
        return [[as_integer(each) for each in x] if are_integers else x]
    if kind in ("Split", "VariadicSplit"):
        axis = _axes(s, 1)[0] % max(len(s.shape()), 1)
        sizes = [int(value.shape[axis]) for value in outputs]
        return [_taken(s, axis, range(sum(sizes[:i]), sum(sizes[: i + 1]))) for i in range(len(sizes))]
    if kind == "Gather" and not s.number("batch_dims"):
        axis = _axes(s, 2)[0] % max(len(s.shape()), 1)
        return [_taken(s, axis, [int(i) for i in s.need(1)])]
    if kind in ("Slice", "StridedSlice") and len(s.shape()) == 1:
        return [_part(s, x)]
    if kind == "Divide":
        return [over_elements(lambda a, b: quotient(a, b, are_integers), x, s.need(1))]
    if kind in ARITHMETIC:
        return [over_elements(ARITHMETIC[kind], *(s.need(i) for i in range(len(s.inputs))))]
    if kind in ("ReduceProd", "ReduceSum", "ReduceMax", "ReduceMin") and outputs[0].size == 1:
        joins: Mapping[str, Callable[[Any, Any], Any]] = {
            "ReduceProd": operator.mul,
            "ReduceSum": operator.add,
            "ReduceMax": maximum,
            "ReduceMin": minimum,
        }
        first, *rest = x
        for each in rest:
            first = joins[kind](first, each)
        return [[first]]
    if kind == "Range" and not is_symbolic(outputs[0].size):
        first, step = (as_integer(each) if are_integers else each for each in (x[0], s.need(2)[0]))
        return [[first + i * step for i in range(min(outputs[0].size, MOST_ELEMENTS + 1))]]
    if kind in ("Broadcast", "Tile") and len(set(x)) == 1 and not is_symbolic(outputs[0].size):
        return [x[:1] * min(outputs[0].size, MOST_ELEMENTS + 1)]
    joins_none = s.text("reduction", "none") == "none"
    if kind in ("ScatterUpdate", "ScatterElementsUpdate") and len(s.shape()) == 1 and joins_none:
        changed = [*x]
        for i, each in zip(s.need(1), s.need(2), strict=True):
            changed[int(i)] = each
        return [changed]
    return []


def _taken(s: Site, axis: int, indices: Sequence[int]) -> Sequence[Any]:
    """Return the elements at some indices of an axis."""
    x, shape = s.need(0), [int(size) for size in s.shape()]
    inner, count = prod(shape[axis + 1 :]), shape[axis]
    starts = ((outer * count + i % count) * inner for outer in range(prod(shape[:axis])) for i in indices)
    return [each for start in starts for each in x[start : start + inner]]


def _part(s: Site, x: Sequence[Any]) -> Sequence[Any] | None:
    """Return a slice of a vector."""
    begin, end = (int(s.need(i)[0]) for i in (1, 2))
    step = int((s.known(3) or (1,))[0])
    first: int | None = begin
    last: int | None = None if abs(end) >= LARGE else end
    if s.layer.type == "StridedSlice":
        if 1 in s.numbers("shrink_axis_mask"):
            return [x[begin]]
        if 1 in s.numbers("new_axis_mask") or 1 in s.numbers("ellipsis_mask"):
            return x
        first = None if s.number("begin_mask") else first
        last = None if s.number("end_mask") else last
    return x[slice(first, last, step)]
