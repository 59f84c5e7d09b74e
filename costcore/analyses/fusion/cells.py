"""The column ``fused_mrw`` of the tables of a report: bytes after fusion at level ``pointwise``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from costcore.ledger.ledger import Ledger
from costcore.ledger.module_tree import walk
from costcore.tables.arrange import TableRow
from costcore.tables.columns import FUSED_BYTES

KEY = FUSED_BYTES.key


def in_rows(rows: Iterable[TableRow], fused: Ledger) -> list[TableRow]:
    """Return the rows with the column.

    Args:
        rows: rows of the report without fusion.
        fused: the ledger of the same report after fusion.
    """
    return [TableRow({**row.entry, KEY: fused.sum(row.calls)["mrw"]}, row.calls) for row in rows]


def in_tree(tree: dict[str, Any], fused: dict[str, Any]) -> dict[str, Any]:
    """Add the column to every node of :meth:`Report.tree`, from the tree of the same report after fusion."""
    for (_, node), (_, other) in zip(walk(tree), walk(fused), strict=True):
        node[KEY] = other["mrw"]
    return tree
