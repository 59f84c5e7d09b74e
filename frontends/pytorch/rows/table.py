"""The mapping rules of all operator families."""

from __future__ import annotations

from costcore.import_paths import modules_with
from costcore.translate import Row

FAMILIES = modules_with("ROWS", __package__, first=("matmul",))
"""The files of rows; the row of ``aten::_to_dense`` for sparse tensors comes before the one that copies (layout)."""

ROWS: tuple[Row, ...] = tuple(row for family in FAMILIES for row in family.ROWS)
"""All rows. A native name includes the overload (``aten::max.other``) if overloads need different rows, and the row
with the overload is used before the one without. An in-place operator uses the row of the out-of-place operator."""
