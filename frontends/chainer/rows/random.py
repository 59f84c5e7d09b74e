"""Rows of dropout and its gradient."""

from __future__ import annotations

from costcore.translate import Row

from .arguments import X, array_attribute, attribute, constant, input_at, row

ROWS: tuple[Row, ...] = (
    Row(  # runs in training only
        "chainer::Dropout",
        "dropout",
        X,
        {"rate": attribute("dropout_ratio"), "training": constant(True)},
        outputs=lambda args, outputs: (*outputs, args["function"].mask),
    ),
    row("DropoutGrad", "dropout_backward", {"dy": input_at(0), "mask": array_attribute("mask")}),
    row("DropoutGradCuDNN", "dropout_backward", {"dy": input_at(0), "mask": array_attribute("states")}),
)
