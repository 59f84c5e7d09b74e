"""A table with one row per model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import IO, Any

from costcore.messages import unknown
from costcore.numbers.symbolic import as_text
from costcore.studies.sweeps.figures import DEFAULT_COLUMNS, figure
from costcore.studies.sweeps.front import LARGE, front
from costcore.studies.sweeps.row import ModelRow
from costcore.tables.answer import Answer
from costcore.tables.data import data_frame
from costcore.tables.result import Result
from costcore.tables.table import Table
from costcore.text.table import Column

NAME, STATUS = Column("name", "Model"), Column("status", "Status")


@dataclass(frozen=True, repr=False)
class ModelTable(Result):
    """The costs of several models, one row per model, in the given order.

    Attributes:
        rows: one row per model.
        convention: the convention by which FLOPs are counted; empty for that of costcore.
        columns: the names of the figures of every row.
        arguments: the names of the arguments of all rows.
    """

    rows: tuple[ModelRow, ...]
    convention: str = ""
    columns: Sequence[str] = DEFAULT_COLUMNS
    arguments: Sequence[str] = ()

    def __repr__(self) -> str:
        return f"<ModelTable: {self._count}>"

    @property
    def _count(self) -> str:
        n, failed = len(self.rows), len(self.failed)
        return f"{n:,} model{'s' * (n != 1)}" + (f", {failed:,} failed" if failed else "")

    @property
    def failed(self) -> list[ModelRow]:
        """The rows of the models that failed."""
        return [row for row in self.rows if row.failed]

    def show(
        self, ost: IO[str] | None = None, mode: str = "table", unit: str | None = "auto", n_digits: int | None = None
    ) -> None:
        """Write the table, with all of its rows; arguments as for :meth:`costcore.tables.table.Table.show`."""
        if mode in ("json", "html"):
            super().show(ost, mode)
        else:
            self._table.show(ost, mode, unit, n_digits)

    def _text(self, *form: Any, **options: Any) -> str:
        return self._table._text(*form, **options)

    @property
    def _table(self) -> Table:
        columns = [NAME, *map(self._column, (*self.arguments, *self.columns)), STATUS]
        always = ("name", "flops", "macs", "n_params")
        dropped_first = [each for each in reversed([*self.arguments, *self.columns]) if each not in always]
        rows = [*map(_entry, self.rows)]
        return Table("Models", columns, rows, prefix="autoaligned", n_digits=2, dropped_first=dropped_first)

    def _answer(self) -> Answer:
        return Answer(self._count, (), [self._table])

    def to_dataframe(self) -> Any:
        """Return a ``pandas.DataFrame`` with one row per model: name, arguments, figures, ``status`` and ``failed``.

        Raises:
            CostError: if pandas is not installed.
        """
        names = ["name", *self.arguments, *self.columns, "status", "failed"]
        return data_frame({name: [_values(row).get(name) for row in self.rows] for name in names})

    def scatter(self, x: str, y: str, target: str | PathLike[str]) -> None:
        """Draw one column over another, a point per model, to an SVG, PNG or PDF file.

        Up to 20 points have the name of their model, or its arguments.

        Args:
            x: the name of a figure, or of an argument with numbers.
            y: the same for the vertical axis.
            target: the path of the file; its suffix is the format.

        Raises:
            CostError: if matplotlib is not installed, or if no row has numbers for both.
            OSError: if the file cannot be written.
            ValueError: if there is no such column, or if the suffix is unknown.
        """
        from costcore.tables.pictures.theme import check_suffix, save_figure
        from costcore.tables.pictures.xy import Axis, draw

        known = [*self.arguments, *self.columns]
        if missing := [name for name in (x, y) if name not in known]:
            raise ValueError(unknown("column", missing, known))
        rows = [_values(row) for row in self.rows if not row.failed]
        axis_x, axis_y = (Axis(self._column(name), [row.get(name) for row in rows]) for name in (x, y))
        suffix = check_suffix(target)
        values = [[row[name] for name in self.arguments if name in row] or [row["name"]] for row in rows]
        names = [", ".join(map(str, each)) for each in values]
        save_figure(draw(axis_x, axis_y, names=names), target, suffix)

    def pareto(self, *names: str) -> ModelTable:
        """Return the rows than which no other is better in all of some figures.

        Args:
            names: figures, or arguments with numbers, which are to be small: ``"macs", "peak_memory"``. With a minus
                sign before its name, ``"-n_params"``, a figure is to be large.

        Raises:
            ValueError: if there is no such column.
        """
        known = [*self.arguments, *self.columns]
        if missing := [name for name in names if name.removeprefix(LARGE) not in known]:
            raise ValueError(unknown("column", missing, known))
        rows = [row for row in self.rows if not row.failed]
        best = front([*map(_values, rows)], names)
        return replace(self, rows=tuple(rows[i] for i in best))

    def _column(self, name: str) -> Column:
        """Return the column of an argument or of a figure."""
        if name in self.arguments:
            return Column(name, name)
        column = figure(name).column
        if name == "flops" and self.convention:
            from costcore.analyses.conventions.catalog import named
            from costcore.analyses.conventions.convention import UNIT_NAMES

            return column._replace(title=f"{UNIT_NAMES[named(self.convention).unit]} ({self.convention})")
        return column


def _values(row: ModelRow) -> dict[str, Any]:
    """Return the values of a row by column."""
    return {
        **(row.arguments or {}),
        **row.costs,
        "name": row.name,
        "status": row.status,
        "failed": row.failed,
    }


def _entry(row: ModelRow) -> dict[str, Any]:
    """Return the values of a row for a table; what is unknown is missing."""
    status = f"failed: {row.status}" if row.failed else row.status
    arguments = {name: as_text(value) for name, value in row.plain_arguments.items()}
    figures = {name: value for name, value in row.costs.items() if value is not None}
    return {**arguments, **figures, "name": row.name, "status": status}
