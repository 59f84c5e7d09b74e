"""Self-contained HTML pages: one template and one style sheet for reports and all other results.

The page of a result has no script: figures as tiles, remarks, pictures, tables.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib.resources import files
from itertools import chain, pairwise
from math import ceil, floor, log10
from string import Template
from typing import Any, NamedTuple

from costcore._version import __version__
from costcore.numbers import Dim, as_text, is_symbolic
from costcore.tables.answer import Content, Figure, ReportTable, figures_of
from costcore.tables.columns import cell_text
from costcore.tables.quantity import NUMERIC
from costcore.text.amounts import Formatted, exact, short
from costcore.text.output import Column, printable

STYLES = ("page.css", "tables.css", "charts.css")
"""The files of the style sheet of every page."""

MOST_ROWS = 1000
"""The maximum number of rows of the full table below a shortened one."""

MAX_LARGE_VALUE = 24
"""The maximum length of a value in the large font (characters); symbolic expressions are always printed smaller."""

LARGE_COUNT = 10**8
"""Counts of at least this size, such as tokens of a run, have a prefix on tiles, and all digits below."""


def document(
    title: str,
    main: str,
    *,
    badge: str = "",
    about: Iterable[str] = (),
    details: str = "",
    tiles: Sequence[str] = (),
    version: str = __version__,
    style: str = "",
    script: str = "",
    end: str = "",
) -> str:
    """Return an HTML page, the same text for equal arguments. The page loads nothing from outside.

    Args:
        title: the heading, as text.
        main: HTML below the tiles.
        badge: HTML beside the heading.
        about: lines of HTML below the heading; empty ones are left out.
        details: HTML that opens below these lines.
        tiles: the totals, as :func:`card` returns them.
        version: the version of costcore that counted.
        style: a further style sheet, after the common one.
        script: the only script that the page's content security policy allows.
        end: HTML after all sections.

    Raises:
        TypeError: if the title is not a string.
    """
    if not isinstance(title, str):
        raise TypeError(f"title must be a string (got {title!r})")
    style = "\n".join((*map(file_text, STYLES), style))
    lines = "<br>".join(filter(None, about))
    folded = f"<details class='settings'><summary>Counting rules</summary>{details}</details>" if details else ""
    return Template(file_text("page.html")).substitute(
        policy=_policy(style, script),
        style=style,
        title=text(title),
        version=escape(version),
        badge=badge,
        about=f"<p class='settings'>{lines}</p>{folded}",
        totals=f'<section aria-label="Totals">{cards(tiles)}</section>' if tiles else "",
        main=main,
        end=f"{end}<script>{script}</script>" if script else end,
    )


def page(
    answer: Content,
    title: str = "",
    *,
    made: str = "",
    badge: str = "",
    settings: str = "",
    version: str = __version__,
    pictures: str = "",
) -> str:
    """Return a result as an HTML page. Names appear as text, never as markup, and no script is allowed.

    Args:
        answer: the figures, the tables and the remarks.
        title: heading of the page; default: the model of the result, or else the title of the result.
        made: the command that wrote the page, and the date; empty if unknown.
        badge: HTML beside the heading.
        settings: HTML below the heading.
        version: the version of costcore that counted.
        pictures: HTML between the summary and the tables.
    """
    heading = title or answer.model or answer.title
    remarks = "".join(f"<li>{text(line)}</li>" for line in answer.remarks)
    summary = f'<section><h2>Summary</h2><ul class="verdict">{remarks}</ul></section>' if remarks else ""
    tables = [part for each in answer.tables for part in _parts(each)]
    subject = f"<strong>{text(answer.title)}</strong>" if heading != answer.title else ""
    return document(
        heading,
        "\n".join([summary, pictures, *tables]),
        badge=badge,
        about=[subject, command_line(made), settings or text(f"costcore {version}")],
        tiles=[_tile(answer, i) for i in range(len(answer.figures))],
        version=version,
    )


def file_text(name: str) -> str:
    """Return the text of a file of this package."""
    return files(__name__).joinpath(name).read_text(encoding="utf-8")


def command_line(made: str) -> str:
    """Return the command that wrote a page as HTML; empty if it is unknown."""
    return f"<code>{text(made)}</code>" if made else ""


def text(value: str) -> str:
    """Return any text as HTML: markup, unprintable characters and bidirectional marks are escaped."""
    return escape(printable(value))


def card(title: str, value: str, note: str = "", is_expression: bool = False) -> str:
    """Return a tile: a title, a value, and a note in small print."""
    long = " class='long'" if is_expression or len(value) > MAX_LARGE_VALUE else ""
    small = f"<dd class='note'>{text(note)}</dd>" if note else ""
    return f"<div class='card'><dt>{title}</dt><dd{long}>{text(value)}</dd>{small}</div>"


def cards(tiles: Iterable[str]) -> str:
    """Return tiles side by side."""
    return f"<dl class='cards'>{''.join(tiles)}</dl>"


def amount_card(title: str, value: Dim, kind: str, note: str = "") -> str:
    """Return a tile of FLOPs, elements or bytes: four significant digits, and the exact amount in small print."""
    if is_symbolic(value):
        return card(title, as_text(value), note, is_expression=True)
    large, full = short(value, kind), exact(value) + (" B" if kind == "bytes" else "")
    return card(title, large, ", ".join(filter(None, ["" if full == large else full, note])))


def section(title: str, content: str, name: str = "") -> str:
    """Return a section with a heading; ``name`` is its id."""
    where, what = (f" id='{name}' aria-labelledby='{name}-title'", f" id='{name}-title'") if name else ("", "")
    return f"<section{where}><h2{what}>{text(title)}</h2>{content}</section>" if content else ""


def _tile(answer: Content, i: int) -> str:
    figure, shown = answer.figures[i], figures_of(answer)[i]
    if figure.kind == "count" and isinstance(figure.value, int):
        if figure.value >= LARGE_COUNT:
            return amount_card(text(figure.title), figure.value, "flops", figure.note)
        return card(text(figure.title), exact(figure.value), figure.note)
    if figure.kind in ("flops", "bytes") and not isinstance(figure.value, Formatted):
        return amount_card(text(figure.title), figure.value, figure.kind, figure.note)
    value = short(figure.value, "duration") if _is_duration(figure) else shown.value
    return card(text(figure.title), value, shown.note)


def _is_duration(figure: Figure) -> bool:
    return figure.kind == "duration" and isinstance(figure.value, (int, float))


def _parts(part: ReportTable) -> Iterator[str]:
    # A shortened table is followed by the full one, collapsed.
    if part.rows:
        yield section(part.title, table(part)) if part.is_open else _folded(part, " open")
    whole = part.whole
    if whole is not part and whole.rows:
        n = len(whole)
        first = whole.top(MOST_ROWS)
        title = f"{whole.title}: the first {MOST_ROWS:,} of {n:,} rows" if n > MOST_ROWS else whole.title
        yield _folded(first.part(first.rows, title), "" if part.rows else " open")


def _folded(part: ReportTable, is_open: str) -> str:
    name = text(part.title)
    return f"<section><details{is_open}><summary><h2>{name}</h2></summary>{table(part)}</details></section>"


def _policy(style: str, script: str) -> str:
    # Only this style and this script, and nothing from outside.
    script_source = f"script-src {_hash(script)}; " if script else ""
    return f"default-src 'none'; img-src data:; style-src {_hash(style)}; {script_source}base-uri 'none'"


def _hash(source: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"


# Tables: amounts with four significant digits, thousands separated, shares as bars, shapes as ``8 × 64 × 7 × 7``.


AMOUNTS = ("flops", "bytes", "count")
"""The kinds of columns that are left out if they have only zeros."""

UNITS = {"seconds": "ms", "percent": "(%)"}

FEWEST_SPACES = 3
"""A text of the first column with as many spaces is a sentence, which wraps; names do not."""

MOST_EXACT = 100
"""The maximum number of rows of a table whose amounts have tooltips, which take space."""


def table(part: ReportTable) -> str:
    """Return a table as HTML, in a box that scrolls.

    An amount has four significant digits and a tooltip with the exact amount; in a table without prefixes it is exact.
    A share has a bar. Columns of zeros are left out, unless ``keeps_zeros``.
    """
    rows = [*part.rows, *([] if part.total is None else [part.total])]
    columns = [
        column
        for column in part.columns
        if part.keeps_zeros or column.kind not in AMOUNTS or any(row.get(column.key) for row in rows)
    ] or part.columns
    shares = [column for column in columns if column.kind == "percent"]
    parts = [column for column in shares if _are_parts(row.get(column.key) for row in rows)]
    whole = (column for column in parts if round((part.total or {}).get(column.key) or 0.0, 3) == 100)
    bars = next(chain(whole, reversed(parts)), None)
    head = "".join(f"<th scope='col'{_look(column, part)}>{text(_title(column))}</th>" for column in columns)
    body = "".join(_row([_cell(row, column, part, column is bars) for column in columns]) for row in rows)
    wide = " wide" if bars is not None else ""
    return (
        f"<div class='scroll' tabindex='0' role='group' aria-label='{text(part.title)}'>"
        f"<table class='plain{wide}'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def grouped(shown: str) -> str:
    """Return a text with the thousands of its whole numbers separated."""
    return re.sub(r"(?<![\d.,])\d{4,}", lambda found: f"{int(found[0]):,}", shown)


def shape_text(dims: Iterable[Dim]) -> str:
    """Return a shape as text, ``1 × 3 × 224 × 224``; ``()`` for a scalar."""
    return printable(" × ".join(map(as_text, dims))) or "()"


def _are_parts(values: Iterable[Any]) -> bool:
    numbers = [value for value in values if isinstance(value, (int, float))]
    return bool(numbers) and all(0 <= value <= 100.000001 for value in numbers)


def _title(column: Column) -> str:
    return " ".join(filter(None, (column.title, column.unit or UNITS.get(column.kind, ""))))


def _look(column: Column, part: ReportTable) -> str:
    if column.kind in NUMERIC:
        return " class='n'"
    return " class='tree'" if part.is_tree and column is part.columns[0] else ""


def _row(cells: Sequence[str]) -> str:
    # A row with an empty first cell continues the row above, without a line between them.
    is_continued = cells[0].endswith("></td>")
    return f"<tr{' class=' + chr(39) + 'continued' + chr(39) if is_continued else ''}>{''.join(cells)}</tr>"


def _cell(row: Any, column: Column, part: ReportTable, has_bar: bool) -> str:
    value, look = row.get(column.key, ""), _look(column, part)
    if has_bar and isinstance(value, (int, float)):
        bar = f"<svg class='share' aria-hidden='true'><rect width='{value:.2f}%' height='100%'/></svg>"
        return f"<td class='n bar-cell'>{bar}<span>{value:.1f}%</span></td>"
    if value == "" or value is None or isinstance(value, Formatted):
        shown = cell_text(value, column.kind, part.n_digits, fixed=True)
        return f"<td{look}>{text(grouped(shown) if column.kind in NUMERIC else shown)}</td>"
    if column.kind in ("flops", "bytes", "duration") and not is_symbolic(value) and part.prefix is not None:
        full = exact(value) + " B" * (column.kind == "bytes") if isinstance(value, int) else f"{value!r} s"
        exactly = f" title='{text(full)}'" if value and len(part) <= MOST_EXACT else ""
        return f"<td{look}{exactly}>{text(short(value, column.kind, fixed=True))}</td>"
    shown = _plain(value, column, part)
    if not look and column is part.columns[0] and shown.count(" ") >= FEWEST_SPACES:
        look = " class='words'"
    return f"<td{look}>{text(shown)}</td>"


def _plain(value: Any, column: Column, part: ReportTable) -> str:
    if column.kind == "shape":
        return shape_text(value)
    if column.kind == "shapes":
        return ", ".join(map(shape_text, value))
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer() and abs(value) >= 1000)
    if is_whole and column.kind in NUMERIC and column.kind not in ("percent", "seconds"):
        return exact(int(value))
    return cell_text(value, column.kind, part.n_digits, fixed=True)


# Pictures of results for pages without a script: a bar of parts below a limit, a Pareto front, and lanes of time.
#
# Each is an HTML figure with its legend. Positions are percentages of the picture, so that it fits any width. Colors
# come from the style sheet.

# Parts of figures.


def key(kind: str, label: str) -> str:
    """Return an entry of the legend of a figure: a square in the color of ``kind``, and its label."""
    square = f"<svg class='key' viewBox='0 0 1 1' aria-hidden='true'><rect class='{kind}' width='1' height='1'/></svg>"
    return f"<span>{square}{_text(label)}</span> "


def figure(name: str, label: str, shapes: str, caption: str) -> str:
    """Return a figure: an SVG element of class ``name`` with ``shapes``, its label, and a caption in HTML."""
    picture = f"<svg class='{name}' role='img' aria-label='{_text(label)}'>{shapes}</svg>"
    return f"<figure class='picture'>{picture}<figcaption class='note'>{caption}</figcaption></figure>"


def _text(value: str) -> str:
    return escape(printable(value))


def _percent(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") + "%"


# A bar: what fills a memory, and its limit.


class Part(NamedTuple):
    """A part of an amount: its kind (which selects the color), its name and its bytes."""

    kind: str
    name: str
    nbytes: int


def filled(parts: Iterable[Part], limit: int, name: str = "memory") -> str:
    """Return a bar of the parts of a memory, the free rest, and a line at its limit.

    Args:
        parts: its content.
        limit: its size in bytes.
        name: its name.
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
    words = f"limit {short(limit, 'bytes')}" + (f", exceeded by {short(used - limit, 'bytes')}" if used > limit else "")
    shapes.append(
        f"<line class='limit' x1='{end}' x2='{end}' y1='18%' y2='100%'/>"
        f"<text class='label' x='{end}' y='14%' text-anchor='{side}'>{words}</text>"
    )
    label = f"{name}: {short(used, 'bytes')} of {short(limit, 'bytes')}"
    keys = "".join(key(part.kind, f"{part.name} {short(part.nbytes, 'bytes')}") for part in shown)
    return figure("stack", label, "".join(shapes), keys)


# A Pareto front: points of two figures, with a line through the best ones.


RIGHT, TOP, BOTTOM = 98.0, 9.0, 86.0
"""The frame of the plot in percent of the picture; labels of the vertical axis are left of the picture."""

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
    """The title of an axis, and the kind of its amounts; see :class:`costcore.text.output.Column`."""

    title: str
    kind: str


NARROW = " class='narrow'"
"""The attribute of every other label of the horizontal axis, which a phone does not show."""

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
        lowest = 0 if is_binary else floor(scale.low / log10(base))  # there is no half of a byte
        powers = range(lowest, ceil(scale.high / log10(base)) + 1)
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
"""The maximum length of the name of a lane; longer names show their end."""


class Span(NamedTuple):
    """A span of time in seconds, its kind (which selects the color), and its name."""

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
        keys: the legend, as HTML.
        has_places: whether spans are drawn at their start times; otherwise they are parts of a sum.
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
