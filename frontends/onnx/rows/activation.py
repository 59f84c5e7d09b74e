"""Rows of activation functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costcore.translate import Arguments, Row

from .arguments import INPUT, X, axes_from, axis, node_of, operands


def softmax_axis(a: Arguments) -> Any:
    """Return one axis; before opset 13, all axes from it on."""
    if node_of(a).version >= 13:
        return axis("input")(a)
    axes = axes_from("input", 1)(a)
    return axes[0] if len(axes) == 1 else axes


ACTIVATIONS: tuple[tuple[str, str, Mapping[str, Any]], ...] = (
    ("LeakyRelu", "leaky_relu", {"slope": "alpha"}),
    ("Elu", "elu", {"alpha": "alpha"}),
    ("Celu", "celu", {"alpha": "alpha"}),
    ("Selu", "selu", {}),
    ("Gelu", "gelu", {"approximate": "approximate"}),
    ("HardSigmoid", "hard_sigmoid", {"slope": "alpha", "shift": "beta"}),
    ("ThresholdedRelu", "threshold", {"threshold": "alpha"}),
    ("Shrink", "soft_shrink", {"lambd": "lambd", "bias": "bias"}),
    ("Swish", "swish", {"beta": "alpha"}),
)


UNARY: Mapping[str, str] = {
    **{native: native.lower() for native in ("Mish", "Relu", "Sigmoid", "Softplus", "Softsign", "Tanh")},
    "HardSwish": "hard_swish",
}
"""Functions of one input without attributes."""


ROWS: tuple[Row, ...] = (
    *(Row(f"ai.onnx::{native}", op, {"x": INPUT}) for native, op in UNARY.items()),
    Row("ai.onnx::Softmax", "softmax", X, {"axis": softmax_axis}),
    Row("ai.onnx::LogSoftmax", "log_softmax", X, {"axis": softmax_axis}),
    Row("ai.onnx::Swish", "silu", {"x": INPUT}, when=lambda a: a.get("alpha", 1.0) == 1),
    Row("ai.onnx::Shrink", "hard_shrink", {"x": INPUT}, {"lambd": "lambd"}, when=lambda a: not a.get("bias")),
    Row("ai.onnx::PRelu", "prelu", {"x": "X", "w": "slope"}),
    Row("ai.onnx::SwiGLU", "swiglu", {"x*": operands("A", "B")}, {"alpha": "alpha"}),
    Row("ai.onnx::Hardmax", "hardmax", {"x": "input"}, {"axis": softmax_axis}),
    *(Row(f"ai.onnx::{native}", op, {"x": INPUT}, attrs) for native, op, attrs in ACTIVATIONS),
)
