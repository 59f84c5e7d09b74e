"""Rows of optimizer steps."""

from __future__ import annotations

from costcore.translate import Row

from .arguments import nonzero

OPTIMIZERS = {
    "Adagrad": lambda a: "adagrad_step",
    "Adam": lambda a: "adam_step",
    "Momentum": lambda a: "nesterov_step" if a.get("mode") == "nesterov" else "momentum_step",
}


STEPS = {
    "Adagrad": ("adagrad_step",),
    "Adam": ("adam_step",),
    "Momentum": ("momentum_step", "nesterov_step"),
}


ROWS: tuple[Row, ...] = (
    *(
        Row(
            f"ai.onnx.preview.training::{native}",
            op,
            {"x*": "inputs"},
            {"weight_decay": nonzero("norm_coefficient"), "weight_decay_after": nonzero("norm_coefficient_post")},
            ops=STEPS[native],
        )
        for native, op in OPTIMIZERS.items()
    ),
)
