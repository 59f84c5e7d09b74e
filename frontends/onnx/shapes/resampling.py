"""Shapes of resizing and of sampling at the points of a grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from costcore.numbers.dims import Dim, floor_div, is_symbolic
from costcore.numbers.symbolic import as_text

from ..graph.node import Node, Rule
from ..values.constant_folding import exact
from ..values.dimensions import may_be_equal
from ..values.value import Value

MODES = ("nearest", "linear", "bilinear", "trilinear", "cubic")
"""How a resize may sample, in all versions."""


def resize(node: Node) -> Sequence[Value]:
    """Infer other sizes, given directly or by scales; since opset 18 of some axes only."""
    x = node.value("X", "input")
    if node.args.get("mode", "nearest") not in MODES:
        raise node.error(f"has the mode {node.args['mode']!r} (expected one of {', '.join(map(repr, MODES))})")
    sizes, scales = _filled(node, "sizes"), _filled(node, "scales")
    if not sizes and not scales and "height_scale" in node.args:
        scales = (1.0, 1.0, node.args["height_scale"], node.args["width_scale"])
    axes = node.axes(len(x.known_shape), "axes") or tuple(range(len(x.known_shape)))
    if len(sizes or scales) != len(axes):
        raise node.error(f"has {len(sizes or scales)} sizes or scales for {len(axes)} axes")
    shape: list[Dim | None] = list(x.known_shape)
    policy = node.args.get("keep_aspect_ratio_policy", "stretch")
    if sizes and policy != "stretch":
        sizes = _proportional(node, [x.known_shape[axis] for axis in axes], sizes, policy)
    for i, axis in enumerate(axes):
        length = x.known_shape[axis]
        new = sizes[i] if sizes else None if scales[i] is None else scaled(length, scales[i])
        shape[axis] = new
        if axis < 2 and new is not None and may_be_equal(length, new):
            change = f"axis {axis} of size {as_text(length)} is resized to {as_text(new)}"
            node.assumed.append(f"{change}: assumed to be equal")
    return [node.result(shape, x.dtype)]


def _filled(node: Node, name: str) -> tuple[Any, ...]:
    """Return the numbers of an input that is empty if it is not used; None for unknown ones."""
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


def _proportional(node: Node, lengths: Sequence[Dim], sizes: Sequence[Any], policy: str) -> tuple[Any, ...]:
    """Return sizes that keep the aspect ratio."""
    if None in sizes:
        return (None,) * len(sizes)
    if any(map(is_symbolic, (*lengths, *sizes))) or 0 in lengths:
        raise node.error("keeps the aspect ratio of symbolic sizes; give numbers for them")
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


RULES: Mapping[str, Rule] = {
    "ai.onnx::Resize": resize,
    "ai.onnx::Upsample": resize,
    "ai.onnx::GridSample": grid_sample,
    "ai.onnx::AffineGrid": affine_grid,
}
"""Rules by full operator name."""
