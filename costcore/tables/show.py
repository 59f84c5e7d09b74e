"""How a table is written to a stream: as wide as a terminal, and in color if it supports it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import IO

from costcore.tables.fit import always_shown, fitted, order_of, remark_on
from costcore.text.table import Column, TextTable

DRAWN = ("table", "color")
"""The modes of terminals."""


def in_terminal(
    table: TextTable,
    columns: Sequence[Column],
    mode: str,
    width: int | None,
    dropped_first: Sequence[str],
    labels: int = 1,
) -> tuple[TextTable, list[str]]:
    """Return a table as a terminal of some width shows it, and the line that names the columns that were left out.

    Args:
        table: the table.
        columns: its columns.
        mode: name of the renderer.
        width: the width of the terminal; None if there is none.
        dropped_first: keys of the columns that may be left out, in this order.
        labels: how many columns at the beginning are always shown.
    """
    if mode not in DRAWN or width is None:
        return table, []
    keys, always = [column.key for column in columns], always_shown(columns, table.rows, labels)
    shown, dropped = fitted(table, width, [i for i in order_of(keys, dropped_first) if i not in always])
    return shown, remark_on((keys[i] for i in dropped), width)


def one_stream(ost: IO[str] | None, dst: IO[str] | None) -> IO[str] | None:
    """Return the stream that was passed under either of its two names.

    Raises:
        TypeError: if both are given.
    """
    if ost is not None and dst is not None:
        raise TypeError("ost and dst are two names of the same argument. Pass only one of them.")
    return ost or dst


def in_color(mode: str, stream: IO[str]) -> str:
    """Return ``table`` for ``color`` unless the stream is a terminal with colors, else the mode.

    ``NO_COLOR`` disables colors (https://no-color.org).
    """
    has_color = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and stream.isatty()
    return "table" if mode == "color" and not has_color else mode
