"""Write a table to a stream, in color if the stream is a terminal that supports it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import IO, Any, NamedTuple

from costcore.reports.caveats import footer
from costcore.reports.columns import Column, Table, is_default
from costcore.reports.serialization.targets import writable
from costcore.reports.tables.fit import fitting, remark_on, terminal_width
from costcore.reports.tables.renderers import rendered
from costcore.trace.run import FLOPS


class TableOptions(NamedTuple):
    """How a table is written; the arguments that all ``show_…`` methods of a report share.

    Attributes:
        stream: the stream to write to; None for the standard output at the time of the call.
        mode: name of the renderer.
        unit: the prefix of FLOPs and bytes, ``auto`` or ``autoaligned``.
        n_digits: digits after the decimal point; None for 10.
    """

    stream: IO[str] | None
    mode: str
    unit: str | None
    n_digits: int | None


def show(
    entries: Sequence[Mapping[str, Any]],
    columns: Sequence[Column],
    options: TableOptions,
    remarks: Sequence[str],
    total: int = -1,
    is_tree: bool = False,
    counted: str = FLOPS,
) -> None:
    """Write a table. In a terminal, default columns that do not fit its width are left out.

    Args:
        entries: the rows, including the total.
        columns: the columns to show.
        options: the stream and the format.
        remarks: lines to write below the table.
        total: index of the row with the total.
        is_tree: whether rows are nested by indentation.
        counted: what the column of FLOPs counts.
    """
    from costcore.reports.tables.tabulate import tabulate

    stream, mode, unit, n_digits = options
    stream = writable(stream or sys.stdout)
    mode = "table" if mode == "color" and not has_color(stream) else mode
    is_drawn = mode in ("table", "color")

    def table_of(columns: Sequence[Column]) -> Table:
        return tabulate(columns, entries, unit, n_digits, is_drawn, total)._replace(is_tree=is_tree, unit=counted)

    table, width, dropped = table_of(columns), terminal_width(stream), []
    if is_drawn and width is not None and is_default(columns):
        shown = fitting(columns, table, width)
        dropped = [column for column in columns if column not in shown]
        table = table_of(shown)._replace(width=width) if dropped else table._replace(width=width)
    stream.write(rendered(table, mode) + footer([*remark_on(dropped), *remarks], mode))


def one_stream(ost: IO[str] | None, dst: IO[str] | None) -> IO[str] | None:
    """Return the stream that was passed under either of its two names.

    Raises:
        TypeError: if both are given.
    """
    if ost is not None and dst is not None:
        raise TypeError("ost and dst are two names of the same argument. Pass only one of them.")
    return ost or dst


def has_color(stream: IO[str]) -> bool:
    """Return whether the stream is a terminal with colors; ``NO_COLOR`` disables them (https://no-color.org)."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and stream.isatty()
