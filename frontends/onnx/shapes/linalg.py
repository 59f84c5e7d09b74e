"""Shapes of linear algebra on matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..graph.node import Node, Rule
from ..values.value import Value


def determinant(node: Node) -> Sequence[Value]:
    """Infer determinants: the shape without the last two axes."""
    x = node.value("X")
    if len(x.known_shape) < 2:
        raise node.error(f"needs an input of 2 or more dimensions (got the shape {x.known_shape})")
    return [node.result(x.known_shape[:-2], x.dtype)]


RULES: Mapping[str, Rule] = {
    "ai.onnx::Det": determinant,
}
"""Rules by full operator name."""
