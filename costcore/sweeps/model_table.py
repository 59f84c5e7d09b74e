"""A table with one row per model."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO

from costcore.counting.conventions.catalog import named
from costcore.counting.conventions.view import UNIT_NAMES
from costcore.reports.columns import Column
from costcore.reports.serialization.targets import writable
from costcore.reports.tables.renderers import rendered
from costcore.reports.tables.tabulate import tabulate
from costcore.sweeps.figures import DEFAULT_COLUMNS, figure
from costcore.sweeps.row import ModelRow

NAME, STATUS = Column("name", "Model"), Column("status", "Status")


@dataclass(frozen=True)
class ModelTable:
    """The costs of several models, one row per model, in the given order.

    Attributes:
        rows: one row per model.
        convention: the convention by which FLOPs are counted; empty for that of costcore.
        columns: the names of the figures of every row.
    """

    rows: tuple[ModelRow, ...]
    convention: str = ""
    columns: Sequence[str] = DEFAULT_COLUMNS

    @property
    def failed(self) -> list[ModelRow]:
        """The rows of the models that failed."""
        return [row for row in self.rows if row.failed]

    def show(
        self,
        ost: IO[str] | None = None,
        mode: str = "table",
        unit: str | None = "autoaligned",
        n_digits: int | None = 2,
    ) -> None:
        """Write the table to a stream.

        Args:
            ost: the stream; default: standard output.
            mode: see :meth:`Report.show_report`.
            unit: see :meth:`Report.show_report`.
            n_digits: see :meth:`Report.show_report`.

        Raises:
            TypeError, ValueError: if an argument is invalid.
        """
        entries = [{"name": row.name, "status": row.status, **_known(row)} for row in self.rows if not row.failed]
        figures = [figure(name).column for name in self.columns]
        if self.convention:
            title = f"{UNIT_NAMES[named(self.convention).unit]} ({self.convention})"
            figures = [column._replace(title=title) if column.key == "flops" else column for column in figures]
        table = tabulate([NAME, *figures, STATUS], entries, unit, n_digits, fixed=mode == "table")
        counted = iter(table.rows)
        blank = [""] * len(figures)
        rows = [[row.name, *blank, f"failed: {row.status}"] if row.failed else next(counted) for row in self.rows]
        writable(ost or sys.stdout).write(rendered(table._replace(rows=rows), mode))


def _known(row: ModelRow) -> dict[str, object]:
    return {name: value for name, value in row.costs.items() if value is not None}
