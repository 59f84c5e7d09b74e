"""All rows of the operators of the ONNX standard: one per operator, for all its versions."""

from __future__ import annotations

from costcore.import_paths import modules_with
from costcore.translate import Row

FAMILIES = modules_with("ROWS", __package__)

ROWS: tuple[Row, ...] = tuple(row for family in FAMILIES for row in family.ROWS)
"""Rows by family; arguments have the names of the operator's schema."""
