"""The Pareto front of rows: those than which no other is better in everything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

LARGE = "-"
"""What the name of a figure begins with that is to be large."""


def front(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[int]:
    """Return the positions of the rows that no other row dominates, in order.

    A row dominates another one if it is at least as good in every figure, and better in one. Rows without a number for
    one of the figures are not part of the front. Of equal rows all are.

    Args:
        rows: values by name.
        names: the figures, which are to be small; with :data:`LARGE` before the name, to be large.
    """
    points: dict[int, tuple[Any, ...]] = {}
    for i, row in enumerate(rows):
        values: list[Any] = [row.get(name.removeprefix(LARGE)) for name in names]
        if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
            points[i] = tuple(
                -value if name.startswith(LARGE) else value for name, value in zip(names, values, strict=True)
            )
    best: list[tuple[Any, ...]] = []
    found = []
    for i in sorted(points, key=points.__getitem__):  # a row is dominated only by one before it
        point = points[i]
        if not any(other != point and all(a <= b for a, b in zip(other, point, strict=True)) for other in best):
            best.append(point)
            found.append(i)
    return sorted(found)
