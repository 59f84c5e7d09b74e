"""Self-contained HTML pages: one template and one style sheet for the page of a report and those of all results.

The page of a result has no script: figures as tiles, remarks, pictures (:mod:`costcore.tables.html.charts`), tables.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib.resources import files
from itertools import chain
from string import Template
from typing import Any

from costcore._version import __version__
from costcore.numbers import Dim, as_text, is_symbolic
from costcore.tables.answer import Content, Figure, ReportTable
from costcore.tables.columns import cell_text
from costcore.tables.overview import figures_of
from costcore.tables.quantity import NUMERIC
from costcore.text.amounts import Formatted, exact, short
from costcore.text.output import Column, printable

STYLES = ("page.css", "tables.css", "charts.css")
"""The files of the style sheet of every page."""

MOST_ROWS = 1000
"""The maximum number of rows of a table that is longer than in ``print``."""

MAX_LARGE_VALUE = 24
"""The maximum length of a value in the large font (characters); symbolic expressions are always printed smaller."""

LARGE_COUNT = 10**8
"""Counts from here on, such as tokens of a run, have a prefix on tiles, and all digits below."""


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
        style: a style sheet after that of every page.
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
    # A table that shows some of its rows is followed by the whole, closed.
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

MOST_EXACT = 100
"""The maximum number of rows of a table whose amounts have tooltips, which take space."""


def table(part: ReportTable) -> str:
    """Return a table as HTML, in a box that scrolls.

    An amount has four significant digits, and the exact one as a tooltip; of a table without prefixes it is exact. A
    share has a bar. Columns of zeros are left out, unless the table alone was asked for.
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
    return f"<td{look}>{text(_plain(value, column, part))}</td>"


def _plain(value: Any, column: Column, part: ReportTable) -> str:
    if column.kind == "shape":
        return shape_text(value)
    if column.kind == "shapes":
        return ", ".join(map(shape_text, value))
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer() and abs(value) >= 1000)
    if is_whole and column.kind in NUMERIC and column.kind not in ("percent", "seconds"):
        return exact(int(value))
    return cell_text(value, column.kind, part.n_digits, fixed=True)
