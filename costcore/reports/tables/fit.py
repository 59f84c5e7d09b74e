"""Tables as wide as the terminal: columns that do not fit are left out, and named below the table."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from typing import IO, Any

from costcore.reports.columns import Column, Table

DROPPED_FIRST = (
    *("n_buffers", "n_shared", "n_frozen", "mwrite%", "mread%", "mrw%", "activations"),
    *("output_shape", "input_shape", "mwrite", "mread", "mcomm", "n_trainable", "memory", "madd"),
    *("n_params", "type", "mrw", "macs", "n_layers", "flops_fma1"),
)
"""The columns that a narrow terminal does without, in this order. All other columns are always shown."""

BETWEEN_CELLS = 3
"""The line between two cells, and a space on each side of it (characters)."""

NOTEBOOK_WIDTH = 100
"""The width of the output of a cell, which wraps longer lines; notebooks do not report theirs (characters)."""


def terminal_width(stream: IO[str]) -> int | None:
    """Return the width of the terminal or notebook that a stream writes to (characters); None for a file or a pipe."""
    if type(stream).__module__.startswith("ipykernel."):
        return NOTEBOOK_WIDTH
    return shutil.get_terminal_size().columns if stream.isatty() else None


def fitting(columns: Sequence[Column], table: Table, width: int) -> list[Column]:
    """Return the columns of ``table`` that are to be shown in lines of ``width`` characters."""
    widths = dict(zip((column.key for column in columns), _widths(table), strict=True))
    for key in DROPPED_FIRST:
        if _line(widths) <= width:
            break
        widths.pop(key, None)
    return [column for column in columns if column.key in widths]


def remark_on(dropped: Sequence[Column]) -> list[str]:
    """Return the line that names the columns that were left out; empty if there are none."""
    names = ", ".join(column.key for column in dropped)
    return [f"columns left out to fit the width of the terminal: {names}"] if dropped else []


def line_length(table: Table) -> int:
    """Return the length of a line of ``table`` (characters)."""
    return _line(dict(enumerate(_widths(table))))


def _line(widths: Mapping[Any, int]) -> int:
    return sum(widths.values()) + BETWEEN_CELLS * len(widths) + 1


def _widths(table: Table) -> list[int]:
    titles = [max(map(len, title)) for title in table.titles]
    return [max(cells) for cells in zip(titles, *([*map(len, row)] for row in table.rows), strict=True)]
