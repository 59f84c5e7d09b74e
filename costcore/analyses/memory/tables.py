"""The tables of the memory of a run: the blocks that are alive at its peak, and the values of an arena."""

from __future__ import annotations

from collections.abc import Sequence

from costcore.analyses.analysis import Analyzed
from costcore.analyses.memory.arena_report import arena_of
from costcore.analyses.memory.arena_rows import ARENA, ArenaColumns, arena_rows
from costcore.analyses.memory.report import memory_of
from costcore.analyses.memory.rows import memory_remarks, memory_rows
from costcore.ledger.caveats import remarks
from costcore.tables.columns import BLOCKS, MemoryColumns, choose
from costcore.tables.fit import dropped_first
from costcore.tables.table import Table

DROPPED_FIRST = ("dtype", "call", "nbytes%", "name", "shape", "module")
"""The columns of a block that a narrow terminal does without, in this order: where it belongs is shown longest."""


def alive_at_peak(report: Analyzed, columns: Sequence[str] = MemoryColumns.DEFAULT, top: int | None = None) -> Table:
    """Return the blocks that are alive at the peak, their sums by kind, and the total.

    Raises:
        TypeError, ValueError: if an argument is invalid.
        CostError: if memory was not recorded.
    """
    memory, chosen = memory_of(report), choose(BLOCKS, columns)
    *rows, total = memory_rows(memory, top, with_module=BLOCKS["module"] in chosen)
    lines = [*memory_remarks(memory), *remarks(report.trace)]
    dropped = DROPPED_FIRST if dropped_first(chosen) is not None else None
    return Table("Memory", chosen, rows, total=total, remarks=lines, dropped_first=dropped)


def values_in_arena(
    report: Analyzed,
    columns: Sequence[str] = ArenaColumns.DEFAULT,
    top: int | None = None,
    sort: str | None = None,
    align: int = 64,
    inplace: bool = False,
    count_inputs: bool = True,
) -> Table:
    """Return the values of an inference run with their place in memory, the largest first, and the whole arena.

    Raises:
        TypeError, ValueError: if an argument is invalid.
        ArenaError: if the run has no arena.
    """
    arena = arena_of(report, align, inplace, count_inputs)
    order = None if sort is None else choose(ARENA, [sort])[0]
    *rows, total = arena_rows(arena.entries(), arena.total_entry(), order, top)
    chosen = choose(ARENA, columns)
    dropped = dropped_first(chosen, (ArenaColumns.DEFAULT, ArenaColumns.ALL))
    return Table("Arena", chosen, rows, total=total, remarks=arena.remarks, dropped_first=dropped)
