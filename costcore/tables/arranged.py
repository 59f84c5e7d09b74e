"""The tables of a run: columns, and rows of calls, of groups and of modules, with any quantity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from costcore.ledger.ledger import Ledger
from costcore.tables.arrange import arrange
from costcore.tables.cells import Cells, TableRow
from costcore.tables.columns import with_quantities
from costcore.tables.quantity import Quantity
from costcore.text.table import Column


class Arranged:
    """The columns and rows of a table of a run, with the quantities that are asked for.

    Args:
        ledger: the ledger of the report.
        preset: the columns that the table has by itself, by name.
        columns: names of the columns to show, or quantities.
        sort: the column to sort by; None keeps the order.
        more: quantities that only this table has.

    Raises:
        TypeError, ValueError: if a name or a parameter is unknown.
        CostError, OSError: if a file that a name has as parameter cannot be read.
    """

    def __init__(
        self,
        ledger: Ledger,
        preset: Mapping[str, Column],
        columns: Sequence[str | Quantity],
        sort: str | None,
        more: Sequence[Quantity] = (),
    ) -> None:
        self._preset = preset
        self.columns = with_quantities(preset, columns)
        self._order = None if sort is None else with_quantities(preset, [sort])[0]
        by_name: dict[Any, Quantity] = {each.name: each for each in more}
        asked = (*columns, *([] if sort is None else [sort]))
        self._names = [name if isinstance(name, Quantity) else by_name.get(name, name) for name in asked]
        self._ledger = ledger
        self._cells: Cells | None = None

    @property
    def remarks(self) -> list[str]:
        """What the quantities in the rows mean or leave out."""
        return [] if self._cells is None else self._cells.remarks

    def rows(self, rows: Sequence[TableRow], top: int | None, label: str = "name") -> list[Mapping[str, Any]]:
        """Return the entries of the rows, sorted and limited, and that of the total as the last one."""
        total = self._ledger.total
        known = {*(rows[0].entry if rows else self._preset), *(key for key in ("seconds", "seconds%") if key in total)}
        cells = self._cells = Cells(self._names, known, self._ledger)
        entries = arrange(cells.of_rows(rows), self._order, top, self._ledger, label, cells)
        return [*entries, {**total, **cells.total(), label: "total"}]

    def tree(self, tree: dict[str, Any], depth: int | None, top: int | None, mode: str) -> list[Mapping[str, Any]]:
        """Return the rows of the module tree, the whole model first; see :func:`tree_rows`."""
        from costcore.tables.tree_rows import tree_rows

        cells = self._cells = Cells(self._names, {*tree, "module", "depth"}, self._ledger)
        cells.add_to_tree(tree)
        return tree_rows(tree, depth, self._order, top, mode, cells)
