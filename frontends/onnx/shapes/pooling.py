"""Shapes of poolings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..graph.node import Inferred, Node, Rule
from ..values.value import Value
from .windows import Windows, kernel_of, spatial_dims, transposed_windows, windows


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
    """Infer the input of a pooling, from the given shape or the windows."""
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


RULES: Mapping[str, Rule] = {
    **{f"ai.onnx::{op}": pool for op in ("MaxPool", "AveragePool", "LpPool")},
    **{f"ai.onnx::{op}": global_pool for op in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")},
    "ai.onnx::MaxUnpool": max_unpool,
    "ai.onnx::MaxRoiPool": regions,
    "ai.onnx::RoiAlign": regions,
}
"""Rules by full operator name."""
