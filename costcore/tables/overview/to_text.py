"""An overview as plain text, for ``print``."""

from __future__ import annotations

from collections.abc import Sequence

from costcore.ledger.caveats import footer
from costcore.tables.overview.overview import Figure, Overview
from costcore.tables.renderers import rendered
from costcore.text.escape import printable
from costcore.text.table import TextTable


def to_text(overview: Overview, mode: str = "table") -> str:
    """Return the title, one line per figure, the tables that are open, and the remarks.

    Args:
        overview: what is shown.
        mode: name of the renderer of the tables.
    """
    tables = [
        f"{printable(part.title)}:\n{rendered(part.table, mode)}".rstrip("\n")
        for part in overview.parts
        if part.is_open and part.table.rows
    ]
    blocks = [printable(overview.title), _figures(overview), *tables, "\n".join(map(printable, overview.lines))]
    return "\n".join(filter(None, blocks))


def table_to_text(table: TextTable, mode: str, remarks: Sequence[str]) -> str:
    """Return a table, and the remarks below it."""
    return (rendered(table, mode) + footer(remarks, mode)).rstrip("\n")


def _figures(overview: Overview) -> str:
    titles = max((len(figure.title) for figure in overview.figures), default=0)
    values = max((len(figure.value) for figure in overview.figures if figure.note), default=0)
    return "\n".join(_line(figure, titles, values) for figure in overview.figures)


def _line(figure: Figure, titles: int, values: int) -> str:
    note = f"  {figure.note}" if figure.note else ""
    return f"  {figure.title:<{titles}}  {printable(figure.value):>{values}}{printable(note)}"
