"""A table of text as HTML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from costcore.text.escape import printable
from costcore.text.table import TextTable


def table_of(table: TextTable) -> str:
    """Return a table as HTML."""
    titles = zip(table.titles, table.numeric, strict=True)
    head = "".join(f"<th scope='col'{_numeric(n)}>{_text(' '.join(filter(None, title)))}</th>" for title, n in titles)
    body = "".join(_rows(table.rows, table.numeric))
    return f"<table class='plain'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _rows(rows: Sequence[Sequence[str]], numeric: Sequence[bool]) -> Iterator[str]:
    """Yield the rows; one with an empty first cell continues the row above, without a line between them."""
    for row in rows:
        cells = "".join(f"<td{_numeric(n)}>{_text(cell)}</td>" for cell, n in zip(row, numeric, strict=True))
        yield f"<tr>{cells}</tr>" if row[0] else f"<tr class='continued'>{cells}</tr>"


def _numeric(is_number: bool) -> str:
    return " class='n'" if is_number else ""


def _text(value: str) -> str:
    return escape(printable(value))
