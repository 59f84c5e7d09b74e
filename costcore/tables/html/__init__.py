"""A result as one self-contained HTML page without a script: figures as cards, tables, and remarks."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from string import Template

from costcore._version import __version__
from costcore.numbers import Dim
from costcore.tables.answer import Content, ReportTable
from costcore.tables.overview import figures_of
from costcore.tables.renderers import table_of
from costcore.text.amounts import exact, readable
from costcore.text.output import printable

STYLES = ("page.css", "tables.css", "result.css")
"""The files of the style sheet of the page."""

MOST_ROWS = 1000
"""The maximum number of rows of a table that is longer than in ``print``."""

MAX_LARGE_VALUE = 24
"""The maximum length of a value in the large font (characters); symbolic expressions are always printed smaller."""


def page(
    answer: Content,
    title: str = "",
    badge: str = "",
    settings: str = "",
    version: str = __version__,
    picture: str = "",
    styles: Sequence[str] = (),
) -> str:
    """Return a result as an HTML page, the same text for equal results. The page loads nothing from outside.

    Names appear as text, never as markup, and the page's content security policy allows no script.

    Args:
        answer: the figures, the tables and the remarks.
        title: heading of the page; default: that of the result.
        badge: HTML beside the heading.
        settings: HTML below the heading.
        version: the version of costcore that counted.
        picture: HTML between the summary and the tables.
        styles: files of this package with the style sheet of the picture.
    """
    style = "\n".join(map(file_text, (*STYLES, *styles)))
    cards = "\n".join(card(text(title), value, note) for title, value, note in figures_of(answer))
    remarks = "".join(f"<li>{text(line)}</li>" for line in answer.remarks)
    return Template(file_text("result.html")).substitute(
        policy=policy(style),
        style=style,
        title=heading(title or answer.title),
        version=escape(version),
        badge=badge,
        settings=settings or (text(answer.title) if title else ""),
        totals=f'<section aria-label="Totals"><dl class="cards">{cards}</dl></section>' if cards else "",
        verdict=f'<section><h2>Summary</h2><ul class="verdict">{remarks}</ul></section>' if remarks else "",
        picture=picture,
        tables="\n".join(_section(part) for each in answer.tables for part in _with_folded_rest(each)),
    )


def file_text(name: str) -> str:
    """Return the text of a file of this package."""
    return files(__name__).joinpath(name).read_text(encoding="utf-8")


def policy(style: str, script: str = "") -> str:
    """Return a content security policy that allows only this style and this script, and nothing from outside."""
    script_source = f"script-src {_hash(script)}; " if script else ""
    return f"default-src 'none'; img-src data:; style-src {_hash(style)}; {script_source}base-uri 'none'"


def heading(title: object) -> str:
    """Return a title as HTML.

    Raises:
        TypeError: if it is not a string.
    """
    if not isinstance(title, str):
        raise TypeError(f"title must be a string (got {title!r})")
    return text(title)


def text(value: str) -> str:
    """Return any text as HTML: markup, unprintable characters and bidirectional marks are escaped."""
    return escape(printable(value))


def card(title: str, value: str, note: str, is_expression: bool = False) -> str:
    """Return a card: a title, a value, and a note in small print."""
    long = " class='long'" if is_expression or len(value) > MAX_LARGE_VALUE else ""
    return f"<div class='card'><dt>{title}</dt><dd{long}>{text(value)}</dd><dd class='note'>{text(note)}</dd></div>"


def bytes_card(title: str, value: Dim, note: str) -> str:
    """Return a card of an amount of memory; the note begins with the exact bytes."""
    return card(title, readable(value, "bytes"), f"{exact(value)} B, {note}")


def _with_folded_rest(table: ReportTable) -> Iterator[ReportTable]:
    # A table that shows some of its rows is followed by the whole, folded.
    if table.rows:
        yield table
    if table.whole is not table and table.whole.rows:
        n = len(table.whole)
        title = f"{table.whole.title}: the first {MOST_ROWS:,} of {n:,} rows" if n > MOST_ROWS else table.whole.title
        part = table.whole.top(MOST_ROWS)
        part = part.part(part.rows, title)  # a copy, which is folded
        part.is_open = False
        yield part


def _section(part: ReportTable) -> str:
    name = text(part.title)
    content = f"<div class='scroll' tabindex='0' role='group' aria-label='{name}'>{table_of(part.shown())}</div>"
    if part.is_open:
        return f"<section><h2>{name}</h2>{content}</section>"
    return f"<section><details open><summary><h2>{name}</h2></summary>{content}</details></section>"


def _hash(source: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"
