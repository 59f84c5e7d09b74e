"""A table of text as HTML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from costcore.text.escape import printable
from costcore.text.table import TextTable

_CLASSES = {"text": "", "tree": " class='tree'", "number": " class='n'"}
_INLINE = {
    "text": " style='text-align:left'",
    "tree": " style='text-align:left;white-space:pre'",
    "number": " style='text-align:right'",
}


def table_of(table: TextTable, is_styled: bool = True) -> str:
    """Return a table as HTML; ``is_styled`` is that of :func:`looks_of`."""
    looks = looks_of(table, is_styled)
    titles = zip(table.titles, looks, strict=True)
    head = "".join(f"<th scope='col'{look}>{_text(' '.join(filter(None, title)))}</th>" for title, look in titles)
    body = "".join(_rows(table.rows, looks))
    return f"<table class='plain'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def looks_of(table: TextTable, is_styled: bool) -> list[str]:
    """Return the attribute of the cells of each column that aligns them.

    Args:
        table: the table.
        is_styled: whether the style sheet of costcore's pages applies. Notebooks have their own, which aligns cells
            to the right and collapses spaces, so that a tree needs both stated.
    """
    first = "tree" if table.is_tree or any(row[0].startswith(" ") for row in table.rows) else "text"
    kinds = ["number" if n else "text" if i else first for i, n in enumerate(table.numeric)]
    return [(_CLASSES if is_styled else _INLINE)[kind] for kind in kinds]


def _rows(rows: Sequence[Sequence[str]], looks: Sequence[str]) -> Iterator[str]:
    """Yield the rows; one with an empty first cell continues the row above, without a line between them."""
    for row in rows:
        cells = "".join(f"<td{look}>{_text(cell)}</td>" for cell, look in zip(row, looks, strict=True))
        yield f"<tr>{cells}</tr>" if row[0] else f"<tr class='continued'>{cells}</tr>"


def _text(value: str) -> str:
    return escape(printable(value))
