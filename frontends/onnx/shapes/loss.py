"""Shapes of losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..graph.node import Node, Rule
from ..values.value import Value


def loss(node: Node) -> Sequence[Value]:
    """Infer the loss, one for each target or one in total, and the log-probabilities."""
    x, target = node.value("scores", "input"), node.value("labels", "target")
    shape = target.known_shape if node.args.get("reduction") == "none" else ()
    return [node.result(shape, x.dtype), node.result(x.known_shape, x.dtype)]


RULES: Mapping[str, Rule] = {
    "ai.onnx::NegativeLogLikelihoodLoss": loss,
    "ai.onnx::SoftmaxCrossEntropyLoss": loss,
}
"""Rules by full operator name."""
