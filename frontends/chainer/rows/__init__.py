"""The rows of Chainer's functions: one module per operator family, or for neighboring families."""

from __future__ import annotations

from costcore.plugins import modules_with
from costcore.translate import Row

FAMILIES = modules_with("ROWS", __package__)

ROWS: tuple[Row, ...] = tuple(row for family in FAMILIES for row in family.ROWS)
