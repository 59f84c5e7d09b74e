"""Shapes of normalizations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..graph.node import Node, Rule
from ..values.value import Value
from .rules import same_shape


def batch_norm(node: Node) -> Sequence[Value]:
    """Infer the output; in training also the running statistics (and, before opset 14, those of the batch)."""
    x, mean = node.value("X"), node.value("input_mean", "mean")
    return [node.result(x.known_shape, x.dtype), *(node.result(mean.known_shape, mean.dtype) for _ in range(4))]


def layer_norm(node: Node) -> Sequence[Value]:
    """Infer the output, and the mean and inverse standard deviation of each row."""
    x = node.value("X")
    axis = node.axis(len(x.known_shape), "axis") or 0
    rows = (*x.known_shape[:axis], *(1 for _ in x.known_shape[axis:]))
    return [node.result(x.known_shape, x.dtype), node.result(rows, "float32"), node.result(rows, "float32")]


RULES: Mapping[str, Rule] = {
    "ai.onnx::BatchNormalization": batch_norm,
    "ai.onnx::LayerNormalization": layer_norm,
    **{
        f"ai.onnx::{op}": same_shape
        for op in (
            *("GroupNormalization", "InstanceNormalization", "LRN", "LpNormalization", "MeanVarianceNormalization"),
            "RMSNormalization",
        )
    },
}
"""Rules by full operator name."""
