"""Rows of dropout and of random numbers."""

from __future__ import annotations

from typing import Any

from costcore.translate import Arguments, Row

from .arguments import node_of, number


def _dropout_trains(a: Arguments) -> bool:
    """Return whether dropout is in training mode."""
    version = node_of(a).version
    return not a.get("is_test") if version < 7 else bool(number("training_mode")(a))


def _dropout_outputs(a: Arguments, values: Any) -> Any:
    """Return the outputs that are computed: no mask in inference."""
    return values if _dropout_trains(a) else values[:1]


ROWS: tuple[Row, ...] = (
    Row(
        "ai.onnx::Dropout",
        "dropout",
        {"x": "data"},
        {"rate": number("ratio"), "training": _dropout_trains},
        outputs=_dropout_outputs,
    ),
    Row("ai.onnx::Bernoulli", "bernoulli", {"x": "input"}),
    Row("ai.onnx::Multinomial", "multinomial", {"x": "input"}),
    *(Row(f"ai.onnx::Random{kind}", "random") for kind in ("Normal", "NormalLike", "Uniform", "UniformLike")),
)
