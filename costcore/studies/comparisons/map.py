"""The map of a comparison: an area for each module, as large as its cost in either report, colored by its change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from costcore.ledger.module_paths import deepest_that_fit
from costcore.numbers.symbolic import magnitude
from costcore.tables.html import text
from costcore.tables.quantities import quantity
from costcore.text.amounts import readable

if TYPE_CHECKING:
    from costcore.studies.comparisons.comparison_data import ComparisonData
    from costcore.studies.comparisons.differences import Delta

WIDTH, HEIGHT = 1000, 260
MOST_AREAS = 40
"""The areas that are drawn: modules as deep in the model as that many fit."""

LETTER = 8
"""The width of a letter of a name; a name that does not fit its area is left out."""

CLASSES = {"unchanged": "same", "less": "less", "more": "more", "added": "more", "removed": "less"}
"""The class of an area, by what happened to the module."""


class Area(NamedTuple):
    """A rectangle of a module."""

    path: str
    left: float
    top: float
    width: float
    height: float


def svg(comparison: ComparisonData, key: str = "flops") -> str:
    """Return the map as an SVG element with its legend; empty without modules that have a cost."""
    if comparison.by != "module":
        return ""
    sums = {path: each[key] for path, each in comparison.modules.items() if path and _weight(each[key])}
    shown = sorted(deepest_that_fit(sums, MOST_AREAS), key=lambda path: _weight(sums[path]), reverse=True)
    if len(shown) < 2:
        return ""
    weights = [(path, _weight(sums[path])) for path in shown]
    areas = "".join(_drawn(area, sums[area.path], key) for area in areas_of(weights, (0, 0, WIDTH, HEIGHT)))
    title = f"{comparison.titles[key]} by module"
    legend = "".join(f"<span class='key {name}'></span> {name} " for name in ("more", "less", "same"))
    return (
        f"<section><h2>{text(title)}</h2><svg id='map' viewBox='0 0 {WIDTH} {HEIGHT}' role='img' "
        f"aria-label='Area of each module; the table by module has the numbers'>{areas}</svg>"
        f"<p class='note'>{legend}· an area is the larger of old and new</p></section>"
    )


def areas_of(weights: Sequence[tuple[str, int]], frame: tuple[float, float, float, float]) -> Iterator[Area]:
    """Yield areas in proportion to the weights: the frame is halved along its longer side, again and again."""
    left, top, width, height = frame
    if len(weights) == 1:
        yield Area(weights[0][0], left, top, width, height)
        return
    total, first, n = sum(weight for _, weight in weights), weights[0][1], 1
    while n < len(weights) - 1 and 2 * (first + weights[n][1]) <= total:
        first += weights[n][1]
        n += 1
    share = first / total
    if width >= height:
        frames = (left, top, width * share, height), (left + width * share, top, width * (1 - share), height)
    else:
        frames = (left, top, width, height * share), (left, top + height * share, width, height * (1 - share))
    yield from areas_of(weights[:n], frames[0])
    yield from areas_of(weights[n:], frames[1])


def _weight(delta: Delta) -> int:
    return int(max(magnitude(delta.old), magnitude(delta.new)))


def _drawn(area: Area, delta: Delta, key: str) -> str:
    old, new = magnitude(delta.old), magnitude(delta.new)
    what = "more" if new > old else "less"
    what = "unchanged" if delta.equal else "added" if not old else "removed" if not new else what
    kind = quantity(key).kind
    said = f"{area.path}: {what}, {readable(delta.old, kind)} → {readable(delta.new, kind)}"
    box = f"x='{area.left:.1f}' y='{area.top:.1f}' width='{area.width:.1f}' height='{area.height:.1f}'"
    name = ""
    if area.width > LETTER * len(area.path) + 8 and area.height > 20:
        name = f"<text x='{area.left + 6:.1f}' y='{area.top + 16:.1f}'>{text(area.path)}</text>"
    return f"<g class='{CLASSES[what]}'><title>{text(said)}</title><rect {box}/>{name}</g>"
