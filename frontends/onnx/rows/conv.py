"""Rows of convolutions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costcore.translate import Row

from .arguments import SPATIAL

CONVOLUTION: Mapping[str, Any] = {**SPATIAL, "groups": "group"}


ROWS: tuple[Row, ...] = (
    Row("ai.onnx::Conv", "conv", {"x": "X", "w": "W", "b": "B"}, CONVOLUTION),
    Row("ai.onnx::ConvTranspose", "conv_transpose", {"x": "X", "w": "W", "b": "B"}, CONVOLUTION),
    Row(
        "ai.onnx::DeformConv",
        "deform_conv",
        {"x": "X", "w": "W", "offset": "offset", "b": "B", "mask": "mask"},
        CONVOLUTION,
    ),
)
