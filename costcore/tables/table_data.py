"""The exact values of a table: sorted, limited to the first rows, and as text."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, TypeAlias, TypeVar

from costcore.numbers.dims import is_symbolic
from costcore.tables.arrange import in_order, limited
from costcore.tables.columns import choose
from costcore.tables.fit import DROPPED_FIRST, always_shown, fitted, order_of, remark_on, terminal_width
from costcore.tables.quantity import NUMERIC
from costcore.text.encoding import encodable, encodable_table
from costcore.text.screen import Screen, wrapped
from costcore.text.table import Column, TextTable
from costcore.text.targets import writable
from costcore.trace.run import FLOPS

Row: TypeAlias = "Mapping[str, Any]"
"""Exact values by the key of their column."""

AnyTable = TypeVar("AnyTable", bound="TableData")

MOST_ROWS = 40
"""The maximum number of rows of a table that ``print`` and notebooks show; ``show`` and data formats have all rows."""

FRAME = 7
"""The lines of a table besides its rows: its borders, two lines of titles, and two lines that say what is left out."""

FEWEST = 3
"""The least number of rows that a table shows, however many lines are left."""

SUMMED = ("flops", "bytes", "count", "seconds", "duration", "percent")
"""The kinds of columns whose values a row ``others`` sums."""


class TableData:
    """Rows of exact values, which are sorted and limited in one way.

    Attributes:
        title: what the rows are.
        columns: the columns.
        rows: exact values by the key of their column. A missing value, or an empty text, does not apply; None is
            unknown.
        total: the row below all others; None without one.
        remarks: lines below the table.
        unit: what FLOPs are: those of costcore, or what a convention counts.
        is_tree: whether rows are nested by indentation.
        is_open: whether formats that can fold the table show it at first.
        prefix: the prefix of amounts in ``print``: ``auto``, ``autoaligned``, or one for all; None for exact numbers.
        n_digits: the digits of ``print`` after the decimal point.
        others: returns the row that stands for several; default: their sums.
        most: the maximum number of rows that ``print`` and notebooks show: the first ones, or the last ones if it is
            negative; None for :data:`MOST_ROWS`.
        whole: the table from which this one has some of the rows.
        dropped_first: keys of the columns that a narrow terminal does without, in this order; all others are shown.
            None to write the table as wide as it is.
        labels: how many columns at the beginning say what a row is, and are always shown.
    """

    def __init__(
        self,
        title: str,
        columns: Sequence[Column],
        rows: Sequence[Row],
        *,
        total: Row | None = None,
        remarks: Sequence[str] = (),
        unit: str = FLOPS,
        is_tree: bool = False,
        is_open: bool = True,
        prefix: str | None = "auto",
        n_digits: int = 1,
        others: Callable[[Sequence[Row]], Row] | None = None,
        most: int | None = None,
        dropped_first: Sequence[str] | None = DROPPED_FIRST,
        labels: int = 1,
    ) -> None:
        self.title, self.columns, self.rows, self.total = title, list(columns), list(rows), total
        self.remarks, self.unit, self.is_tree, self.is_open = list(remarks), unit, is_tree, is_open
        self.prefix, self.n_digits, self.others = prefix, n_digits, others or self._sums
        self.most, self.whole, self.dropped_first, self.labels = most, self, dropped_first, labels

    def __repr__(self) -> str:
        keys = ", ".join(column.key for column in self.columns)
        return f"<{type(self).__name__} {self.title!r}: {len(self)} rows, {keys[:99]}>"

    def __len__(self) -> int:
        return len(self.rows)

    def sorted(self: AnyTable, column: str | Column) -> AnyTable:
        """Return the table in the order of a column: numbers from the largest, text alphabetically.

        Raises:
            ValueError: if there is no such column.
        """
        if isinstance(column, str):
            column = choose({each.key: each for each in self.columns}, [column])[0]
        return self._with(in_order(self.rows, column, lambda row: row))

    def with_columns(self: AnyTable, names: Sequence[str]) -> AnyTable:
        """Return the table with those of its columns that are named, in their order; as it is if none is."""
        by_name = {column.key: column for column in self.columns}
        shown = self._with(self.rows)
        chosen = [by_name[name] for name in names if name in by_name]
        if chosen:
            shown.columns, shown.dropped_first, shown.labels = chosen, None, 1
        return shown

    def top(self: AnyTable, n: int | None, title: str = "") -> AnyTable:
        """Return the first rows, and a row ``others`` for the remaining ones.

        Args:
            n: how many rows; None for all.
            title: the title if there are more rows; default: that of this table.

        Raises:
            TypeError, ValueError: if ``n`` is not a positive integer.
        """
        shown = limited(self.rows, n, self.others)
        return self if shown is self.rows else self.part(shown, title)

    def in_print(self: AnyTable) -> AnyTable:
        """Return the rows that ``print`` and notebooks show; the title says how many there are."""
        most = MOST_ROWS if self.most is None else self.most
        if len(self) <= abs(most):
            return self
        which, rows = ("first", self.rows[:most]) if most > 0 else ("last", self.rows[most:])
        return self.part(rows, f"{self.title} (the {which} {abs(most)} of {len(self):,} rows)".strip())

    def part(self: AnyTable, rows: Sequence[Row], title: str = "") -> AnyTable:
        """Return a table with some of the rows; data formats of a result that shows it write all rows.

        A table without rows has no total either, and is not shown.
        """
        shown = self._with(rows)
        shown.total = self.total if rows else None
        shown.title, shown.whole = title or self.title, self.whole
        return shown

    def text(self, unit: str | None = "auto", n_digits: int | None = None, *, fixed: bool = True) -> TextTable:
        """Return the cells as text, for a renderer; ``fixed`` keeps trailing zeros."""
        from costcore.tables.tabulate import tabulate

        digits = self.n_digits if n_digits is None else n_digits
        total = 0 if self.is_tree else None if self.total is None else -1
        table = tabulate(self.columns, self._lines, unit, digits, fixed, total)
        return table._replace(is_tree=self.is_tree, unit=self.unit)

    def shown(self, unit: str | None = "auto", n_digits: int | None = None) -> TextTable:
        """Return the cells as ``print`` shows them, with the prefix of this table for ``auto``."""
        return self.text(self.prefix if unit == "auto" else unit, n_digits)

    def write(
        self,
        ost: IO[str] | None,
        mode: str | None,
        unit: str | None,
        n_digits: int | None,
        elsewhere: str = "table",
        has_lines: bool = False,
    ) -> None:
        """Write the table and its remarks as text; in a terminal, columns that do not fit its width are left out.

        Args:
            ost: the stream to write to; None for the standard output.
            mode: name of the renderer; None for what suits the stream: a table in a terminal, HTML in a notebook, and
                ``elsewhere`` in any other stream.
            unit: the prefix of FLOPs and bytes, ``auto`` or ``autoaligned``.
            n_digits: digits after the decimal point; None for 10.
            elsewhere: the renderer of other streams, if there is no ``mode``.
            has_lines: whether boxes have lines between their rows, too.

        Raises:
            TypeError, ValueError: if an argument is invalid.
        """
        from costcore.ledger.caveats import footer
        from costcore.tables.notebook import display_table, in_notebook
        from costcore.tables.renderers import rendered
        from costcore.tables.show import DRAWN, in_color, in_terminal
        from costcore.text.units import check_digits

        stream, left_out, asked = writable(ost or sys.stdout), list[str](), mode
        if isinstance(stream, Screen) and asked in DRAWN:
            self._write_on(stream, in_color(asked, stream), unit, check_digits(n_digits))
            return
        is_notebook = asked is None and ost is None and in_notebook()
        mode = in_color(asked or ("table" if stream.isatty() or is_notebook else elsewhere), stream)
        table = self.text(unit, check_digits(n_digits), fixed=mode in DRAWN)
        table = table._replace(has_lines=has_lines)
        if is_notebook:
            display_table(table, self.remarks)
            return
        if self.dropped_first is not None:
            width = terminal_width(stream)
            table, left_out = in_terminal(table, self.columns, mode, width, self.dropped_first, self.labels)
        if mode == "md":
            table = encodable_table(table, stream)
        stream.write(encodable(rendered(table, mode) + footer([*left_out, *self.remarks], mode), stream))

    def in_lines(self: AnyTable, n: int) -> AnyTable:
        """Return the first rows, in ``n`` lines with the frame; of a tree, the upper levels that fit, if one does.

        The title of the result says what is shown.
        """
        most = max(n - FRAME - (self.total is not None), FEWEST)
        if len(self) <= most:
            return self
        depths = [int(row["depth"]) for row in self.rows] if self.is_tree else []
        for depth in range(max(depths, default=0) - 1, 0, -1):
            if sum(each <= depth for each in depths) <= most:
                rows = [row for row, each in zip(self.rows, depths, strict=True) if each <= depth]
                return self.part(rows, f"(levels 1 to {depth} of {max(depths)} below the model)")
        title = self.title.partition(" (the first ")[0]
        return self.part(self.rows[:most], f"{title} (the first {most} of {len(self.whole):,} rows)".strip())

    def fitted(self, text: TextTable, width: int) -> tuple[TextTable, list[str]]:
        """Return the text of this table in lines of ``width`` characters, and a line that names what was left out.

        Columns that were chosen one by one are as wide as they are.
        """
        if self.dropped_first is None:
            return text, []
        keys = [column.key for column in self.columns]
        first = order_of(keys, dict.fromkeys((*self.dropped_first, *DROPPED_FIRST)))
        last = [i for i in range(len(keys) - 1, 0, -1) if i not in first]
        always = always_shown(self.columns, text.rows, self.labels)
        shown, dropped = fitted(text, width, [i for i in (*first, *last) if i not in always])
        return shown, remark_on((keys[i] for i in dropped), width)

    def _write_on(self, screen: Screen, mode: str, unit: str | None, n_digits: int | None) -> None:
        """Write the table and its remarks in the lines of a screen that are left."""
        from costcore.ledger.caveats import footer
        from costcore.tables.renderers import rendered

        remarks = [part for line in self.remarks for part in wrapped(line, screen.width)]
        table = self.in_lines(screen.room - 1 - len(remarks))
        text, left_out = table.fitted(table.text(unit, n_digits), screen.width)
        screen.is_cut |= table is not self
        title = [table.title] if table is not self else []
        screen.write(rendered(text, mode) + footer([*title, *left_out, *self.remarks], mode))

    @property
    def _lines(self) -> list[Row]:
        return [*self.rows, *([] if self.total is None else [self.total])]

    def _with(self: AnyTable, rows: Sequence[Row]) -> AnyTable:
        new = copy.copy(self)
        new.rows = list(rows)
        new.whole = new
        return new

    def _sums(self, rows: Sequence[Row]) -> Row:
        """Return a row with sums where every row has a number, and the text ``others`` in the first column of text."""
        label = next((column.key for column in self.columns if column.kind not in NUMERIC), "")
        sums: dict[str, Any] = {label: "others"}
        for column in self.columns:
            values = [row.get(column.key) for row in rows]
            if column.kind in SUMMED and all(isinstance(v, (int, float)) or is_symbolic(v) for v in values):
                sums[column.key] = sum(values)
        return sums
