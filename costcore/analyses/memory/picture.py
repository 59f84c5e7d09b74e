"""The picture of live memory: one stacked area over the calls of a run, with a color per kind of block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from costcore.ledger.memory_data import MemoryData
from costcore.tables.html import text
from costcore.text.amounts import exact, readable
from costcore.trace.call import Call

STACK = ("parameter", "buffer", "input", "optimizer", "gradient", "output", "saved", "temporary")
"""The kinds of blocks from the bottom to the top: what lives throughout a run is below what comes and goes."""

MOST_COLUMNS = 600
"""The maximum number of columns; in longer runs a column stands for several calls, and shows the highest moment."""

HEIGHT = 1000
"""The height of the areas in their own units, and their width is the number of columns."""

AREAS = 90
"""The share of the picture that the areas take, in percent of its height; the names of phases are below them."""

HEADROOM = 1.08
"""The ratio of the top of the picture and the peak."""

MOST_PHASES = 12
"""The maximum number of consecutive calls of one phase that are marked; a run with more of them has no marks."""

NARROW, NARROWEST = 15, 7
"""The widths of a phase below which its name is shown on wide screens only, and not at all, in percent."""


class Moment(NamedTuple):
    """The highest moment of one or several calls.

    Attributes:
        call: the index of the call; -1 before the first one, the number of calls after the last one.
        live: the bytes that are alive.
        by_kind: these by kind.
    """

    call: int
    live: int
    by_kind: dict[str, int]


def columns_of(memory: MemoryData, calls: Sequence[Call]) -> list[Moment]:
    """Return the highest moment of every column, at most about :data:`MOST_COLUMNS`; the peak is one of them.

    The many small calls of an optimizer take at most a third of the width.

    Args:
        memory: the memory of the run.
        calls: the calls of the run.
    """
    moments = _moments(memory)
    phases = ["optimizer" if _phase(moment, calls) == "optimizer" else "model" for moment in moments]
    n_optimizer = phases.count("optimizer")
    n_model = len(moments) - n_optimizer
    per_step = max(1, -(-2 * n_optimizer // n_model)) if n_model else 1
    size = max(1, -(-(n_model + n_optimizer // per_step) // MOST_COLUMNS))
    columns = []
    for phase, group in groupby(zip(phases, moments, strict=True), key=lambda pair: pair[0]):
        run = [moment for _, moment in group]
        width = size * per_step if phase == "optimizer" else size
        parts = (run[start : start + width] for start in range(0, len(run), width))
        columns += [max(part, key=lambda moment: moment.live) for part in parts]
    return columns


def _moments(memory: MemoryData) -> list[Moment]:
    """Return the highest moment of every call, and the peak if it is before or after all calls."""
    moments = [Moment(*entry) for entry in memory.timeline]
    if memory.peak == max((moment.live for moment in moments), default=0):
        return moments
    is_first = memory.peak == memory.base
    extreme = Moment(-1 if is_first else len(moments), memory.peak, memory.by_kind)
    return [extreme, *moments] if is_first else [*moments, extreme]


def _phase(moment: Moment, calls: Sequence[Call]) -> str:
    return calls[min(max(moment.call, 0), len(calls) - 1)].phase if calls else ""


def figure(memory: MemoryData, columns: Sequence[Moment], calls: Sequence[Call]) -> str:
    """Return the picture of live memory over the calls of a run."""
    keys = "".join(
        f"<span><svg class='key' viewBox='0 0 1 1' aria-hidden='true'><rect class='{kind}' width='1' height='1'/></svg>"
        f"{kind} {readable(memory.by_kind[kind], 'bytes')}</span>"
        for kind in reversed(STACK)
        if kind in memory.by_kind
    )
    several = " A column shows the highest moment of several calls." if len(columns) < len(calls) else ""
    phases = ", ".join(f"{phase} {readable(nbytes, 'bytes')}" for phase, nbytes in memory.phases.items())
    most = f"; most in {phases}" if len(memory.phases) > 1 else ""
    note = f"Live bytes over {exact(len(calls))} calls{most}.{several} At the peak:"
    label = f"Live bytes over {exact(len(calls))} calls, by kind; arrow keys move between calls"
    return (
        f"<svg id='memory-map' tabindex='0' role='img' aria-label='{label}'>{picture(columns, calls, memory.peak)}"
        "<line class='cursor' y1='0' y2='90%' visibility='hidden'/></svg>"
        f"<p class='note memory-key'>{note}{keys}</p>"
    )


def picture(columns: Sequence[Moment], calls: Sequence[Call], peak: int) -> str:
    """Return the content of an ``svg`` element of any size: areas, scale, phases and the peak.

    Args:
        columns: the highest moment of every column.
        calls: the calls of the run.
        peak: the most bytes alive at once, at least 1.
    """
    top = round(peak * HEADROOM)
    areas = (
        f"<svg class='areas' viewBox='0 0 {len(columns)} {HEIGHT}' preserveAspectRatio='none' width='100%' "
        f"height='{AREAS}%'>{''.join(_areas(columns, top))}</svg>"
    )
    return "".join([areas, *_scale(peak, top), *_phases(columns, calls), _peak(columns, peak, top)])


def _areas(columns: Sequence[Moment], top: int) -> Iterator[str]:
    """Yield an area per kind. Each reaches down to zero, and the kinds below it are drawn over it."""
    for n in range(len(STACK), 0, -1):
        if any(column.by_kind.get(STACK[n - 1]) for column in columns):
            heights = [sum(column.by_kind.get(kind, 0) for kind in STACK[:n]) for column in columns]
            yield f"<path class='{STACK[n - 1]}' d='{_steps([round(HEIGHT * h / top) for h in heights])}'/>"


def _steps(heights: Sequence[int]) -> str:
    """Return the outline of columns of these heights as a path; equal neighbors are one line."""
    path, before = f"M0 {HEIGHT}", 0
    for height, group in groupby(heights):
        path += f"v{before - height}h{len(list(group))}"
        before = height
    return f"{path}V{HEIGHT}z"


def _scale(peak: int, top: int) -> Iterator[str]:
    """Yield lines at round numbers of bytes up to the peak, with labels."""
    step = 1
    while peak / step > 5:
        step *= 2
    for value in range(step, peak + 1, step):
        y = _percent(AREAS * (1 - value / top))
        yield f"<line class='grid' x1='0' x2='100%' y1='{y}' y2='{y}'/>"
        yield f"<text class='label' x='4' y='{y}' dy='-3'>{readable(value, 'bytes')}</text>"


def _phases(columns: Sequence[Moment], calls: Sequence[Call]) -> Iterator[str]:
    """Yield the name of every phase below the areas, and a line where it ends."""
    runs = [(phase, len(list(group))) for phase, group in groupby(_phase(column, calls) for column in columns)]
    start = 0
    for phase, length in runs if len(runs) <= MOST_PHASES else ():
        left, width = 100 * start / len(columns), 100 * length / len(columns)
        start += length
        if start < len(columns):
            x = _percent(left + width)
            yield f"<line class='phase' x1='{x}' x2='{x}' y1='0' y2='100%'/>"
        if width > NARROWEST:
            kind = "" if width > NARROW else " class='narrow'"
            x, y = _percent(left + width / 2), _percent((AREAS + 100) / 2)
            yield f"<text{kind} x='{x}' y='{y}' dy='4' text-anchor='middle'>{text(phase)}</text>"


def _peak(columns: Sequence[Moment], peak: int, top: int) -> str:
    at = 100 * (next(i for i, column in enumerate(columns) if column.live == peak) + 0.5) / len(columns)
    x, y = _percent(at), _percent(AREAS * (1 - peak / top))
    side, dx = ("start", 6) if at < 60 else ("end", -6)
    amount = readable(peak, "bytes")
    label = f"<text class='label' x='{x}' y='{y}' dx='{dx}' dy='-4' text-anchor='{side}'>peak {amount}</text>"
    return f"<line class='peak' x1='{x}' x2='{x}' y1='0' y2='{AREAS}%'/>{label}"


def _percent(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") + "%"
