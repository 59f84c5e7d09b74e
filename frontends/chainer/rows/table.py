"""The whole table: which of Chainer's functions is which canonical operator."""

from __future__ import annotations

from costcore.import_paths import modules_with
from costcore.translate import Row

FAMILIES = modules_with("ROWS", __package__, first=("activation", "layout"))
"""The files of rows. The first matching row of a function is used: ``x[...]`` is a slice (layout), or else a
selection by a mask or a gather (indexing); a clipped ReLU is ReLU6 (activation), or else a clip (elementwise)."""

ROWS: tuple[Row, ...] = tuple(row for family in FAMILIES for row in family.ROWS)
