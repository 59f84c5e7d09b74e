"""A result as plain text, for ``print``."""

from __future__ import annotations

from collections.abc import Sequence

from costcore.ledger.caveats import footer
from costcore.tables.answer import Answer
from costcore.tables.overview.figures import figures_of
from costcore.tables.renderers import rendered
from costcore.text.escape import printable
from costcore.text.table import TextTable


def to_text(
    answer: Answer,
    mode: str = "table",
    unit: str | None = "auto",
    n_digits: int | None = None,
    is_whole: bool = True,
) -> str:
    """Return the title, one line per figure, the tables that are open, and the remarks.

    Args:
        answer: what is shown.
        mode: name of the renderer of the tables.
        unit: the prefix of amounts; ``auto`` for that of each table.
        n_digits: digits after the decimal point; None for as many as the answer and each table have.
        is_whole: whether long tables have all of their rows.
    """
    shown = answer.tables if is_whole else [each.in_print() for each in answer.tables]
    tables = [
        f"{printable(each.title)}:\n{rendered(each.shown(unit, n_digits), mode)}".rstrip("\n")
        for each in shown
        if each.is_open and each.rows
    ]
    figures = figures_text(answer, unit, n_digits)
    blocks = [printable(answer.title), figures, *tables, "\n".join(map(printable, answer.remarks))]
    return "\n".join(filter(None, blocks))


def table_to_text(table: TextTable, mode: str, remarks: Sequence[str]) -> str:
    """Return a table, and the remarks below it."""
    return (rendered(table, mode) + footer(remarks, mode)).rstrip("\n")


def figures_text(answer: Answer, unit: str | None = "auto", n_digits: int | None = None) -> str:
    """Return one line per figure: title, value and note; arguments as for :func:`to_text`."""
    figures = figures_of(answer, unit, n_digits)
    titles = max((len(title) for title, _, _ in figures), default=0)
    values = max((len(value) for _, value, note in figures if note), default=0)
    return "\n".join(
        f"  {title:<{titles}}  {printable(value):>{values}}{printable(f'  {note}' if note else '')}"
        for title, value, note in figures
    )
