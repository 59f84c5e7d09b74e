"""The picture of the arena: every value as a rectangle, its lifetime across and its place in memory upwards."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from costcore.analyses.memory.arena_rows import Slot
from costcore.numbers.dims import Dim
from costcore.tables.html import text
from costcore.text.amounts import exact

MOST_CALLS = 20_000
"""Runs of more calls have no picture: they would make the page slow."""

MOST_DRAWN = 1000
"""The maximum number of rectangles; the largest values are drawn."""

WIDTH, HEIGHT = 1000, 300
"""The size of the picture in its own units."""


def picture(timeline: Sequence[tuple[str, Dim]], slots: Sequence[Slot], size: int, free: set[str]) -> str:
    """Return the picture, with the name of each value as a tooltip.

    Args:
        timeline: the name of every step and its live bytes.
        slots: the values with their places.
        size: the bytes of the arena.
        free: the names of the calls that have no place in it.
    """
    steps = [i for i, (name, _) in enumerate(timeline) if name not in free] or [*range(len(timeline))]
    names = [timeline[i][0] for i in steps]
    slots = [slot for slot in slots if slot.nbytes]
    drawn = sorted(slots, key=lambda slot: (-slot.nbytes, slot.born, slot.offset))[:MOST_DRAWN]
    shapes = "".join(_rectangle(slot, steps, names, size) for slot in drawn)
    peak = max(range(len(timeline)), key=lambda i: timeline[i][1])
    x = _number((min(bisect_left(steps, peak), len(steps) - 1) + 0.5) * WIDTH / len(steps))
    title = f"<title>peak: {text(timeline[peak][0])}</title>"
    line = f"<line class='peak' x1='{x}' x2='{x}' y1='0' y2='{HEIGHT}'>{title}</line>"
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
        f"<p class='note arena-key'>Across: execution order{folded}. Upwards: offset, to {exact(size)} B. "
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
