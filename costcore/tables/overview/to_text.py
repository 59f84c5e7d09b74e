"""An overview as plain text, for ``print``."""

from __future__ import annotations

from costcore.tables.overview.overview import Figure, Overview, Part
from costcore.tables.renderers import to_boxes
from costcore.text.escape import printable


def to_text(overview: Overview) -> str:
    """Return the title, one line per figure, the tables that are open, and the remarks."""
    tables = [_table(part) for part in overview.parts if part.is_open and part.table.rows]
    blocks = [printable(overview.title), _figures(overview), *tables, "\n".join(map(printable, overview.lines))]
    return "\n".join(filter(None, blocks))


def _figures(overview: Overview) -> str:
    titles = max((len(figure.title) for figure in overview.figures), default=0)
    values = max((len(figure.value) for figure in overview.figures if figure.note), default=0)
    return "\n".join(_line(figure, titles, values) for figure in overview.figures)


def _line(figure: Figure, titles: int, values: int) -> str:
    note = f"  {figure.note}" if figure.note else ""
    return f"  {figure.title:<{titles}}  {printable(figure.value):>{values}}{printable(note)}"


def _table(part: Part) -> str:
    return f"{printable(part.title)}:\n{to_boxes(part.table)}".rstrip("\n")
