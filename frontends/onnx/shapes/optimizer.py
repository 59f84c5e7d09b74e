"""Shapes of optimizer steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..graph.node import Node, Rule
from ..values.value import Value


def optimizer(node: Node) -> Sequence[Value]:
    """Infer the updated parameters and moments; inputs are parameters, gradients, and moments."""
    given = node.values("inputs")
    parts = 4 if node.op == "Adam" else 3
    if len(given) % parts:
        raise node.error(f"has {len(given)} inputs (expected {parts} for each parameter)")
    count = len(given) // parts
    return [node.result(value.known_shape, value.dtype) for value in (*given[:count], *given[2 * count :])]


RULES: Mapping[str, Rule] = {
    **{f"ai.onnx.preview.training::{op}": optimizer for op in ("Adagrad", "Adam", "Momentum")},
}
"""Rules by full operator name."""
