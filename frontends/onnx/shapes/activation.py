"""Shapes of activation functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..graph.node import Node, Rule
from ..values.value import Value
from .elementwise import arithmetic
from .rules import same_shape


def gelu(node: Node) -> Sequence[Value]:
    """Infer an output like the input.

    Raises:
        CostError: for an unknown approximation.
    """
    approximation = node.args.get("approximate", "none")
    if approximation not in ("none", "tanh"):
        raise node.error(f"has the approximation {approximation!r} (expected 'none' or 'tanh')")
    return same_shape(node)


RULES: Mapping[str, Rule] = {
    **{
        f"ai.onnx::{op}": same_shape
        for op in (
            *("Celu", "Elu", "HardSigmoid", "HardSwish", "Hardmax", "LeakyRelu", "LogSoftmax", "Mish", "PRelu"),
            *("Relu", "Selu", "Shrink", "Sigmoid", "Softmax", "Softplus", "Softsign", "Swish", "Tanh"),
            "ThresholdedRelu",
        )
    },
    "ai.onnx::Gelu": gelu,
    "ai.onnx::SwiGLU": arithmetic,
}
"""Rules by full operator name."""
