"""Rows of operators with channels last: those of the standard, whose rules of shapes turn the input around."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from costcore.translate import Arguments, Row

from . import table_contrib_quantized
from .contrib import NHWC, NHWC_INPUTS
from .rows import conv, layout, normalization, pooling, quantization, resampling
from .rows.conv import CONVOLUTION
from .table_contrib import FUSED, fused_with

FAMILIES = (conv, layout, normalization, pooling, quantization, resampling, table_contrib_quantized)


def _is_plain(a: Arguments) -> bool:
    return not a.get("activation")


def _both(row: Row) -> Any:
    """The condition of a row, and that nothing is fused to its operator."""
    return _is_plain if row.when is None else lambda a: _is_plain(a) and row.when is not None and row.when(a)


def _standard() -> Iterator[Row]:
    """The rows of the same operators with channels first."""
    taken = ("Resize", "QLinearConvTranspose")
    for family in FAMILIES:
        for row in family.ROWS:
            domain, _, op = row.native.partition("::")
            if op not in NHWC_INPUTS or op in taken or (domain != "ai.onnx" and op != "QLinearAveragePool"):
                continue
            yield replace(row, native=f"{NHWC}::{op}", when=_both(row))


def _mode(a: Arguments) -> str:
    mode = str(a.get("mode", "nearest"))
    return "linear" if mode in ("bilinear", "trilinear") else mode


SCALED = {name: name for name in ("x_scale", "x_zero_point", "w_scale", "w_zero_point", "y_scale", "y_zero_point")}

ROWS: tuple[Row, ...] = (
    *_standard(),
    Row(
        f"{NHWC}::Conv",
        "fused_conv",
        {"x": "X", "w": "W", "b": "B"},
        {**CONVOLUTION, "activation": fused_with},
        when=lambda a: a.get("activation") in FUSED,
    ),
    Row(
        f"{NHWC}::QLinearConvTranspose",
        "quantized_conv_transpose",
        {"x": "x", "w": "w", "b": "B", **SCALED},
        CONVOLUTION,
    ),
    Row(f"{NHWC}::Resize", "resize", {"x": "X"}, {"mode": _mode}),
)
"""The rows of this family."""
