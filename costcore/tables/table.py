"""A table of exact values."""

from __future__ import annotations

import copy
from typing import IO

from costcore.tables.answer import Answer
from costcore.tables.result import Result
from costcore.tables.table_data import TableData


class Table(TableData, Result):
    """Rows of exact values, which are sorted, limited, printed and written to files in one way.

    The attributes are those of :class:`costcore.tables.table_data.TableData`.
    """

    def show(
        self,
        ost: IO[str] | None = None,
        mode: str = "table",
        unit: str | None = "auto",
        n_digits: int | None = None,
    ) -> None:
        """Write the table, with all of its rows; in a terminal, columns that do not fit its width are left out.

        Args:
            ost: the stream to write to; default: standard output at the time of the call.
            mode: ``csv``, ``md``, ``table``, ``color``, ``json``, ``html``, or a mode of a plug-in.
            unit: the prefix of amounts, or ``autoaligned``; None for exact numbers; ``auto`` for that of ``print``.
            n_digits: digits after the decimal point; default: as many as ``print`` shows.

        Raises:
            TypeError, ValueError: if an argument is invalid.
        """
        if mode in ("json", "html"):
            super().show(ost, mode)
        else:
            prefix = self.prefix if unit == "auto" else unit
            self.write(ost, mode, prefix, self.n_digits if n_digits is None else n_digits)

    def _text(
        self, mode: str = "table", unit: str | None = "auto", n_digits: int | None = None, *, is_whole: bool = True
    ) -> str:
        from costcore.tables.overview.to_text import table_to_text

        table = self if is_whole else self.in_print()
        more = [] if table is self else [table.title]
        return table_to_text(table.shown(unit, n_digits), mode, [*more, *self.remarks])

    def _answer(self) -> Answer:
        own = copy.copy(self)
        own.whole = own
        return Answer(self.title, (), [own], self.remarks)
