"""Numbers over other numbers, as an image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from costcore.errors import CostError
from costcore.tables.pictures.amounts import in_units
from costcore.tables.pictures.theme import MAX_LABEL, THEMES, Theme, axes_of
from costcore.text.escape import printable
from costcore.text.table import Column


class Axis(NamedTuple):
    """A column with its value for each point; a point without a number, such as None or text, is left out."""

    column: Column
    values: Sequence[Any]


MOST_NAMED = 20
"""More points than these have no names, which would cover each other."""


def draw(
    x: Axis, y: Axis, line: bool = False, theme: Theme = THEMES["light"], names: Sequence[str] | None = None
) -> Any:
    """Return a picture with a point for each pair of numbers, or with a line through them.

    Args:
        x: the numbers across.
        y: the numbers upwards.
        line: whether a line is drawn instead of points.
        theme: the colors.
        names: what the points are, in their order; of at most :data:`MOST_NAMED` points they are shown.

    Raises:
        CostError: if matplotlib is not installed, or if there are no numbers.
    """
    labels = names or [""] * len(x.values)
    found = [each for each in zip(x.values, y.values, labels, strict=True) if all(map(_is_number, each[:2]))]
    pairs = [each[:2] for each in found]
    if not pairs:
        raise CostError(f"nothing has numbers for both {x.column.key} and {y.column.key}")
    axes = axes_of(theme)
    (xs, x_title), (ys, y_title) = (in_units(axis.column, [pair[i] for pair in pairs]) for i, axis in enumerate((x, y)))
    if line:
        axes.plot(xs, ys, color=theme.colors[0])
    else:
        axes.scatter(xs, ys, s=max(4, 36 - len(pairs) // 50), alpha=0.7, color=theme.colors[0])
    if names and len(found) <= MOST_NAMED:
        axes.margins(x=0.15)
        _name(axes, [*zip(xs, ys, (name for *_, name in found), strict=True)], theme)
    axes.set(xlabel=x_title, ylabel=y_title)
    axes.grid(color=theme.line)
    return axes.figure


def _name(axes: Any, points: Sequence[tuple[float, float, str]], theme: Theme) -> None:
    """Write the names of points beside them: above, or below if that of a near point is above."""
    wide, high = (max(each) - min(each) or 1 for each in ([x for x, *_ in points], [y for _, y, _ in points]))
    above: list[tuple[float, float]] = []
    for x, y, name in points:
        is_free = all(abs(x - other) > 0.2 * wide or abs(y - up) > 0.05 * high for other, up in above)
        above += [(x, y)] if is_free else []
        place = (4, 4 if is_free else -11)
        label = printable(name)[:MAX_LABEL]
        axes.annotate(
            label, (x, y), place, textcoords="offset points", fontsize="small", color=theme.ink, parse_math=False
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
