"""Rows of linear algebra on matrices."""

from __future__ import annotations

from costcore.translate import Row

ROWS: tuple[Row, ...] = (Row("ai.onnx::Det", "det", {"x": "X"}),)
