"""Mapping rules from PyTorch's operators to canonical operators, one module per operator family."""

from __future__ import annotations

from costcore.plugins import modules_with
from costcore.translate import Row

FAMILIES = modules_with("ROWS", __package__)
"""The modules of rows; ``aten::_to_dense`` of sparse tensors (matrices) comes before its copy (movement)."""

ROWS: tuple[Row, ...] = tuple(row for family in FAMILIES for row in family.ROWS)
"""All rows. A native name includes the overload (``aten::max.other``) if overloads need different rows, and the row
with the overload is used before the one without. An in-place operator uses the row of the out-of-place operator."""
