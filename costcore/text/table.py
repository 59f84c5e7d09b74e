"""What a table is made of: its columns, and its cells as text, which a renderer receives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        key: the key of its values in the entries of a report.
        title: the text above it.
        kind: how its values are formatted: ``text``, ``count`` (whole numbers), ``flops`` and ``bytes`` (with a unit
            prefix), ``percent``, ``seconds`` (printed as milliseconds), ``duration`` (seconds, with a unit prefix),
            ``ratio``, ``shape``, ``shapes``, ``attributes`` or ``names``.
        certainty: ``exact``, ``bound``, ``calibrated`` or ``measured``.
        unit: what is written below the title; by default, what follows from the kind.
    """

    key: str
    title: str
    kind: str = "text"
    certainty: str = "exact"
    unit: str = ""


class TextTable(NamedTuple):
    """A table for a renderer; all cells are text.

    Attributes:
        titles: title and unit of each column; the unit can be empty.
        rows: the cells, row by row.
        numeric: for each column, whether it holds numbers.
        shares: for each row, its share of the total FLOPs in percent; None if it is not a number.
        total: index of the row with the total; None if there is none.
        is_tree: whether rows are nested by indentation, which lines between the rows would interrupt.
        width: the width of the terminal in characters; None if there is none, or if columns were chosen.
        unit: what the shares are of: FLOPs, or what another convention counts.
        has_lines: whether lines are drawn between the rows of boxes.
        wrap: the width at which sentences in the first column of boxes go on in the next line; None if they do not.
        wraps: the same of formulas, by the index of their column.
    """

    titles: list[tuple[str, str]]
    rows: list[list[str]]
    numeric: list[bool]
    shares: Sequence[float | None] = ()
    total: int | None = -1
    is_tree: bool = False
    width: int | None = None
    unit: str = "FLOPs"
    has_lines: bool = False
    wrap: int | None = None
    wraps: Mapping[int, int] = {}


Table = TextTable
"""The former name, which works until version 0.3."""

Renderer: TypeAlias = "Callable[[TextTable], str]"
