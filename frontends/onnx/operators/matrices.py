"""Products, linear algebra, and windows: convolutions, poolings, resampling and Fourier transforms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from costcore.numbers import Dim, as_text, floor_div, is_symbolic
from costcore.translate import Arguments, Row, Source

from ..node import Inferred, Node, Rule
from ..values import DTYPES, Shape, Undetermined, Value, exact, may_be_equal
from . import (
    SPATIAL,
    Windows,
    X,
    broadcast,
    determined,
    flag,
    kernel_of,
    kernel_of_weight,
    node_of,
    operands,
    spatial_dims,
    transposed_windows,
    true_or_none,
    windows,
)

# Matrix products.


def product(node: Node, a: Shape, b: Shape) -> Shape:
    """Return the shape of ``a @ b`` by numpy's rules.

    Raises:
        CostError: if they do not fit.
    """
    if not a or not b:
        raise node.error(f"needs operands of 1 or more dimensions (got the shapes {a} and {b})")
    left, right = a if len(a) > 1 else (1, *a), b if len(b) > 1 else (*b, 1)
    if isinstance(left[-1], int) and isinstance(right[-2], int) and left[-1] != right[-2]:
        raise node.error(f"cannot multiply {a} by {b}: the inner sizes {left[-1]} and {right[-2]} differ")
    batch = broadcast(node, left[:-2], right[:-2])
    return (*batch, *(left[-2:-1] if len(a) > 1 else ()), *(right[-1:] if len(b) > 1 else ()))


def matmul(node: Node) -> Sequence[Value]:
    """Infer a matrix product, also of integers."""
    a, b = node.value("A", "a"), node.value("B", "b")
    zero = node.get("y_zero_point")
    dtype = zero.dtype if zero is not None else "int32" if node.op == "MatMulInteger" else a.dtype
    return [node.result(product(node, a.known_shape, b.known_shape), dtype)]


def gemm(node: Node) -> Sequence[Value]:
    """Infer the product of two matrices, either of them transposed."""
    a, b = (
        value.known_shape[::-1] if node.args.get(f"trans{name}") else value.known_shape
        for name, value in (("A", node.value("A")), ("B", node.value("B")))
    )
    if len(a) != 2 or len(b) != 2:
        raise node.error(f"needs two matrices (got the shapes {a} and {b})")
    return [node.result(product(node, a, b), node.value("A").dtype)]


def einsum(node: Node) -> Sequence[Value]:
    """Infer dimensions by the letters of the equation; an ellipsis stands for broadcast dimensions."""
    equation, values = node.args.get("equation", "").replace(" ", ""), node.values("Inputs")
    left, _, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(values):
        raise node.error(f"has {len(values)} inputs for the equation {equation!r}")
    lengths: dict[str, Dim] = {}
    spread: Shape = ()
    for term, value in zip(terms, values, strict=True):
        before, dots, after = term.partition("...")
        count = len(before) + len(after)
        if len(value.known_shape) < count or (not dots and len(value.known_shape) != count):
            raise node.error(f"has an input of shape {value.known_shape} for {term!r}")
        tail = len(value.known_shape) - len(after)
        for letter, d in (
            *zip(before, value.known_shape, strict=False),
            *zip(after, value.known_shape[tail:], strict=True),
        ):
            lengths[letter] = broadcast(node, (lengths.get(letter, d),), (d,))[0]
        spread = broadcast(node, spread, value.known_shape[len(before) : tail])
    if "->" not in equation:
        right = ("..." if "..." in left else "") + "".join(
            sorted(c for c in set(left) - set(",.") if left.count(c) == 1)
        )
    head, dots, tail_letters = right.partition("...")
    missing = [letter for letter in dict.fromkeys(head + tail_letters) if letter not in lengths]
    if missing:
        raise node.error(f"has {', '.join(map(repr, missing))} in the output of {equation!r}, which no input has")
    shape = (*(lengths[c] for c in head), *(spread if dots else ()), *(lengths[c] for c in tail_letters))
    return [node.result(shape, values[0].dtype)]


MATMUL_RULES: Mapping[str, Rule] = {
    "ai.onnx::MatMul": matmul,
    "ai.onnx::Gemm": gemm,
    "ai.onnx::Einsum": einsum,
}
"""Rules by full operator name."""


def _is_linear(a: Arguments) -> bool:
    # A ``Gemm`` is a linear layer if it multiplies rows by an initializer, and adds one bias element per output.
    w, bias = a.get("B"), a.get("C")
    if not isinstance(w, Value) or w.role == "data" or a.get("transA"):
        return False
    return not isinstance(bias, Value) or (bias.role != "data" and bias.size == _weight_shape(a)[0])


def _weight_shape(a: Arguments) -> tuple[Any, ...]:
    # ``[Fout, Fin]``.
    shape: tuple[Any, ...] = a["B"].known_shape
    return shape if a.get("transB") else shape[::-1]


def _row_weight(a: Arguments) -> Value:
    weight: Value = a["B"]
    return weight.viewed(_weight_shape(a))


def _flat_bias(a: Arguments) -> Value | None:
    bias = a.get("C")
    return bias.viewed((bias.size,)) if isinstance(bias, Value) else None


def _factor(name: str) -> Any:
    # Without C, ``beta`` has no effect.
    return lambda a: None if a.get(name, 1.0) == 1 or (name == "beta" and a.get("C") is None) else a[name]


GEMM: Mapping[str, Any] = {"alpha": _factor("alpha"), "beta": _factor("beta")}

MATMUL_ROWS: tuple[Row, ...] = (
    Row("ai.onnx::Gemm", "linear", {"x": "A", "w": _row_weight, "b": _flat_bias}, GEMM, when=_is_linear),
    Row(
        "ai.onnx::Gemm",
        "matmul",
        {"x0": "A", "x1": "B", "b": "C"},
        {**GEMM, "transpose_x0": true_or_none("transA"), "transpose_x1": true_or_none("transB")},
    ),
    Row("ai.onnx::MatMul", "matmul", {"x*": operands("A", "B")}),
    Row("ai.onnx::Einsum", "einsum", {"x*": "Inputs"}, {"equation": "equation"}),
)


# Linear algebra.


def determinant(node: Node) -> Sequence[Value]:
    """Infer determinants: the shape without the last two axes."""
    x = node.value("X")
    if len(x.known_shape) < 2:
        raise node.error(f"needs an input of 2 or more dimensions (got the shape {x.known_shape})")
    return [node.result(x.known_shape[:-2], x.dtype)]


LINALG_RULES: Mapping[str, Rule] = {
    "ai.onnx::Det": determinant,
}
"""Rules by full operator name."""


LINALG_ROWS: tuple[Row, ...] = (Row("ai.onnx::Det", "det", {"x": "X"}),)


# Convolutions.


def conv(node: Node) -> Inferred:
    """Infer a convolution, also of integers."""
    x, w = node.value("X", "x"), node.value("W", "w")
    _check_weight(node, x, w, transposed=False)
    found = windows(node, spatial_dims(node, x.known_shape), kernel_of_weight(node, w.known_shape))
    zero = node.get("y_zero_point")
    dtype = zero.dtype if zero is not None else "int32" if node.op == "ConvInteger" else x.dtype
    return Inferred([node.result((x.known_shape[0], w.known_shape[0], *found.out), dtype)], found)


def conv_transpose(node: Node) -> Inferred:
    """Infer a transposed convolution with a weight ``[Cin, Cout/G, ...]``."""
    x, w = node.value("X"), node.value("W")
    _check_weight(node, x, w, transposed=True)
    found = transposed_windows(node, spatial_dims(node, x.known_shape), kernel_of_weight(node, w.known_shape))
    return Inferred(
        [node.result((x.known_shape[0], w.known_shape[1] * node.args.get("group", 1), *found.out), x.dtype)], found
    )


def _check_weight(node: Node, x: Value, w: Value, transposed: bool) -> None:
    groups, channels = node.args.get("group", 1), x.known_shape[1] if len(x.known_shape) > 1 else None
    if groups < 1:
        raise node.error(f"has group {groups} (expected 1 or more)")
    if len(w.known_shape) != len(x.known_shape) or len(x.known_shape) < 3:
        raise node.error(
            f"needs weights of the same rank as its input (got the shapes {x.known_shape} and {w.known_shape})"
        )
    taken = w.known_shape[0] if transposed else w.known_shape[1] * groups
    if isinstance(channels, int) and isinstance(taken, int) and channels != taken:
        raise node.error(f"has {channels} input channels, but weights {w.known_shape} in {groups} groups for {taken}")
    for channels in (x.known_shape[1], *(() if transposed else (w.known_shape[0],))):
        if isinstance(channels, int) and channels % groups:
            raise node.error(f"has {groups} groups, which do not divide {channels} channels")


CONV_RULES: Mapping[str, Rule] = {
    "ai.onnx::Conv": conv,
    "ai.onnx::ConvTranspose": conv_transpose,
    "ai.onnx::DeformConv": conv,
}
"""Rules by full operator name."""


CONVOLUTION: Mapping[str, Any] = {**SPATIAL, "groups": "group"}

CONV_ROWS: tuple[Row, ...] = (
    Row("ai.onnx::Conv", "conv", {"x": "X", "w": "W", "b": "B"}, CONVOLUTION),
    Row("ai.onnx::ConvTranspose", "conv_transpose", {"x": "X", "w": "W", "b": "B"}, CONVOLUTION),
    Row(
        "ai.onnx::DeformConv",
        "deform_conv",
        {"x": "X", "w": "W", "offset": "offset", "b": "B", "mask": "mask"},
        CONVOLUTION,
    ),
)


# Poolings.


def pool(node: Node) -> Inferred:
    """Infer a pooling, and the positions of the maxima."""
    x = node.value("X")
    found = windows(node, spatial_dims(node, x.known_shape), kernel_of(node))
    shape = (*x.known_shape[:2], *found.out)
    return Inferred([node.result(shape, x.dtype), node.result(shape, "int64")], found)


def global_pool(node: Node) -> Inferred:
    """Infer a pooling with one window as large as the input."""
    x = node.value("X")
    space = spatial_dims(node, x.known_shape)
    ones = (1,) * len(space)
    found = Windows(space, ones, ones, (0,) * len(space), (0,) * len(space), ones)
    return Inferred([node.result((*x.known_shape[:2], *ones), x.dtype)], found)


def max_unpool(node: Node) -> Sequence[Value]:
    """Infer the tensor before a max pooling; its shape is given or follows from the windows."""
    x, wanted = node.value("X"), node.numbers("output_shape")
    if wanted is None:
        found = transposed_windows(node, spatial_dims(node, x.known_shape), kernel_of(node))
        wanted = (*x.known_shape[:2], *found.out)
    return [node.result(wanted, x.dtype)]


def regions(node: Node) -> Sequence[Value]:
    """Infer one feature map for each region of interest."""
    x, boxes = node.value("X"), node.value("rois")
    size = node.args.get("pooled_shape") or (node.args.get("output_height", 1), node.args.get("output_width", 1))
    return [node.result((boxes.known_shape[0], x.known_shape[1], *size), x.dtype)]


POOLING_RULES: Mapping[str, Rule] = {
    **{f"ai.onnx::{op}": pool for op in ("MaxPool", "AveragePool", "LpPool")},
    **{f"ai.onnx::{op}": global_pool for op in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")},
    "ai.onnx::MaxUnpool": max_unpool,
    "ai.onnx::MaxRoiPool": regions,
    "ai.onnx::RoiAlign": regions,
}
"""Rules by full operator name."""


POOL: Mapping[str, Any] = {**SPATIAL, "ceil_mode": flag("ceil_mode")}

GLOBAL: Mapping[str, Any] = {**SPATIAL, "adaptive": lambda a: True}

POOLING_ROWS: tuple[Row, ...] = (
    Row("ai.onnx::MaxPool", "max_pool", X, POOL),
    Row("ai.onnx::AveragePool", "avg_pool", X, POOL),
    Row("ai.onnx::LpPool", "lp_pool", X, {**POOL, "p": "p"}),
    Row("ai.onnx::GlobalAveragePool", "avg_pool", X, GLOBAL),
    Row("ai.onnx::GlobalMaxPool", "max_pool", X, GLOBAL),
    Row("ai.onnx::GlobalLpPool", "lp_pool", X, {**GLOBAL, "p": "p"}),
    Row("ai.onnx::MaxUnpool", "unpool", {"x": "X", "indices": "I"}),
    Row("ai.onnx::MaxRoiPool", "roi_max_pool", {"x": "X", "rois": "rois"}),
    Row(
        "ai.onnx::RoiAlign",
        "roi_align",
        {"x": "X", "rois": "rois", "batch_indices": "batch_indices"},
        {"mode": "mode", "sampling": lambda a: (a.get("sampling_ratio", 0),) * 2},
    ),
)


# Resizing, and sampling at the points of a grid.


MODES = ("nearest", "linear", "bilinear", "trilinear", "cubic")
"""Modes of a resize, of all versions."""


def resize(node: Node) -> Sequence[Value]:
    """Infer a resized input; sizes or scales are given, since opset 18 also for some axes only."""
    x = node.value("X", "input")
    if node.args.get("mode", "nearest") not in MODES:
        raise node.error(f"has the mode {node.args['mode']!r} (expected one of {', '.join(map(repr, MODES))})")
    sizes, scales = _given_numbers(node, "sizes"), _given_numbers(node, "scales")
    if not sizes and not scales and "height_scale" in node.args:
        scales = (1.0, 1.0, node.args["height_scale"], node.args["width_scale"])
    axes = node.axes(len(x.known_shape), "axes") or tuple(range(len(x.known_shape)))
    if len(sizes or scales) != len(axes):
        raise node.error(f"has {len(sizes or scales)} sizes or scales for {len(axes)} axes")
    shape: list[Dim | None] = list(x.known_shape)
    policy = node.args.get("keep_aspect_ratio_policy", "stretch")
    if sizes and policy != "stretch":
        sizes = _with_aspect_ratio(node, [x.known_shape[axis] for axis in axes], sizes, policy)
    for i, axis in enumerate(axes):
        length = x.known_shape[axis]
        new = sizes[i] if sizes else None if scales[i] is None else scaled(length, scales[i])
        shape[axis] = new
        if axis < 2 and new is not None and may_be_equal(length, new):
            change = f"axis {axis} of size {as_text(length)} is resized to {as_text(new)}"
            node.assumed.append(f"{change}: assumed to be equal")
    return [node.result(shape, x.dtype)]


def _given_numbers(node: Node, name: str) -> tuple[Any, ...]:
    # An empty input counts as omitted. None: an unknown number.
    value = node.args.get(name)
    return () if isinstance(value, Value) and value.shape == (0,) else node.partial_numbers(name) or ()


def scaled(length: Dim, scale: Any) -> Dim:
    """Return ``floor(length * scale)`` in single precision."""
    if is_symbolic(length) or is_symbolic(scale):
        from sympy import S, floor

        factor = S(exact(scale))
        return floor_div(length, int(1 / factor)) if (1 / factor).is_Integer else floor(length * factor)
    if isinstance(scale, int) or float(scale).is_integer():
        return length * int(scale)
    return int(np.floor(np.float32(length) * np.float32(scale)))


def _with_aspect_ratio(node: Node, lengths: Sequence[Dim], sizes: Sequence[Any], policy: str) -> tuple[Any, ...]:
    if None in sizes:
        return (None,) * len(sizes)
    if any(map(is_symbolic, (*lengths, *sizes))) or 0 in lengths:
        raise node.error("keeps the aspect ratio of symbolic sizes; give numbers for them with dims")
    ratios = [size / length for size, length in zip(sizes, lengths, strict=True)]
    ratio = min(ratios) if policy == "not_larger" else max(ratios)
    return tuple(int(length * ratio + 0.5) for length in lengths)


def grid_sample(node: Node) -> Sequence[Value]:
    """Infer one sample for each point of the grid."""
    x, grid = node.value("X").known_shape, node.value("grid", "Grid").known_shape
    return [node.result((*x[:2], *grid[1:-1]), node.value("X").dtype)]


def affine_grid(node: Node) -> Sequence[Value]:
    """Infer a grid over an output of the given size."""
    size = node.partial_numbers("size") or ()
    return [node.result((size[0], *size[2:], len(size) - 2), node.value("theta").dtype)]


RESAMPLING_RULES: Mapping[str, Rule] = {
    "ai.onnx::Resize": resize,
    "ai.onnx::Upsample": resize,
    "ai.onnx::GridSample": grid_sample,
    "ai.onnx::AffineGrid": affine_grid,
}
"""Rules by full operator name."""


def _scaled_axes(a: Arguments) -> Any:
    # None if only spatial axes of ``[N, C, ...]`` change. A symbol and a number are assumed to be equal for samples and
    # channels.
    x, y = a["X"].known_shape, node_of(a).outputs[0]
    pairs = tuple(zip(x, y.known_shape, strict=True)) if y else ()
    changed = tuple(i for i, sizes in enumerate(pairs) if sizes[0] != sizes[1] and (i > 1 or not may_be_equal(*sizes)))
    return changed if any(i < 2 for i in changed) else None


_INTERPOLATIONS = {"bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}


def _interpolation(usual: str) -> Source:
    return lambda a: _INTERPOLATIONS.get(a.get("mode", usual), a.get("mode", usual))


_COORDINATES = {"pytorch_half_pixel": "half_pixel", "align_corners": None, "half_pixel": None}
"""Positions of samples, by the names of the standard; None for the default and for aligned corners."""


def _coordinate_mode(a: Arguments) -> str:
    # Before version 11, Resize sampled at the first corner of elements.
    is_old = node_of(a).op == "Upsample" or node_of(a).version < 11
    found: str = "asymmetric" if is_old else a.get("coordinate_transformation_mode", "half_pixel")
    return found


def _coordinates(a: Arguments) -> str | None:
    found = _COORDINATES.get(_coordinate_mode(a), _coordinate_mode(a))
    return None if found == "half_pixel" else found


def _rounding_of_nearest(a: Arguments) -> str | None:
    # None: the default, down.
    is_old = node_of(a).op == "Upsample" or node_of(a).version < 11
    if is_old or a.get("mode", "nearest") != "nearest":
        return None
    found = a.get("nearest_mode", "round_prefer_floor")
    return None if found == "floor" else found


def _inexact_scale(a: Arguments) -> Any:
    # None if sizes and scales agree. Else the scales, not the sizes, place the samples.
    node, y = node_of(a), node_of(a).outputs[0]
    scales = a.get("scales")
    if y is None or not isinstance(scales, Value) or scales.shape == (0,) or scales.data is None:
        return None
    x, new = node.value("X").known_shape, y.known_shape
    axes = node.axes(len(x), "axes") or tuple(range(len(x)))
    given = dict(zip(axes, scales.data.ravel().tolist(), strict=False))
    used = _scaled_axes(a) or tuple(range(2, len(x)))
    exact = all(float(given.get(i, 1)).is_integer() or x[i] * given[i] == new[i] for i in used)
    return None if exact else tuple(float(given.get(i, 1)) for i in used)


RESAMPLING_ROWS: tuple[Row, ...] = (
    *(
        Row(
            f"ai.onnx::{op}",
            "resize",
            {"x": "X"},
            {
                "mode": _interpolation("nearest"),
                "axes": _scaled_axes,
                "coordinates": _coordinates,
                "rounding": _rounding_of_nearest,
                "align_corners": lambda a: True if _coordinate_mode(a) == "align_corners" else None,
                "antialias": true_or_none("antialias"),
                "scale": determined(lambda node: _inexact_scale(node.args)),
            },
        )
        for op in ("Resize", "Upsample")
    ),
    Row("ai.onnx::GridSample", "grid_sample", {"x": "X", "grid": "grid"}, {"mode": _interpolation("linear")}),
    Row("ai.onnx::AffineGrid", "affine_grid", {"theta": "theta"}),
)


# Fourier transforms, window functions and mel weights.


def window(node: Node) -> Sequence[Value]:
    """Infer the window of the given size."""
    return [node.result((node.number("size"),), DTYPES[node.args.get("output_datatype", TensorProto.FLOAT)])]


def mel(node: Node) -> Sequence[Value]:
    """Infer weights from DFT bins to mel bins."""
    dtype = DTYPES[node.args.get("output_datatype", TensorProto.FLOAT)]
    return [node.result((node.number("dft_length") // 2 + 1, node.number("num_mel_bins")), dtype)]


def fourier(node: Node) -> Sequence[Value]:
    """Infer a discrete Fourier transform: real and imaginary parts last, half of the bins if it is one-sided."""
    x, length = node.value("input"), node.number("dft_length")
    axis = node.axis(len(x.known_shape), "axis") if node.get("axis") is not None else len(x.known_shape) - 2
    if axis is None:
        raise Undetermined
    if axis == len(x.known_shape) - 1:
        raise node.error(f"transforms axis {axis}, which holds the real and imaginary parts of {x.known_shape}")
    _assume_real(node, x)
    one_sided, inverse = node.args.get("onesided"), node.args.get("inverse")
    if length is None:
        length = 2 * (x.known_shape[axis] - 1) if one_sided and inverse else x.known_shape[axis]
    shape = [*x.known_shape[:-1], 1 if one_sided and inverse else 2]
    shape[axis] = length // 2 + 1 if one_sided and not inverse else length
    return [node.result(shape, x.dtype)]


def short_fourier(node: Node) -> Sequence[Value]:
    """Infer the transforms of frames of a signal; one-sided unless the attribute says otherwise."""
    x, window = node.value("signal"), node.get("window")
    _assume_real(node, x)
    frames: Dim | None = None
    bins: Dim | None = None
    try:
        length = window.known_shape[0] if window is not None else node.number("frame_length")
        if length is None:
            length = x.known_shape[1]  # by default a frame is the whole signal
        bins = length // 2 + 1 if node.args.get("onesided", 1) else length
        frames = (x.known_shape[1] - length) // node.number("frame_step") + 1
    except Undetermined:
        pass  # their number depends on data
    return [node.result((x.known_shape[0], frames, bins, 2), x.dtype)]


def _assume_real(node: Node, x: Value) -> None:
    # The last axis of a signal has size 1 (real) or 2 (complex); an unknown size is assumed to be 1.
    parts = x.known_shape[-1] if len(x.known_shape) > 2 else 1
    if is_symbolic(parts):
        node.assumed.append(f"the last axis of the signal, of size {parts}, is assumed to be 1: real numbers")


SIGNAL_RULES: Mapping[str, Rule] = {
    "ai.onnx::DFT": fourier,
    "ai.onnx::STFT": short_fourier,
    **{f"ai.onnx::{op}": window for op in ("BlackmanWindow", "HammingWindow", "HannWindow")},
    "ai.onnx::MelWeightMatrix": mel,
}
"""Rules by full operator name."""


WINDOWS = {"HannWindow": "hann_window", "HammingWindow": "hamming_window", "BlackmanWindow": "blackman_window"}


def _complex_view(a: Arguments) -> Value:
    # The last axis may be real and imaginary parts. With three or more axes it always is; if its size is unknown, the
    # signal is assumed to be real.
    x: Value = a.get("input") or a["signal"]
    rank = len(x.known_shape)
    if not ((rank > 1 and x.known_shape[-1] in (1, 2)) or (rank > 2 and is_symbolic(x.known_shape[-1]))):
        return x
    view = x.viewed(x.known_shape[:-1])
    if x.known_shape[-1] == 2:
        view.dtype = {"float64": "complex128", "float16": "complex32"}.get(x.dtype, "complex64")
    return view


def _transformed_axis(a: Arguments) -> Any:
    n = node_of(a)
    rank = len(n.value("input").known_shape)
    found = n.axis(rank, "axis") if n.get("axis") is not None else rank - 2 if n.version >= 20 else 1
    return None if found is None else (found,)


def _transformed_length(n: Node) -> Any:
    # None if it is the length of the input.
    length = n.number("dft_length")
    if length is None and n.args.get("inverse") and n.args.get("onesided"):
        (axis,) = _transformed_axis(n.args)
        return n.outputs[0].known_shape[axis] if n.outputs[0] is not None else None
    return length


_TRANSFORM = {"axes": determined(lambda n: _transformed_axis(n.args)), "length": determined(_transformed_length)}


def _is_complex(a: Arguments) -> bool:
    return bool(_complex_view(a).dtype.startswith("complex"))


def _is_whole(a: Arguments) -> bool:
    # The inverse transform of half a spectrum is a real signal.
    return _is_complex(a) and not (a.get("inverse") and a.get("onesided"))


def _frame_length(a: Arguments) -> Any:
    n = node_of(a)
    window = n.get("window")
    if window is not None:
        return window.known_shape[0]
    return n.number("frame_length") if n.get("frame_length") is not None else n.value("signal").known_shape[1]


_FRAME_LENGTH = determined(lambda n: _frame_length(n.args))

SIGNAL_ROWS: tuple[Row, ...] = (
    *(Row(f"ai.onnx::{native}", op) for native, op in WINDOWS.items()),
    Row("ai.onnx::MelWeightMatrix", "mel_weights"),
    Row("ai.onnx::DFT", "fft", {"x": _complex_view}, {**_TRANSFORM, "inverse": flag("inverse")}, when=_is_whole),
    Row(
        "ai.onnx::DFT",
        "inverse_real_fft",
        {"x": _complex_view},
        {**_TRANSFORM, "scaled": flag("inverse")},
        when=_is_complex,
    ),
    Row("ai.onnx::DFT", "real_fft", {"x": _complex_view}, {**_TRANSFORM, "scaled": flag("inverse")}),
    Row(
        "ai.onnx::STFT",
        "stft",
        {"x": _complex_view, "window": "window"},
        {"length": _FRAME_LENGTH, "frames": determined(lambda n: n.outputs[0] and n.outputs[0].known_shape[1])},
        when=lambda a: _FRAME_LENGTH(a) is not None,
    ),
)


ROWS: tuple[Row, ...] = (
    *(*MATMUL_ROWS, *LINALG_ROWS),
    *(*CONV_ROWS, *POOLING_ROWS, *RESAMPLING_ROWS, *SIGNAL_ROWS),
)


RULES: Mapping[str, Rule] = {
    **MATMUL_RULES,
    **LINALG_RULES,
    **CONV_RULES,
    **POOLING_RULES,
    **RESAMPLING_RULES,
    **SIGNAL_RULES,
}
