"""Tables as wide as the terminal: columns that do not fit are left out and named below, and long text is shortened."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from typing import IO, NamedTuple

from costcore.tables.columns import is_default, matches
from costcore.text.screen import Screen
from costcore.text.table import Column, TextTable

AMOUNTS = ("flops", "bytes", "seconds", "duration")
"""The kinds of columns of which one is always shown: a table of names alone says nothing."""

DROPPED_FIRST = (
    *("n_buffers", "n_shared", "n_frozen", "mwrite%", "mread%", "mrw%", "activations", "dtype"),
    *("output_shape", "input_shape", "shape", "kind", "mwrite", "mread", "mcomm", "n_trainable", "memory", "madd"),
    *("at_peak", "phase", "padding", "n_params", "type", "call", "mrw", "macs", "offset", "n_layers", "n_groups"),
    *("stride", "flops_fma1", "module", "checked", "measured%", "bound/measured%", "seconds%"),
)
"""The columns that a narrow terminal does without, in this order. All other columns are always shown."""

BETWEEN_CELLS = 3
"""The line between two cells, and a space on each side of it (characters)."""

NOTEBOOK_WIDTH = 100
"""The width of the output of a cell, which wraps longer lines; notebooks do not report theirs (characters)."""

SHORTEST, TIGHTEST = 24, 10
"""Text is not shortened to less (characters); to the second if the columns that are always shown do not fit."""

MOST_WRAPPED = 8
"""The most rows of a table whose first column, if it has sentences, goes on in the next line."""


class Fitted(NamedTuple):
    """A table that fits.

    Attributes:
        table: the table.
        dropped: the indices of the columns that were left out.
    """

    table: TextTable
    dropped: list[int]


def terminal_width(stream: IO[str]) -> int | None:
    """Return the width of the terminal or notebook that a stream writes to (characters); None for a file or a pipe."""
    if isinstance(stream, Screen):
        return stream.width
    if type(stream).__module__.startswith("ipykernel."):
        return NOTEBOOK_WIDTH
    return shutil.get_terminal_size().columns if stream.isatty() else None


def fitted(table: TextTable, width: int, order: Iterable[int]) -> Fitted:
    """Return the table in lines of ``width`` characters, if possible.

    Columns are left out as long as the others do not fit with their text at its shortest; then text is shortened,
    that of the first column of a small table wrapped.

    Args:
        table: the table.
        width: the width of the terminal.
        order: the indices of the columns that may be left out, in this order.
    """
    widths = _widths(table)
    least = [w if numeric else min(w, SHORTEST) for w, numeric in zip(widths, table.numeric, strict=True)]
    shown = [*range(len(widths))]
    for i in order:
        if _line([least[j] for j in shown]) <= width:
            break
        shown.remove(i)
    if _line([least[j] for j in shown]) > width:  # formulas go on in the next line, after a term
        least = [_longest_term(table, i) if table.numeric[i] else w for i, w in enumerate(least)]
    if _line([least[j] for j in shown]) > width:
        least = [w if numeric else min(w, TIGHTEST) for w, numeric in zip(least, table.numeric, strict=True)]
    new = _narrowed({i: widths[i] for i in shown}, least, width)
    wrap = new[0] if new[0] < widths[0] and _has_sentences(table, new[0]) else None
    wraps = {shown.index(i): new[i] for i in shown if new[i] < widths[i] and table.numeric[i]}
    cut = [i for i in shown if new[i] < widths[i] and (i or wrap is None) and not table.numeric[i]]
    rows = [[_short(row[i], new[i]) if i in cut else row[i] for i in shown] for row in table.rows]
    titles, numeric = [table.titles[i] for i in shown], [table.numeric[i] for i in shown]
    dropped = [i for i in range(len(widths)) if i not in shown]
    fits = table._replace(titles=titles, rows=rows, numeric=numeric, width=width, wrap=wrap, wraps=wraps)
    return Fitted(fits, dropped)


def dropped_first(
    columns: Sequence[Column], sets: Iterable[Sequence[str]] = (), labels: int = 1
) -> Sequence[str] | None:
    """Return the keys of the columns that may be left out, in this order; None if columns were chosen one by one.

    Args:
        columns: the columns.
        sets: the default columns of the table, besides those of :mod:`costcore.tables.columns`.
        labels: how many columns at the beginning say what a row is, and are always shown.
    """
    always = {column.key for column in columns[:labels]}
    is_set = is_default(columns) or matches(columns, sets)
    return [key for key in DROPPED_FIRST if key not in always] if is_set else None


def order_of(names: Sequence[str], dropped_first: Iterable[str]) -> list[int]:
    """Return the indices of the columns that may be left out; the first column says what a row is.

    Args:
        names: the names of the columns.
        dropped_first: the names of those that may be left out, in this order.
    """
    return [names.index(name) for name in dropped_first if name in names[1:]]


def always_shown(columns: Sequence[Column], rows: Sequence[Sequence[str]], labels: int = 1) -> set[int]:
    """Return the indices of the columns without which a table says nothing.

    These are the labels, columns of text that tell apart rows with equal labels, and the first amount.

    Args:
        columns: the columns.
        rows: the cells.
        labels: how many columns at the beginning say what a row is.
    """
    shown = [*range(min(labels, len(columns)))]
    kinds = ("text", "count") if columns[0].kind == "count" else ("text",)
    texts = [i for i, column in enumerate(columns) if i not in shown and column.kind in kinds]

    def n_distinct(indices: Sequence[int]) -> int:
        return len({tuple(row[i] for i in indices) for row in rows})

    apart = n_distinct([*shown, *texts])
    for i in texts:
        if n_distinct(shown) == apart:
            break
        if n_distinct([*shown, i]) > n_distinct(shown):
            shown.append(i)
    amounts = [i for i, column in enumerate(columns) if column.kind in AMOUNTS]
    return {*shown, *amounts[:1]}


def remark_on(dropped: Iterable[str], width: int) -> list[str]:
    """Return the line that names the columns that were left out of lines of some width; empty if there are none."""
    names = ", ".join(dropped)
    return [f"columns left out to fit {width} characters: {names}"] if names else []


def line_length(table: TextTable) -> int:
    """Return the length of a line of ``table`` (characters)."""
    return _line(_widths(table))


def _narrowed(widths: dict[int, int], least: Sequence[int], width: int) -> dict[int, int]:
    """Return the widths with the widest text shortened, until a line fits or no text can be shortened."""
    new = dict(widths)
    while (excess := _line(new.values()) - width) > 0:
        wide = sorted((i for i in new if new[i] > least[i]), key=lambda i: -new[i])
        if not wide:
            break
        next_width = max((new[i] for i in wide[1:]), default=0)
        new[wide[0]] = max(least[wide[0]], min(new[wide[0]] - 1, next_width), new[wide[0]] - excess)
    return new


def _has_sentences(table: TextTable, width: int) -> bool:
    """Return whether what is too long in the first column of a small table are sentences, and no paths."""
    long = [row[0] for row in table.rows if len(row[0]) > width]
    return len(table.rows) <= MOST_WRAPPED and not table.is_tree and all(" " in cell for cell in long)


def _longest_term(table: TextTable, i: int) -> int:
    cells = [row[i] for row in table.rows]
    parts = (part for cell in cells for part in (cell.split(" ") if "*" in cell else [cell]))
    return max(map(len, (*table.titles[i], *parts)))


def _short(cell: str, width: int) -> str:
    """Return a text of at most ``width`` characters: sentences lose their end, paths their beginning."""
    if len(cell) <= width:
        return cell
    return f"{cell[: width - 1]}…" if " " in cell else f"…{cell[1 - width :]}"


def _line(widths: Iterable[int]) -> int:
    return sum(width + BETWEEN_CELLS for width in widths) + 1


def _widths(table: TextTable) -> list[int]:
    titles = [max(map(len, title)) for title in table.titles]
    return [max(cells) for cells in zip(titles, *([*map(len, row)] for row in table.rows), strict=True)]
