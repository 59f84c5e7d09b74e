"""Shapes of optimizer steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..graph.node import Node, Rule
from ..values.value import Value


def optimizer(node: Node) -> Sequence[Value]:
    """The parameters and their moments, which come after parameters and gradients among the inputs."""
    given = node.values("inputs")
    parts = 4 if node.op == "Adam" else 3
    if len(given) % parts:
        raise node.error(f"has {len(given)} tensors, which are not {parts} for every parameter")
    count = len(given) // parts
    return [node.result(value.known, value.dtype) for value in (*given[:count], *given[2 * count :])]


RULES: Mapping[str, Rule] = {
    **{f"ai.onnx.preview.training::{op}": optimizer for op in ("Adagrad", "Adam", "Momentum")},
}
"""Rules by full operator name."""
