"""Rows of losses."""

from __future__ import annotations

from costcore.translate import Row

ROWS: tuple[Row, ...] = (
    Row(
        "ai.onnx::NegativeLogLikelihoodLoss",
        "nll_loss",
        {"x": "input", "target": "target", "w": "weight"},
        {"reduction": "reduction"},
    ),
    Row(
        "ai.onnx::SoftmaxCrossEntropyLoss",
        "cross_entropy",
        {"x": "scores", "target": "labels", "w": "weights"},
        {"reduction": "reduction"},
    ),
)
