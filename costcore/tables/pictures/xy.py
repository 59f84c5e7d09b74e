"""Numbers over other numbers, as an image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from costcore.errors import CostError
from costcore.tables.pictures.amounts import in_units
from costcore.tables.pictures.theme import THEMES, Theme, axes_of
from costcore.text.table import Column


class Axis(NamedTuple):
    """A column with its value for each point; a point without a number, such as None or text, is left out."""

    column: Column
    values: Sequence[Any]


def draw(x: Axis, y: Axis, line: bool = False, theme: Theme = THEMES["light"]) -> Any:
    """Return a picture with a point for each pair of numbers, or with a line through them.

    Raises:
        CostError: if matplotlib is not installed, or if there are no numbers.
    """
    pairs = [pair for pair in zip(x.values, y.values, strict=True) if all(map(_is_number, pair))]
    if not pairs:
        raise CostError(f"nothing has numbers for both {x.column.key} and {y.column.key}")
    axes = axes_of(theme)
    (xs, x_title), (ys, y_title) = (in_units(axis.column, [pair[i] for pair in pairs]) for i, axis in enumerate((x, y)))
    if line:
        axes.plot(xs, ys, color=theme.colors[0])
    else:
        axes.scatter(xs, ys, s=max(4, 36 - len(pairs) // 50), alpha=0.7, color=theme.colors[0])
    axes.set(xlabel=x_title, ylabel=y_title)
    axes.grid(color=theme.line)
    return axes.figure


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
