"""A figure of a report over the values of one of its symbols."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from costcore.messages import unknown
from costcore.tables.pictures.picture import Picture
from costcore.tables.pictures.theme import Theme
from costcore.tables.pictures.xy import Axis, draw
from costcore.tables.quantities import column_of
from costcore.text.table import Column

MOST_SIZES = 1_000_000
"""The maximum number of sizes that a text may stand for."""

POINTS = 64
"""The maximum number of values of a symbol if none are given."""

Curve = list[tuple[int, int]]
"""Pairs of a value of the symbol and the figure there."""


def curve(
    function: Callable[..., Any],
    symbols: Iterable[str],
    over: str,
    at: Mapping[str, int],
    sizes: Iterable[int],
) -> Curve:
    """Return the values of a function of symbols over one of them.

    Args:
        function: takes every symbol as a keyword.
        symbols: their names.
        over: the symbol that takes all sizes.
        at: the values of the others.
        sizes: the values of the first.

    Raises:
        ValueError: if a name is unknown, a symbol has no value, or there are no symbols.
    """
    names = list(symbols)
    if not names:
        raise ValueError(
            f"no size has the name {over!r}, as all are integers: write names in their place, ('batch', 4)"
        )
    if unknown_names := {over, *at} - set(names):
        raise ValueError(unknown("symbol", sorted(unknown_names), names))
    if missing := [name for name in names if name != over and name not in at]:
        raise ValueError(f"no value for {', '.join(missing)} (at={{{missing[0]!r}: …}}, --at {missing[0]}=…)")
    return [(size, function(**{**at, over: size})) for size in sizes]


def sizes_between(low: int, high: int) -> list[int]:
    """Return at most :data:`POINTS` sizes from the lowest to the highest, in equal ratios."""
    ratio = (high / max(low, 1)) ** (1 / (POINTS - 1))
    return sorted({low, high, *(round(max(low, 1) * ratio**i) for i in range(POINTS))})


def parse_sizes(text: str) -> list[int]:
    """Return the sizes in ``128:4096:128`` (a step), ``128:131072:log2`` (doublings) or ``128,512,1024``.

    Raises:
        ValueError: for another text, or one of more than :data:`MOST_SIZES` sizes.
    """
    parts = text.split(":")
    if len(parts) == 1 and all(part.isdecimal() for part in text.split(",")):
        return [int(part) for part in text.split(",")]
    if len(parts) == 3 and parts[0].isdecimal() and parts[1].isdecimal() and 0 < int(parts[0]) <= int(parts[1]):
        low, high = int(parts[0]), int(parts[1])
        if parts[2] == "log2":
            return [low << i for i in range((high // low).bit_length())]
        if parts[2].isdecimal() and int(parts[2]):
            if (high - low) // int(parts[2]) >= MOST_SIZES:
                raise ValueError(f"{text!r} is more than {MOST_SIZES:,} sizes")
            return list(range(low, high + 1, int(parts[2])))
    raise ValueError(f"{text!r} is invalid (expected 128:4096:128, 128:131072:log2 or 128,512,1024)")


def drawn(
    report: Any, theme: Theme, column: str, over: str, at: Mapping[str, int], sizes: Sequence[int] | None
) -> Picture:
    """Return the total of a column over a name among the sizes of a report; arguments as for ``Report.plot``.

    Raises:
        ValueError: if a name is unknown or has no value, or if sizes are needed.
    """
    limits = report.trace.run.ranges.get(over)
    if sizes is None and over in report.symbols and limits is None:
        raise ValueError(f"sizes are needed: nothing is known of the values of {over}")
    values = sizes_between(*limits) if sizes is None and limits else sizes or []
    return picture(curve(report.lambdify(column), report.symbols, over, at, values), column, over, theme)


def picture(found: Curve, column: str, over: str, theme: Theme) -> Picture:
    """Return a curve as a picture; rows are the size and the figure."""
    title = column_of(column)
    x, y = ([pair[i] for pair in found] for i in range(2))
    return Picture(
        (over, column), found, lambda: draw(Axis(Column(over, over), x), Axis(title, y), line=True, theme=theme)
    )
