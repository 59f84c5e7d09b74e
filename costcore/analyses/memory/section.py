"""The section of the page about the memory of a run: its course as a picture, and what is alive at its peak."""

from __future__ import annotations

from typing import Any

from costcore.analyses.analysis import Analyzed
from costcore.analyses.memory.picture import STACK, columns_of, figure
from costcore.analyses.memory.report import Memory, memory_of
from costcore.analyses.memory.rows import memory_rows
from costcore.tables.columns import BLOCKS, MemoryColumns, choose
from costcore.tables.html import bytes_card, text
from costcore.tables.html_table import table_of
from costcore.tables.tabulate import tabulate
from costcore.text.table import Column

UNFUSED = "The memory is that of a run without fusion."

MOST_BLOCKS = 100
"""The maximum number of blocks in the table; one row sums the others."""


def memory_section(report: Analyzed) -> str:
    """Return the section; empty if memory was not recorded."""
    if report.trace.run.memory is None:
        return ""
    memory = memory_of(report)
    columns = columns_of(memory, report.trace.calls)
    drawn = figure(memory, columns, report.trace.calls) if columns and memory.peak else ""
    unfused = [] if report.trace.run.fusion is None else [UNFUSED]
    notes = "".join(f"<p class='note'>{text(note)}</p>" for note in (*unfused, *memory.notes))
    title = "<h2 id='memory-title'>Memory of the run</h2>"
    return (
        f"<section id='memory' aria-labelledby='memory-title'>{title}<dl class='cards'>{_cards(memory)}</dl>{drawn}"
        f"{_blocks(memory)}{notes}</section>"
    )


def memory_data(report: Analyzed) -> dict[str, Any] | None:
    """Return the columns of the picture for the page's script, exact numbers as text; None if there is no picture."""
    columns = [] if report.trace.run.memory is None else columns_of(memory_of(report), report.trace.calls)
    if not columns:
        return None
    kinds = [kind for kind in STACK if any(kind in column.by_kind for column in columns)]
    rows = [[column.call, str(column.live), *(str(column.by_kind.get(k, 0)) for k in kinds)] for column in columns]
    return {"kinds": kinds, "rows": rows}


def _cards(memory: Memory) -> str:
    accuracy = "exact" if memory.is_exact else "approximate"
    cards = [
        bytes_card("Peak", memory.peak, f"{accuracy}, {memory.where}"),
        bytes_card("Before the run", memory.base, "parameters, inputs and other state"),
        *([bytes_card("Kept for backward", memory.saved, "saved by autograd")] if memory.saved else []),
        bytes_card("After the run", memory.end, "what the caller holds"),
    ]
    return "\n".join(cards)


def _blocks(memory: Memory) -> str:
    """Return the table of the blocks that are alive at the peak, sums by kind, and the total."""
    columns = [*choose(BLOCKS, MemoryColumns.DEFAULT), Column("dies", "Freed by")]
    table = tabulate(columns, memory_rows(memory, MOST_BLOCKS, with_module=True), "auto", 3, fixed=True)
    return (
        "<h3>Alive at the peak</h3><div class='scroll' tabindex='0' role='group' aria-label='Alive at the peak'>"
        f"{table_of(table)}</div>"
    )
