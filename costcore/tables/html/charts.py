"""Pictures of results for pages without a script: a bar of parts below a limit, a Pareto front, and lanes of time.

Each is an HTML figure with its keys. All places are percentages of the picture, so that it fits any width, and colors
are those of the style sheet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import pairwise
from math import ceil, floor, log10
from typing import NamedTuple

from costcore.text.amounts import short
from costcore.text.output import printable

# Parts of figures.


def key(kind: str, label: str) -> str:
    """Return an entry of the keys of a figure: a square in the color of ``kind``, and its label."""
    square = f"<svg class='key' viewBox='0 0 1 1' aria-hidden='true'><rect class='{kind}' width='1' height='1'/></svg>"
    return f"<span>{square}{_text(label)}</span> "


def figure(name: str, label: str, shapes: str, caption: str) -> str:
    """Return a figure: ``shapes`` in an SVG element of class ``name`` that says ``label``, with HTML below it."""
    picture = f"<svg class='{name}' role='img' aria-label='{_text(label)}'>{shapes}</svg>"
    return f"<figure class='picture'>{picture}<figcaption class='note'>{caption}</figcaption></figure>"


def _text(value: str) -> str:
    return escape(printable(value))


def _percent(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") + "%"


# A bar: what fills a memory, and its limit.


class Part(NamedTuple):
    """A part of an amount: its kind, by which it has its color, its name and its bytes."""

    kind: str
    name: str
    nbytes: int


def filled(parts: Iterable[Part], limit: int, name: str = "memory") -> str:
    """Return a bar of the parts of a memory, the free rest, and a line at its limit.

    Args:
        parts: what is in it.
        limit: its size.
        name: what it is called.
    """
    shown = [part for part in parts if part.nbytes > 0]
    used = sum(part.nbytes for part in shown)
    free = max(0, limit - used)
    shown += [Part("free", "free", free)] * bool(free)
    whole = max(used, limit, 1)
    shapes, at = [], 0
    for part in shown:
        left, width = _percent(100 * at / whole), _percent(100 * part.nbytes / whole)
        title = f"{part.name}: {short(part.nbytes, 'bytes')}, {part.nbytes / limit:.1%} of the limit"
        shapes.append(
            f"<rect class='{_text(part.kind)}' x='{left}' y='30%' width='{width}' height='70%'>"
            f"<title>{_text(title)}</title></rect>"
        )
        at += part.nbytes
    end = _percent(100 * limit / whole)
    side = "end" if limit > 0.75 * whole else "middle" if limit > 0.25 * whole else "start"
    words = f"limit {short(limit, 'bytes')}" + (f", {short(used - limit, 'bytes')} too much" if used > limit else "")
    shapes.append(
        f"<line class='limit' x1='{end}' x2='{end}' y1='18%' y2='100%'/>"
        f"<text class='label' x='{end}' y='14%' text-anchor='{side}'>{words}</text>"
    )
    label = f"{name}: {short(used, 'bytes')} of {short(limit, 'bytes')}"
    keys = "".join(key(part.kind, f"{part.name} {short(part.nbytes, 'bytes')}") for part in shown)
    return figure("stack", label, "".join(shapes), keys)


# A front: points of two figures, the best of which a line joins.


RIGHT, TOP, BOTTOM = 98.0, 9.0, 86.0
"""The frame of the plot in percent of the picture; labels of the axis upwards are left of the picture."""

LETTERS = 0.55
"""The width of a letter of a label, in percent of a picture of usual width."""

LINE = 4.5
"""The height of a label in percent of the picture."""


MOST_NAMED = 20
"""The maximum number of points that have names beside the front."""


class Point(NamedTuple):
    """A point: its amounts, its name, and whether no other point is better in both."""

    x: float
    y: float
    name: str
    is_best: bool = False


class Axis(NamedTuple):
    """What an axis shows: its title and its kind of amount, as of a column."""

    title: str
    kind: str


NARROW = " class='narrow'"
"""Every other label of an axis across, which a phone does not show."""

MOST_TICKS = 8
"""The maximum number of labels of an axis."""


class _Scale(NamedTuple):
    # ``low`` and ``high`` are decimal logarithms of a scale that ``is_log``.
    low: float
    high: float
    is_log: bool
    start: float
    end: float

    def at(self, value: float) -> float:
        place = (log10(value) if self.is_log else value) - self.low
        return self.start + (self.end - self.start) * place / (self.high - self.low)


def scatter(points: Sequence[Point], x: Axis, y: Axis) -> str:
    """Return a point for each pair of amounts, with the front as a line; names that would overlap are tooltips only.

    Amounts that differ by a factor of four or more are on a logarithmic axis.
    """
    across = _scale([point.x for point in points], 0.0, RIGHT)
    upwards = _scale([point.y for point in points], BOTTOM, TOP)
    best = sorted((point for point in points if point.is_best), key=lambda point: point.x)
    others = [point for point in points if not point.is_best] if len(points) <= MOST_NAMED else []
    places = {point: (across.at(point.x), upwards.at(point.y)) for point in points}
    line = "".join(
        f"<line class='line' x1='{_percent(places[a][0])}' y1='{_percent(places[a][1])}' "
        f"x2='{_percent(places[b][0])}' y2='{_percent(places[b][1])}'/>"
        for a, b in pairwise(best)
    )
    dots = "".join(
        f"<circle class='{'best' if point.is_best else 'dot-0'}' cx='{_percent(places[point][0])}' "
        f"cy='{_percent(places[point][1])}' r='{5 if point.is_best else 4}'>"
        f"<title>{_text(f'{point.name}: {short(point.x, x.kind)}, {short(point.y, y.kind)}')}</title></circle>"
        for point in sorted(points, key=lambda point: point.is_best)
    )
    logs = [axis.title for axis, scale in ((x, across), (y, upwards)) if scale.is_log]
    caption = f"Across: {x.title}. Upwards: {y.title}. {'Logarithmic: ' + ' and '.join(logs) + '. ' if logs else ''}"
    keys = key("best", "Pareto-optimal") + key("dot-0", "others") if best and len(best) < len(points) else ""
    shapes = f"{_grid(across, x, upwards, y)}{line}{dots}{_names([*best, *others], places)}"
    return figure("front", f"{y.title} over {x.title} of {len(points)} rows", shapes, _text(caption) + keys)


def _scale(values: Sequence[float], start: float, end: float) -> _Scale:
    low, high = min(values), max(values)
    if low > 0 and high >= 4 * low:
        margin = 0.06 * (log10(high) - log10(low))
        return _Scale(log10(low) - margin, log10(high) + margin, True, start, end)
    margin = 0.06 * (high - low) or abs(high) or 1.0
    return _Scale(max(low - margin, 0.0) if low >= 0 else low - margin, high + margin, False, start, end)


def _ticks(scale: _Scale, is_binary: bool) -> list[float]:
    if scale.is_log:
        base, steps = (2.0, (1,)) if is_binary else (10.0, (1, 2, 5))
        powers = range(floor(scale.low / log10(base)), ceil(scale.high / log10(base)) + 1)
        inside = [base**power * step for power in powers for step in steps]
        inside = [value for value in inside if scale.low <= log10(value) <= scale.high]
        if len(inside) > MOST_TICKS and not is_binary:
            inside = [base**power for power in powers if scale.low <= power <= scale.high]
        return inside[:: ceil(len(inside) / MOST_TICKS)] if inside else []
    unit = 1024.0 ** max(0, floor(log10(max(scale.high, 1)) / log10(1024))) if is_binary else 1.0
    wide = (scale.high - scale.low) / unit
    power = 10.0 ** floor(log10(wide / 5))
    step = next(power * each for each in (1, 2, 5, 10) if wide / (power * each) <= 6) * unit
    return [step * i for i in range(ceil(scale.low / step), floor(scale.high / step) + 1)]


def _grid(across: _Scale, x: Axis, upwards: _Scale, y: Axis) -> str:
    lines = []
    for i, value in enumerate(_ticks(across, x.kind == "bytes")):
        at = _percent(across.at(value))
        lines.append(f"<line class='grid' x1='{at}' x2='{at}' y1='{_percent(TOP)}' y2='{_percent(BOTTOM)}'/>")
        lines.append(
            f"<text{NARROW * (i % 2)} x='{at}' y='{_percent(BOTTOM)}' dy='16' text-anchor='middle'>"
            f"{_tick(value, x.kind)}</text>"
        )
    for value in _ticks(upwards, y.kind == "bytes"):
        at = _percent(upwards.at(value))
        lines.append(f"<line class='grid' x1='0' x2='{_percent(RIGHT)}' y1='{at}' y2='{at}'/>")
        lines.append(f"<text x='-8' y='{at}' dy='4' text-anchor='end'>{_tick(value, y.kind)}</text>")
    lines.append(f"<text x='{_percent(RIGHT / 2)}' y='100%' dy='-4' text-anchor='middle'>{_text(x.title)}</text>")
    lines.append(f"<text x='-64' y='12'>{_text(y.title)}</text>")
    return "".join(lines)


def _tick(value: float, kind: str) -> str:
    is_whole = kind in ("bytes", "flops", "count")
    return short(
        round(value) if is_whole else value, kind if is_whole else "duration" if kind == "duration" else "ratio"
    )


def _names(points: Iterable[Point], places: dict[Point, tuple[float, float]]) -> str:
    # Right of a point, or left of it at the right edge, unless a name or a point is there.
    taken: list[tuple[float, float, float]] = [(x - 0.6, x + 0.6, y) for x, y in places.values()]
    found = []
    for point in points:
        x, y = places[point]
        wide = LETTERS * len(point.name)
        for dx, dy in ((1.0, -3.0), (1.0, 3.5), (-1.0 - wide, -3.0), (-1.0 - wide, 3.5)):
            left, right, at = x + dx, x + dx + wide, y + dy
            is_free = all(right < a or left > b or abs(at - other) >= LINE * 0.9 for a, b, other in taken)
            if is_free and right < RIGHT + 2 and left > 0 and TOP <= at <= BOTTOM:
                taken.append((left, right, at))
                anchor = "start" if dx > 0 else "end"
                edge = left if dx > 0 else right
                found.append(
                    f"<text class='label' x='{_percent(edge)}' y='{_percent(at)}' dy='4' "
                    f"text-anchor='{anchor}'>{_text(point.name)}</text>"
                )
                break
    return "".join(found)


# Lanes of time.


MOST_SPANS = 1500
"""The maximum number of rectangles of a lane; the longest are drawn."""


LONGEST_LANE = 18
"""The length of the name of a lane; of longer ones the end is shown."""


class Span(NamedTuple):
    """A span of time in seconds, with its kind, by which it has its color, and its name."""

    start: float
    seconds: float
    kind: str
    name: str


def timeline(
    lanes: Sequence[tuple[str, Sequence[Span]]], seconds: float, keys: str = "", has_places: bool = True
) -> str:
    """Return lanes of spans over an axis of time.

    Args:
        lanes: the name and the spans of each lane.
        seconds: the length of the axis.
        keys: HTML below.
        has_places: whether spans began where they are drawn; they can also be parts of a sum.
    """
    high = 100 / (len(lanes) + 0.6)
    shapes = []
    for i, (name, spans) in enumerate(lanes):
        drawn = sorted(spans, key=lambda span: -span.seconds)[:MOST_SPANS]
        label = name if len(name) <= LONGEST_LANE else f"…{name[1 - LONGEST_LANE :]}"
        shapes.append(f"<text x='-8' y='{_percent(high * (i + 0.55))}' dy='4' text-anchor='end'>{_text(label)}</text>")
        for span in drawn:
            left, width = _percent(100 * span.start / seconds), _percent(100 * span.seconds / seconds)
            place = f" at {short(span.start, 'duration')}" if has_places else ""
            title = f"{span.name}: {short(span.seconds, 'duration')}{place}"
            shapes.append(
                f"<rect class='{span.kind}' x='{left}' y='{_percent(high * (i + 0.15))}' width='{width}' "
                f"height='{_percent(high * 0.8)}'><title>{_text(title)}</title></rect>"
            )
    scale = _Scale(0.0, seconds, False, 0.0, 100.0)
    for i, value in enumerate(_ticks(scale, False)):
        at = _percent(scale.at(value))
        side = "start" if value < seconds / 20 else "end" if value > seconds * 0.95 else "middle"
        shapes.append(f"<line class='grid' x1='{at}' x2='{at}' y1='0' y2='{_percent(high * len(lanes))}'/>")
        look = f"{NARROW * (i % 2)} x='{at}' y='100%' dy='-2' text-anchor='{side}'"
        shapes.append(f"<text{look}>{short(value, 'duration')}</text>")
    label = f"{len(lanes)} lanes over {short(seconds, 'duration')}"
    return figure(f"timeline lanes-{min(len(lanes), 9)}", label, "".join(shapes), keys)
