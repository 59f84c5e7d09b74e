"""A result on a screen: some of the rows of its tables, and the columns that fit."""

from __future__ import annotations

from costcore.ledger.caveats import footer
from costcore.tables.answer import Answer
from costcore.tables.overview.to_text import figures_text
from costcore.tables.renderers import rendered
from costcore.text.escape import printable
from costcore.text.screen import Screen, wrapped


def write_answer(answer: Answer, screen: Screen, mode: str, unit: str | None, n_digits: int | None) -> None:
    """Write the title of a result, one line per figure, its tables, and its remarks.

    Tables share the lines that the others leave.

    Args:
        answer: what the result says.
        screen: where it is written.
        mode: ``table`` or ``color``, for a terminal with colors.
        unit: the prefix of amounts, ``auto`` or ``autoaligned``.
        n_digits: digits after the decimal point; None for as many as the answer and each table have.
    """
    figures = figures_text(answer, unit, n_digits)
    screen.write("".join(f"{block}\n" for block in (printable(answer.title), figures) if block))
    tables = [each for each in answer.tables if each.is_open and each.rows]
    remarks = [part for line in answer.remarks for part in wrapped(printable(line), screen.width)]
    for i, table in enumerate(tables):
        left = screen.room - 1 - len(remarks)
        shown = table.in_print().in_lines(left // (len(tables) - i) - 1)
        screen.is_cut |= shown is not table
        text, said = shown.fitted(shown.shown(unit, n_digits), screen.width)
        title = f"{printable(shown.title)}:\n" if shown.title else ""
        screen.write(f"{title}{rendered(text, mode)}{footer(said, mode)}")
    screen.write("".join(f"{printable(line)}\n" for line in answer.remarks))
