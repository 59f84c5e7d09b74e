"""Write a table to a stream, in color if the stream is a terminal that supports it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import IO, Any, NamedTuple

from costcore.reports.caveats import footer
from costcore.reports.columns import Column
from costcore.reports.serialization.targets import writable
from costcore.reports.tables.renderers import rendered
from costcore.reports.tables.tabulate import tabulate


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
) -> None:
    """Write a table.

    Args:
        entries: the rows, including the total.
        columns: the columns to show.
        options: the stream and the format.
        remarks: lines to write below the table.
        total: index of the row with the total.
    """
    stream, mode, unit, n_digits = options
    stream = writable(stream or sys.stdout)
    table = tabulate(columns, entries, unit, n_digits, mode in ("table", "color"), total)
    text = rendered(table, "table" if mode == "color" and not has_color(stream) else mode)
    stream.write(text + footer(remarks, mode))


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
