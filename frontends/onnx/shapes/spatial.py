"""Shapes of convolutions, poolings and resampling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from costcore.dims import Dim, is_symbolic

from ..node import Node
from ..values.constant_folding import exact
from ..values.value import Value
from .windows import Windows, kernel_of, kernel_of_weight, spatial, transposed_windows, windows

WINDOWS = "windows"
"""Under this name a node's cache keeps its windows for the table rows."""


MODES = ("nearest", "linear", "bilinear", "trilinear", "cubic")
"""How a resize may sample, in all versions."""


def conv(node: Node) -> Sequence[Value]:
    """Convolution, also of integers."""
    x, w = node.value("X", "x"), node.value("W", "w")
    _check_weight(node, x, w, transposed=False)
    found = windows(node, spatial(node, x.known), kernel_of_weight(node, w.known))
    node.cache[WINDOWS] = found
    zero = node.get("y_zero_point")
    dtype = zero.dtype if zero is not None else "int32" if node.op == "ConvInteger" else x.dtype
    return [node.result((x.known[0], w.known[0], *found.out), dtype)]


def conv_transpose(node: Node) -> Sequence[Value]:
    """Transposed convolution: the weight is ``[Cin, Cout/G, ...]``."""
    x, w = node.value("X"), node.value("W")
    _check_weight(node, x, w, transposed=True)
    found = transposed_windows(node, spatial(node, x.known), kernel_of_weight(node, w.known))
    node.cache[WINDOWS] = found
    return [node.result((x.known[0], w.known[1] * node.args.get("group", 1), *found.out), x.dtype)]


def _check_weight(node: Node, x: Value, w: Value, transposed: bool) -> None:
    groups, channels = node.args.get("group", 1), x.known[1] if len(x.known) > 1 else None
    if groups < 1:
        raise node.error(f"has {groups} groups")
    if len(w.known) != len(x.known) or len(x.known) < 3:
        raise node.error(f"needs weights of the rank of its input, got {x.known} and {w.known}")
    taken = w.known[0] if transposed else w.known[1] * groups
    if isinstance(channels, int) and isinstance(taken, int) and channels != taken:
        raise node.error(f"has {channels} input channels, but weights {w.known} in {groups} groups for {taken}")
    for channels in (x.known[1], *(() if transposed else (w.known[0],))):
        if isinstance(channels, int) and channels % groups:
            raise node.error(f"has {groups} groups, which do not divide {channels} channels")


def pool(node: Node) -> Sequence[Value]:
    """Pooling with a kernel; the places of maxima on demand."""
    x = node.value("X")
    found = windows(node, spatial(node, x.known), kernel_of(node))
    node.cache[WINDOWS] = found
    shape = (*x.known[:2], *found.out)
    return [node.result(shape, x.dtype), node.result(shape, "int64")]


def global_pool(node: Node) -> Sequence[Value]:
    """One window as large as the input."""
    x = node.value("X")
    space = spatial(node, x.known)
    ones = (1,) * len(space)
    node.cache[WINDOWS] = Windows(space, ones, ones, (0,) * len(space), (0,) * len(space), ones)
    return [node.result((*x.known[:2], *ones), x.dtype)]


def max_unpool(node: Node) -> Sequence[Value]:
    """The input of a pooling again, as far as its settings tell it."""
    x, wanted = node.value("X"), node.numbers("output_shape")
    if wanted is None:
        found = transposed_windows(node, spatial(node, x.known), kernel_of(node))
        wanted = (*x.known[:2], *found.out)
    return [node.result(wanted, x.dtype)]


def regions(node: Node) -> Sequence[Value]:
    """One small map a region of interest."""
    x, boxes = node.value("X"), node.value("rois")
    size = node.args.get("pooled_shape") or (node.args.get("output_height", 1), node.args.get("output_width", 1))
    return [node.result((boxes.known[0], x.known[1], *size), x.dtype)]


def resize(node: Node) -> Sequence[Value]:
    """Other lengths, by sizes or by scales; since opset 18 of some axes only."""
    x = node.value("X", "input")
    if node.args.get("mode", "nearest") not in MODES:
        raise node.error(f"has the unknown mode {node.args['mode']!r}")
    sizes, scales = _filled(node, "sizes"), _filled(node, "scales")
    if not sizes and not scales and "height_scale" in node.args:
        scales = (1.0, 1.0, node.args["height_scale"], node.args["width_scale"])
    axes = node.axes(len(x.known), "axes") or tuple(range(len(x.known)))
    if len(sizes or scales) != len(axes):
        raise node.error(f"has {len(sizes or scales)} sizes or scales for {len(axes)} axes")
    shape = list(x.known)
    policy = node.args.get("keep_aspect_ratio_policy", "stretch")
    if sizes and policy != "stretch":
        sizes = _proportional(node, [x.known[axis] for axis in axes], sizes, policy)
    for i, axis in enumerate(axes):
        shape[axis] = sizes[i] if sizes else scaled(x.known[axis], scales[i])
    return [node.result(shape, x.dtype)]


def _filled(node: Node, name: str) -> tuple[Any, ...]:
    """Numbers of an input that stands empty where it is not meant."""
    value = node.args.get(name)
    return () if isinstance(value, Value) and value.shape == (0,) else node.numbers(name) or ()


def scaled(length: Dim, scale: Any) -> Dim:
    """``floor(length * scale)`` as single precision has it."""
    if is_symbolic(length) or is_symbolic(scale):
        from sympy import floor

        return floor(length * exact(scale))
    if isinstance(scale, int) or float(scale).is_integer():
        return length * int(scale)
    return int(np.floor(np.float32(length) * np.float32(scale)))


def _proportional(node: Node, lengths: Sequence[Dim], sizes: Sequence[Any], policy: str) -> tuple[Any, ...]:
    if any(map(is_symbolic, (*lengths, *sizes))) or 0 in lengths:
        raise node.error("keeps the aspect ratio of lengths that are not known; give them as numbers")
    ratios = [size / length for size, length in zip(sizes, lengths, strict=True)]
    ratio = min(ratios) if policy == "not_larger" else max(ratios)
    return tuple(int(length * ratio + 0.5) for length in lengths)


def grid_sample(node: Node) -> Sequence[Value]:
    """One sample a place of the grid."""
    x, grid = node.value("X").known, node.value("grid", "Grid").known
    return [node.result((*x[:2], *grid[1:-1]), node.value("X").dtype)]


def affine_grid(node: Node) -> Sequence[Value]:
    """A grid over an output of the named size."""
    size = node.numbers("size") or ()
    return [node.result((size[0], *size[2:], len(size) - 2), node.value("theta").dtype)]


def col2im(node: Node) -> Sequence[Value]:
    """Blocks added into an image."""
    x, image, block = node.value("input"), node.numbers("image_shape") or (), node.numbers("block_shape") or (1,)
    channels = x.known[1]
    for length in block:
        channels = channels // length
    return [node.result((x.known[0], channels, *image), x.dtype)]


RULES = {
    **dict.fromkeys(("Conv", "ConvInteger", "QLinearConv", "DeformConv"), conv),
    "ConvTranspose": conv_transpose,
    **dict.fromkeys(("MaxPool", "AveragePool", "LpPool"), pool),
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"), global_pool),
    "MaxUnpool": max_unpool,
    "MaxRoiPool": regions,
    "RoiAlign": regions,
    "Resize": resize,
    "Upsample": resize,
    "GridSample": grid_sample,
    "AffineGrid": affine_grid,
    "Col2Im": col2im,
}
