"""Write a table to a stream, in color if the stream is a terminal that supports it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, Any, NamedTuple

from costcore.ledger.caveats import footer
from costcore.tables.columns import is_default, matches
from costcore.tables.fit import DROPPED_FIRST, fitted, order_of, remark_on, terminal_width
from costcore.tables.renderers import rendered
from costcore.text.table import Column, TextTable
from costcore.text.targets import writable
from costcore.trace.run import FLOPS

DRAWN = ("table", "color")
"""The modes of terminals."""


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
    total: int | None = -1,
    is_tree: bool = False,
    counted: str = FLOPS,
    defaults: Iterable[Sequence[str]] = (),
    labels: int = 1,
    dropped_first: Sequence[str] = DROPPED_FIRST,
) -> None:
    """Write a table. In a terminal, default columns that do not fit its width are left out.

    Args:
        entries: the rows, including the total.
        columns: the columns to show.
        options: the stream and the format.
        remarks: lines to write below the table.
        total: index of the row with the total; None if there is none.
        is_tree: whether rows are nested by indentation.
        counted: what the column of FLOPs counts.
        defaults: the default columns of this table, besides the sets of :mod:`costcore.tables.columns`.
        labels: how many columns at the beginning say what a row is, and are always shown.
        dropped_first: keys of the columns that may be left out, in this order.
    """
    from costcore.tables.tabulate import tabulate

    stream, mode, unit, n_digits = options
    stream = writable(stream or sys.stdout)
    mode = "table" if mode == "color" and not has_color(stream) else mode
    is_drawn = mode in DRAWN
    table = tabulate(columns, entries, unit, n_digits, is_drawn, total)._replace(is_tree=is_tree, unit=counted)
    left_out: list[str] = []
    if is_default(columns) or matches(columns, defaults):
        keys = [column.key for column in columns]
        table, left_out = in_terminal(table, keys, mode, terminal_width(stream), dropped_first, labels)
    stream.write(rendered(table, mode) + footer([*left_out, *remarks], mode))


def in_terminal(
    table: TextTable, keys: Sequence[str], mode: str, width: int | None, dropped_first: Sequence[str], labels: int = 1
) -> tuple[TextTable, list[str]]:
    """Return a table as a terminal of some width shows it, and the line that names the columns that were left out.

    Args:
        table: the table.
        keys: the keys of its columns.
        mode: name of the renderer.
        width: the width of the terminal; None if there is none.
        dropped_first: keys of the columns that may be left out, in this order.
        labels: how many columns at the beginning say what a row is, and are always shown.
    """
    if mode not in DRAWN or width is None:
        return table, []
    shown, dropped = fitted(table, width, order_of(keys, dropped_first, labels))
    return shown, remark_on(keys[i] for i in dropped)


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
