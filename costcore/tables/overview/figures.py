"""The texts of the figures of a result."""

from __future__ import annotations

from typing import NamedTuple

from costcore.numbers.dims import is_symbolic
from costcore.numbers.symbolic import as_text
from costcore.tables.answer import Answer, Figure
from costcore.text.amounts import exact, readable
from costcore.text.durations import duration
from costcore.text.values import Shown


class FigureText(NamedTuple):
    """Title, value with its unit, and note of a figure, which can be empty."""

    title: str
    value: str
    note: str


def figures_of(answer: Answer, unit: str | None = "auto", n_digits: int | None = None) -> list[FigureText]:
    """Return the texts of the figures; arguments as for :meth:`Result.show`."""
    digits = None if unit is None else answer.n_digits if n_digits is None else n_digits
    return [FigureText(each.title, *_texts(each, digits)) for each in answer.figures]


def _texts(figure: Figure, digits: int | None) -> tuple[str, str]:
    """Return the value, and the note: with the exact value, if that is not what is shown."""
    value, kind, note = figure.value, figure.kind, figure.note
    if isinstance(value, Shown):
        return value.text, note
    if kind == "duration":
        return duration(value, 3 if digits is None else digits), note
    if kind == "percent":
        return f"{value:.{3 if digits is None else digits}f}%", note
    if kind not in ("flops", "bytes", "count"):
        return as_text(value), note
    full = exact(value) + " B" * (kind == "bytes" and not figure.title.startswith("Bytes"))
    if digits is None or kind == "count" or is_symbolic(value):
        return full, note
    shown = readable(value, kind, digits)
    own = [] if shown.removesuffix(" B") == full.removesuffix(" B") else [full]
    return shown, "; ".join([*own, *filter(None, [note])])
