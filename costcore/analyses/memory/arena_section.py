"""The picture of the arena: every value as a rectangle, its lifetime across and its place in memory upwards."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from costcore.analyses.analysis import Analyzed
from costcore.analyses.memory.arena_report import Arena, Slot, arena_of
from costcore.analyses.memory.section import UNFUSED
from costcore.counting.substitution import symbols_in
from costcore.errors import ArenaError
from costcore.ir import Operations
from costcore.tables.html import bytes_card, text
from costcore.text.amounts import exact
from costcore.trace.trace import Trace

MOST_CALLS = 20_000
"""Runs of more calls have no picture: they would make the page slow."""

MOST_DRAWN = 1000
"""The maximum number of rectangles; the largest values are drawn."""

WIDTH, HEIGHT = 1000, 300
"""The size of the picture in its own units."""


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
        content = f"<dl class='cards'>{_cards(arena)}</dl>{_picture(arena, _free_calls(report.trace))}"
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


def _picture(arena: Arena, free: set[str]) -> str:
    """Return the picture, with the name of each value as a tooltip.

    Args:
        arena: the arena.
        free: the names of the calls that have no place in it.
    """
    timeline = arena.timeline
    steps = [i for i, (name, _) in enumerate(timeline) if name not in free] or [*range(len(timeline))]
    names = [timeline[i][0] for i in steps]
    slots = [slot for slot in arena.slots if slot.nbytes]
    drawn = sorted(slots, key=lambda slot: (-slot.nbytes, slot.born, slot.offset))[:MOST_DRAWN]
    shapes = "".join(_rectangle(slot, steps, names, arena.size) for slot in drawn)
    peak = next(i for i, (_, live) in enumerate(timeline) if live == arena.peak)
    x = _number((min(bisect_left(steps, peak), len(steps) - 1) + 0.5) * WIDTH / len(steps))
    line = f"<line class='peak' x1='{x}' x2='{x}' y1='0' y2='{HEIGHT}'><title>peak: {text(arena.at)}</title></line>"
    omitted = f" The {len(drawn)} largest of {len(slots)} values are drawn." if len(drawn) < len(slots) else ""
    n_free = len(timeline) - len(steps)
    folded = (
        f" without {exact(n_free)} call{'s' * (n_free != 1)} that cost{'s' * (n_free == 1)} nothing" if n_free else ""
    )
    keys = "".join(
        f"<svg viewBox='0 0 1 1' aria-hidden='true'><rect class='{kind}' width='1' height='1'/></svg>{label}"
        for kind, label in (("input", "inputs"), ("value", "values between calls"), ("output", "outputs"))
    )
    return (
        f"<svg id='arena-map' viewBox='0 0 {WIDTH} {HEIGHT}' preserveAspectRatio='none' role='img' aria-label='"
        f"Place in memory of {len(drawn)} values over {len(steps)} steps'>{shapes}{line}</svg>"
        f"<p class='note arena-key'>Across: execution order{folded}. Upwards: offset, to {exact(arena.size)} B. "
        f"Line: peak.{keys}.{omitted}</p>"
    )


def _rectangle(slot: Slot, steps: Sequence[int], names: Sequence[str], size: int) -> str:
    """Return the rectangle of a value; empty if only calls that are not drawn need it."""
    first, last = bisect_left(steps, slot.born), bisect_right(steps, slot.dies) - 1
    if first > last:
        return ""
    across, height, offset = WIDTH / len(steps), HEIGHT * slot.nbytes / size, HEIGHT * slot.offset / size
    label = f"{slot.name}: {exact(slot.nbytes)} B at {exact(slot.offset)}, {names[first]} to {names[last]}"
    return (
        f"<rect class='{slot.kind}' x='{_number(first * across)}' y='{_number(HEIGHT - offset - height)}' "
        f"width='{_number((last - first + 1) * across)}' height='{_number(height)}'>"
        f"<title>{text(label)}</title></rect>"
    )


def _number(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".")
