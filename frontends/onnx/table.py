"""The whole table: one row an ONNX operator, for all its versions."""

from __future__ import annotations

from costcore.translate import Row

from . import (
    table_classical,
    table_contrib,
    table_contrib_attention,
    table_contrib_more,
    table_contrib_nhwc,
    table_contrib_norms,
    table_contrib_quantized,
    table_contrib_sparse,
    table_elementwise,
    table_layers,
    table_layout,
    table_states,
)

FAMILIES = (
    table_layers,
    table_elementwise,
    table_layout,
    table_states,
    table_classical,
    table_contrib,
    table_contrib_attention,
    table_contrib_norms,
    table_contrib_quantized,
    table_contrib_more,
    table_contrib_sparse,
    table_contrib_nhwc,
)

ROWS: tuple[Row, ...] = tuple(row for family in FAMILIES for row in family.ROWS)
"""Rows by family, keyed by full native name; arguments go by the names of the operator's schema."""
