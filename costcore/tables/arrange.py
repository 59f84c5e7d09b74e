"""The rows of a table: sorted, limited to the first, and the others summed in one row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from costcore.ledger.checks import check_top
from costcore.ledger.ledger import Ledger
from costcore.numbers.symbolic import magnitude
from costcore.tables.cells import Cells, TableRow
from costcore.tables.quantity import NUMERIC
from costcore.text.table import Column


def in_order(items: Iterable[Any], column: Column, entry_of: Callable[[Any], Mapping[str, Any]]) -> list[Any]:
    """Return the items sorted by a column: numbers from the largest, text alphabetically.

    The order is stable. Symbolic expressions are ranked by :func:`costcore.numbers.symbolic.magnitude`, percentages by
    the amounts they are percentages of; missing values come last.

    Args:
        items: the items to sort.
        column: the column to sort by.
        entry_of: returns the entry of an item.
    """
    key = column.key.removesuffix("%")

    def rank(item: Any) -> tuple[int, Any]:
        value = entry_of(item).get(key, "")
        if column.kind not in NUMERIC:
            return 0, str(value)
        return (1, 0) if value is None or isinstance(value, str) else (0, -magnitude(value))

    return sorted(items, key=rank)


def limited(rows: Sequence[Any], top: int | None, others: Callable[[Sequence[Any]], Any]) -> Sequence[Any]:
    """Return the first rows, and one that stands for all others if there are more.

    Args:
        rows: the rows in order.
        top: the maximum number of rows; None for all.
        others: returns the row that stands for several.

    Raises:
        TypeError, ValueError: if ``top`` is not a positive integer.
    """
    check_top(top)
    return rows if top is None or len(rows) <= top else [*rows[:top], others(rows[top:])]


def arrange(
    rows: Sequence[TableRow],
    sort: Column | None,
    top: int | None,
    ledger: Ledger,
    label: str = "name",
    cells: Cells | None = None,
) -> list[Mapping[str, Any]]:
    """Return the entries of the rows, sorted and limited; a last entry ``others`` sums the rows beyond the limit.

    Args:
        rows: the rows in their original order.
        sort: the column to sort by; None keeps the order.
        top: the maximum number of rows; None for all.
        ledger: the ledger of the report, which sums the calls of the other rows.
        label: the column that contains the text ``others``.
        cells: the quantities in the rows beside those that the ledger sums.
    """

    def others(hidden: Sequence[TableRow]) -> TableRow:
        calls = [call for row in hidden for call in row.calls]
        sums = {k: v for k, v in (cells.of(calls) if cells else {}).items() if not isinstance(v, (str, list, tuple))}
        entry = {**ledger.sum(calls), **sums, "name": "others", "type": "others", label: "others"}
        if all("n_shared" in row.entry for row in hidden):
            not_shared = sum(row.entry["n_params"] - row.entry["n_shared"] for row in hidden)
            entry["n_shared"] = entry["n_params"] - not_shared
        return TableRow(entry, calls)

    if sort is not None:
        rows = in_order(rows, sort, lambda row: row.entry)
    return [row.entry for row in limited(rows, top, others)]
