"""The section of the page about the memory of an inference run."""

from __future__ import annotations

from costcore.analyses.analysis import Analyzed
from costcore.analyses.memory.arena_picture import MOST_CALLS, picture
from costcore.analyses.memory.arena_report import Arena, arena_of
from costcore.analyses.memory.section import UNFUSED
from costcore.counting.substitution import symbols_in
from costcore.errors import ArenaError
from costcore.ir import Operations
from costcore.tables.html import bytes_card, text
from costcore.trace.trace import Trace


def arena_section(report: Analyzed) -> str:
    """Return the section with the memory of an inference run; empty if there is none, as for a training step."""
    if not report.trace.records or len(report.trace) > MOST_CALLS:
        return ""
    if symbols_in(report.trace):
        return _section("<p class='note'>A layout needs numbers for the symbolic sizes, as from report.subs(…).</p>")
    try:
        arena = arena_of(report)
        if arena.peak == 0 or arena.symbols:
            return ""
        drawn = picture(arena.timeline, arena.slots, arena.size, _free_calls(report.trace))
        content = f"<dl class='cards'>{_cards(arena)}</dl>{drawn}"
    except ArenaError:
        return ""
    unfused = [] if report.trace.run.fusion is None else [UNFUSED]
    return _section(content + "".join(f"<p class='note'>{text(note)}</p>" for note in (*unfused, *arena.notes)))


def _section(content: str) -> str:
    title = "<h2 id='arena-title'>Memory of one inference</h2>"
    return f"<section id='arena' aria-labelledby='arena-title'>{title}{content}</section>"


def _cards(arena: Arena) -> str:
    bound = "the best order needs no more" if arena.is_exact else "no order needs less"
    cards = [
        bytes_card("Peak of live values", arena.peak, f"in execution order, at {arena.at}"),
        bytes_card("Arena", arena.size, f"peak SRAM, aligned to {arena.align} bytes"),
        bytes_card("Lower bound", arena.lower_bound, bound),
        bytes_card("Weights and constants", arena.weights, "flash"),
    ]
    return "\n".join(cards)


def _free_calls(trace: Trace) -> set[str]:
    """Return the names of the calls that neither compute nor move anything, such as ``Constant`` and ``Identity``."""
    costs = {record.call.name: record.cost for record in trace}
    return {
        name
        for name, cost in costs.items()
        if cost and cost.flops in (0, Operations()) and cost.mread == cost.mwrite == 0
    }
