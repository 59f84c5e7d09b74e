"""Activation functions that ONNX Runtime adds, and the names of those that it fuses with other operators."""

from __future__ import annotations

from typing import Any

from costcore.translate import Arguments

from ..shapes.rules import like
from .spec import OperatorSpec, row

FUSED = {
    "Relu": "relu",
    "LeakyRelu": "leaky_relu",
    "Sigmoid": "sigmoid",
    "Tanh": "tanh",
    "HardSigmoid": "hard_sigmoid",
    "Clip": "clip",
    "Gelu": "gelu",
    "FastGelu": "fast_gelu",
    "QuickGelu": "quick_gelu",
    "Elu": "elu",
    "Softplus": "softplus",
    "HardSwish": "hard_swish",
    "SiLU": "silu",
    "Swish": "silu",
    "Selu": "selu",
}
"""Canonical names of the activations that ONNX Runtime fuses with other operators, by their names there."""


def fused_with(a: Arguments) -> Any:
    """Return the canonical name of the fused activation; None if there is none."""
    name = a.get("activation")
    return FUSED.get(name, name) if name else None


def has_supported_activation(a: Arguments) -> bool:
    """Return whether the fused activation, if any, has a formula."""
    return not a.get("activation") or a["activation"] in FUSED


SPECS: tuple[OperatorSpec, ...] = (
    OperatorSpec(
        "QuickGelu",
        "X",
        infer=like("X"),
        rows=[row("quick_gelu", {"x": "X"}, {"alpha": lambda a: a.get("alpha", 1.702)})],
    ),
    OperatorSpec(
        "Gelu",
        "X",
        infer=like("X"),
        rows=[row("gelu", {"x": "X"}, {"approximate": lambda a: "none"})],
    ),
)
