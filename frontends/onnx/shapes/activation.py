"""Shapes of activation functions."""

from __future__ import annotations

from collections.abc import Mapping

from ..graph.node import Rule
from .elementwise import arithmetic
from .rules import same

RULES: Mapping[str, Rule] = {
    **{
        f"ai.onnx::{op}": same
        for op in (
            *("Celu", "Elu", "Gelu", "HardSigmoid", "HardSwish", "Hardmax", "LeakyRelu", "LogSoftmax", "Mish", "PRelu"),
            *("Relu", "Selu", "Shrink", "Sigmoid", "Softmax", "Softplus", "Softsign", "Swish", "Tanh"),
            "ThresholdedRelu",
        )
    },
    "ai.onnx::SwiGLU": arithmetic,
}
"""Rules by full operator name."""
