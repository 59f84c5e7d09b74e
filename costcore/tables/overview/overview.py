"""The texts of a result: what ``print``, notebooks and pages show of its figures and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from costcore.numbers.dims import is_symbolic
from costcore.numbers.symbolic import as_text
from costcore.tables import answer as data
from costcore.text.amounts import exact, readable
from costcore.text.durations import duration
from costcore.text.table import TextTable
from costcore.text.values import Shown
from costcore.trace.run import FLOPS


class Figure(NamedTuple):
    """A number of the overview.

    Attributes:
        title: what it is.
        value: its rounded value with a unit, or an expression.
        note: its exact value, or what it means; can be empty.
    """

    title: str
    value: str
    note: str = ""


class Part(NamedTuple):
    """A table of the overview.

    Attributes:
        title: its heading.
        table: the table.
        is_open: whether formats that can fold it show it at first.
    """

    title: str
    table: TextTable
    is_open: bool = True


class Overview(NamedTuple):
    """What is shown of a result.

    Attributes:
        title: the heading: what was counted, and the status.
        figures: the totals.
        parts: the tables.
        lines: what is not counted, and what the numbers assume.
        tree: the module hierarchy as :meth:`costcore.Report.tree` returns it; None without one.
        unit: what the modules of the tree count.
    """

    title: str
    figures: Sequence[Figure] = ()
    parts: Sequence[Part] = ()
    lines: Sequence[str] = ()
    tree: Mapping[str, Any] | None = None
    unit: str = FLOPS


def overview_of(answer: data.Answer, unit: str | None = "auto", n_digits: int | None = None) -> Overview:
    """Return the texts of an answer.

    Args:
        answer: the figures and tables.
        unit: the prefix of amounts; ``auto`` for that of each table.
        n_digits: digits after the decimal point; None for as many as the answer and each table have.
    """
    digits = answer.n_digits if n_digits is None else n_digits
    figures = [_figure(each, None if unit is None else digits) for each in answer.figures]
    parts = [
        Part(each.title, each.text(each.prefix if unit == "auto" else unit, n_digits), each.is_open)
        for each in answer.tables
    ]
    return Overview(answer.title, figures, parts, answer.remarks, answer.tree, answer.unit)


def _figure(figure: data.Figure, digits: int | None) -> Figure:
    """Return a figure with its exact value beside it, if that is not what is shown."""
    value, kind, note = figure.value, figure.kind, figure.note
    if isinstance(value, Shown):
        return Figure(figure.title, value.text, note)
    if kind == "duration":
        return Figure(figure.title, duration(value, 3 if digits is None else digits), note)
    if kind not in ("flops", "bytes", "count"):
        return Figure(figure.title, as_text(value), note)
    full = exact(value) + " B" * (kind == "bytes" and not figure.title.startswith("Bytes"))
    if digits is None or kind == "count" or is_symbolic(value):
        return Figure(figure.title, full, note)
    shown = readable(value, kind, digits)
    own = [] if shown.removesuffix(" B") == full.removesuffix(" B") else [full]
    return Figure(figure.title, shown, "; ".join([*own, *filter(None, [note])]))
