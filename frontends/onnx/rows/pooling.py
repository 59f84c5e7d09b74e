"""Rows of poolings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costcore.translate import Row

from .arguments import SPATIAL, X, flag

POOL: Mapping[str, Any] = {**SPATIAL, "ceil_mode": flag("ceil_mode")}

GLOBAL: Mapping[str, Any] = {**SPATIAL, "adaptive": lambda a: True}


ROWS: tuple[Row, ...] = (
    Row("ai.onnx::MaxPool", "max_pool", X, POOL),
    Row("ai.onnx::AveragePool", "avg_pool", X, POOL),
    Row("ai.onnx::LpPool", "lp_pool", X, {**POOL, "p": "p"}),
    Row("ai.onnx::GlobalAveragePool", "avg_pool", X, GLOBAL),
    Row("ai.onnx::GlobalMaxPool", "max_pool", X, GLOBAL),
    Row("ai.onnx::GlobalLpPool", "lp_pool", X, {**GLOBAL, "p": "p"}),
    Row("ai.onnx::MaxUnpool", "unpool", {"x": "X", "indices": "I"}),
    Row("ai.onnx::MaxRoiPool", "roi_max_pool", {"x": "X", "rois": "rois"}),
    Row(
        "ai.onnx::RoiAlign",
        "roi_align",
        {"x": "X", "rois": "rois", "batch_indices": "batch_indices"},
        {"mode": "mode", "sampling": lambda a: (a.get("sampling_ratio", 0),) * 2},
    ),
)
