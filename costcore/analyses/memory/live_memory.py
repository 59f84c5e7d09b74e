"""The memory of a training or inference run: the tensor peak, its blocks by kind, and the requests to an allocator.

After the result class come its renderings: the plot, the picture of pages, the tables, the saved operands of each
call, and two sections of the HTML page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from costcore.analyses.analysis import ReportLike
from costcore.analyses.memory.allocator import Allocator, replay
from costcore.analyses.memory.arena import (
    ARENA,
    MOST_CALLS,
    Arena,
    ArenaColumns,
    arena_of,
    arena_picture,
    arena_rows,
    memories_of,
)
from costcore.counting import symbols_in
from costcore.errors import ArenaError, CostError, unknown
from costcore.ir import Operations
from costcore.ledger.ledger import MemoryData, remarks
from costcore.tables.answer import Content, Figure
from costcore.tables.columns import BLOCKS, MemoryColumns, choose, limited
from costcore.tables.html import amount_card, cards, key, section, table, text
from costcore.tables.pictures import Picture, Theme, add_legend, axes_of, in_units, label
from costcore.tables.renderers import dropped_first
from costcore.tables.result import Result, Table
from costcore.text.amounts import exact, readable, short
from costcore.text.output import Column, Target
from costcore.trace.call import Call
from costcore.trace.run import KINDS, MemoryLedger, RawLedger
from costcore.trace.trace import Trace

MOST_BLOCKS_OF_TEXT = 5
"""The number of blocks in ``print`` and notebooks; a row sums the others."""

COLUMNS = ("kind", "module", "name", "call", "shape", "nbytes", "nbytes%")
"""The columns of the table of blocks."""

TIMELINE = (
    *(Column("call", "Call"), Column("phase", "Phase"), Column("module", "Module")),
    *(Column("live_peak", "Live peak", "bytes"), *(Column(kind, kind.capitalize(), "bytes") for kind in KINDS)),
)
"""The columns of the timeline."""


class Memory(Result, MemoryData):
    """The memory of one run, in bytes.

    It is the *tensor peak*: the maximum bytes that tensors hold between two operators. Workspace of kernels and unused
    memory of an allocator come on top.

    Attributes:
        model: the class of the model; empty if it is unknown.
    """

    model = ""

    def allocator(self, name: str = "cuda", device: str | None = None, **settings: Any) -> Allocator:
        """Return the memory that a caching allocator takes from the device: ``.allocated`` and ``.reserved``.

        Args:
            name: the name of the allocator, ``"cuda"``: the allocator of PyTorch for GPUs, on one stream.
            device: the device, a key of :attr:`by_device`; default: the device with the highest peak except the CPU,
                or the CPU if there is no other.
            settings: its settings by name, :class:`~costcore.analyses.memory.allocator.Settings`.

        Raises:
            TypeError, ValueError: for an unknown allocator, device or setting, or an invalid value.
        """
        devices = [*self.by_device]
        if device is None:
            device = next((each for each in devices if each != "cpu"), "cpu")
        elif device not in devices:
            raise ValueError(unknown("device", device, devices))
        return replay(self.ledger.on(device), name, **settings)

    def _content(self) -> Content:
        figures = [
            Figure("peak", "Peak", self.peak, "bytes", self.where),
            Figure("base", "Before the run", self.base, "bytes"),
            *([Figure("saved", "Kept for the backward pass", self.saved, "bytes")] if self.saved else []),
            Figure("end", "After the run", self.end, "bytes"),
            *(
                Figure(f"peak of {name}", f"Most in {name}", most, "bytes")
                for name, most in self.phases.items()
                if len(self.phases) > 1
            ),
        ]
        rows, shown = (memory_rows(self, top, with_module=True) for top in (None, MOST_BLOCKS_OF_TEXT))
        blocks = Table("Alive at the peak", choose(BLOCKS, COLUMNS), rows[: len(self.blocks())])
        tables = [blocks.part(shown), self._by_call().part([])]
        title = f"Memory of a run, {'exact' if self.is_exact else 'approximate'}"
        return Content(title, figures, tables, self.notes, model=self.model)

    def _pictures(self) -> str:
        columns = columns_of(self, self._calls)
        return section("Live memory", figure(self, columns, self._calls), "memory") if columns and self.peak else ""

    def _picture(self, theme: Theme) -> Picture:
        return drawn_of(self, self._calls, theme)

    def _by_call(self) -> Table:
        none = dict.fromkeys(KINDS, 0)
        rows = [
            {"call": call.name, "phase": call.phase, "module": call.module, "live_peak": live, **none, **by_kind}
            for (_, live, by_kind), call in zip(self.timeline, self._calls, strict=True)
        ]
        return Table("Live bytes by call", TIMELINE, rows)

    def to_csv(self, target: Target = None, table: int = 1) -> str:
        """Return the timeline as CSV, one row per call, and write it to ``target`` if given.

        Args:
            target: a path, which is replaced atomically, or a stream.
            table: 1 for the timeline, 0 for the blocks that are alive at the peak.
        """
        return super().to_csv(target, table)


def memory_of(report: ReportLike) -> Memory:
    """Return the memory of a run.

    Raises:
        CostError: if it was not recorded.
    """
    ledger = report.trace.run.memory
    if ledger is None:
        raise CostError("memory was not recorded. Pass memory=True to estimate (PyTorch) or to ComputationalCostHook.")
    found = Memory(ledger, report.trace.calls)
    found.model = report.trace.run.model
    return found


# Plot of live memory.


COLORS = {"parameter": 0, "buffer": 4, "optimizer": 2, "gradient": 3, "output": 6, "saved": 1, "temporary": 5}
COLORS |= {"cached": 7}
"""The color of each kind, as on the page; inputs are gray."""


def memory(report: ReportLike, theme: Theme) -> Picture:
    """Return a stacked area per kind; rows are the call index, the live bytes, and the bytes of each kind.

    Raises:
        CostError: if memory was not recorded.
    """
    return drawn_of(memory_of(report), report.trace.calls, theme)


def drawn_of(found: Memory, calls: Sequence[Call], theme: Theme) -> Picture:
    """Return the picture of the memory of these calls, as :func:`memory`."""
    steps = columns_of(found, calls)
    kinds = [kind for kind in STACK if any(kind in step.by_kind for step in steps)]
    rows = [(each.call, each.live, *(each.by_kind.get(kind, 0) for kind in kinds)) for each in steps]
    return Picture(("call", "live", *kinds), rows, lambda: _plot_areas(found, steps, kinds, theme))


def _plot_areas(found: Memory, steps: list[MemoryStep], kinds: list[str], theme: Theme) -> Any:
    (top,), title = in_units(Column("live", "Live memory", "bytes"), [found.peak])
    unit = top / max(found.peak, 1)
    axes = axes_of(theme)
    edges = [*range(len(steps) + 1)]
    stacks = [[step.by_kind.get(kind, 0) * unit for step in steps] for kind in kinds]
    colors = [theme.colors[COLORS[kind]] if kind in COLORS else theme.gray for kind in kinds]
    axes.stackplot(edges, [[*stack, stack[-1]] for stack in stacks], step="post", colors=colors, labels=kinds)
    peak = max(range(len(steps)), key=lambda i: steps[i].live)
    axes.axvline(peak + 0.5, color=theme.ink, linewidth=1, linestyle="--", label="peak")
    axes.set(xlabel=f"Calls in order of execution\npeak {label(found.where)}", ylabel=title, xticks=[])
    axes.margins(x=0)
    axes.grid(axis="y", color=theme.line)
    add_legend(axes, theme, reverse=True)
    return axes.figure


# Picture of live memory for pages: one stacked area per kind of block.


STACK = ("parameter", "buffer", "input", "optimizer", "gradient", "cached", "output", "saved", "temporary")
"""The kinds of blocks from the bottom up: permanent blocks are below temporary ones."""

MOST_COLUMNS = 600
"""The maximum number of columns; in longer runs a column stands for several calls, and shows the highest step."""

HEIGHT = 1000
"""The height of the areas in their own units; their width is the number of columns."""

AREAS = 90
"""The height of the areas, in percent of the picture; the names of phases are below them."""

HEADROOM = 1.08
"""The ratio of the top of the picture and the peak."""

MOST_PHASES = 12
"""The maximum number of marked phases (runs of calls); with more, no phase is marked."""

NARROW, NARROWEST = 15, 7
"""Widths of a phase in percent: below the first, only wide screens show its name; below the second, none does."""


class MemoryStep(NamedTuple):
    """The highest step of one or several calls.

    Attributes:
        call: the index of the call; -1 before the first one, the number of calls after the last one.
        live: the bytes that are alive.
        by_kind: the same bytes by kind.
    """

    call: int
    live: int
    by_kind: dict[str, int]


def columns_of(memory: MemoryData, calls: Sequence[Call]) -> list[MemoryStep]:
    """Return the highest step of every column, at most about :data:`MOST_COLUMNS`; the peak is one of them.

    The many small calls of an optimizer take at most a third of the width.

    Args:
        memory: the memory of the run.
        calls: the calls of the run.
    """
    steps = _steps_with_peak(memory)
    phases = ["optimizer" if _phase(step, calls) == "optimizer" else "model" for step in steps]
    n_optimizer = phases.count("optimizer")
    n_model = len(steps) - n_optimizer
    per_step = max(1, -(-2 * n_optimizer // n_model)) if n_model else 1
    size = max(1, -(-(n_model + n_optimizer // per_step) // MOST_COLUMNS))
    columns = []
    for phase, group in groupby(zip(phases, steps, strict=True), key=lambda pair: pair[0]):
        run = [step for _, step in group]
        width = size * per_step if phase == "optimizer" else size
        parts = (run[start : start + width] for start in range(0, len(run), width))
        columns += [max(part, key=lambda step: step.live) for part in parts]
    return columns


def _steps_with_peak(memory: MemoryData) -> list[MemoryStep]:
    # The peak can be before or after all calls.
    steps = [MemoryStep(*entry) for entry in memory.timeline]
    if memory.peak == max((step.live for step in steps), default=0):
        return steps
    is_first = memory.peak == memory.base
    extreme = MemoryStep(-1 if is_first else len(steps), memory.peak, memory.by_kind)
    return [extreme, *steps] if is_first else [*steps, extreme]


def _phase(step: MemoryStep, calls: Sequence[Call]) -> str:
    return calls[min(max(step.call, 0), len(calls) - 1)].phase if calls else ""


def figure(memory: MemoryData, columns: Sequence[MemoryStep], calls: Sequence[Call]) -> str:
    """Return the picture of live memory over the calls of a run."""
    keys = "".join(
        key(kind, f"{kind} {short(memory.by_kind[kind], 'bytes')}")
        for kind in reversed(STACK)
        if kind in memory.by_kind
    )
    several = " A column shows the peak of several calls." if len(columns) < len(calls) else ""
    phases = ", ".join(f"{phase} {short(nbytes, 'bytes')}" for phase, nbytes in memory.phases.items())
    most = f"; most in {phases}" if len(memory.phases) > 1 else ""
    note = f"Live bytes over {exact(len(calls))} calls{most}.{several} At the peak:"
    label = f"Live bytes over {exact(len(calls))} calls, by kind; arrow keys move between calls"
    return (
        f"<figure class='picture'><svg id='memory-map' tabindex='0' role='img' aria-label='{label}'>"
        f"{picture(columns, calls, memory.peak)}<line class='cursor' y1='0' y2='90%' visibility='hidden'/></svg>"
        f"<figcaption class='note'>{note} {keys}</figcaption></figure>"
    )


def picture(columns: Sequence[MemoryStep], calls: Sequence[Call], peak: int) -> str:
    """Return the content of an ``svg`` element of any size: areas, scale, phases and the peak.

    Args:
        columns: the highest step of every column.
        calls: the calls of the run.
        peak: the maximum bytes alive at once, at least 1.
    """
    top = round(peak * HEADROOM)
    areas = (
        f"<svg class='areas' viewBox='0 0 {len(columns)} {HEIGHT}' preserveAspectRatio='none' width='100%' "
        f"height='{AREAS}%'>{''.join(_picture_areas(columns, top))}</svg>"
    )
    return "".join([areas, *_scale(peak, top), *_phases(columns, calls), _peak(columns, peak, top)])


def _picture_areas(columns: Sequence[MemoryStep], top: int) -> Iterator[str]:
    # Each area reaches down to zero, and the kinds below it are drawn over it.
    for n in range(len(STACK), 0, -1):
        if any(column.by_kind.get(STACK[n - 1]) for column in columns):
            heights = [sum(column.by_kind.get(kind, 0) for kind in STACK[:n]) for column in columns]
            yield f"<path class='{STACK[n - 1]}' d='{_steps([round(HEIGHT * h / top) for h in heights])}'/>"


def _steps(heights: Sequence[int]) -> str:
    # Equal neighbors are one line of the path.
    path, before = f"M0 {HEIGHT}", 0
    for height, group in groupby(heights):
        path += f"v{before - height}h{len(list(group))}"
        before = height
    return f"{path}V{HEIGHT}z"


def _scale(peak: int, top: int) -> Iterator[str]:
    step = 1
    while peak / step > 5:
        step *= 2
    for value in range(step, peak + 1, step):
        y = _percent(AREAS * (1 - value / top))
        yield f"<line class='grid' x1='0' x2='100%' y1='{y}' y2='{y}'/>"
        yield f"<text x='-8' y='{y}' dy='4' text-anchor='end'>{short(value, 'bytes')}</text>"


def _phases(columns: Sequence[MemoryStep], calls: Sequence[Call]) -> Iterator[str]:
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


def _peak(columns: Sequence[MemoryStep], peak: int, top: int) -> str:
    at = 100 * (next(i for i, column in enumerate(columns) if column.live == peak) + 0.5) / len(columns)
    x, y = _percent(at), _percent(AREAS * (1 - peak / top))
    side, dx = ("start", 6) if at < 60 else ("end", -6)
    amount = short(peak, "bytes")
    label = f"<text class='label' x='{x}' y='{y}' dx='{dx}' dy='-4' text-anchor='{side}'>peak {amount}</text>"
    return f"<line class='peak' x1='{x}' x2='{x}' y1='0' y2='{AREAS}%'/>{label}"


def _percent(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") + "%"


# Tables: blocks alive at the peak, and values of an arena.


DROPPED_FIRST = ("dtype", "call", "nbytes%", "name", "shape", "module")
"""The columns of a block in the order in which a narrow terminal drops them; the module stays longest."""


def alive_at_peak(report: ReportLike, columns: Sequence[str] = MemoryColumns.DEFAULT, top: int | None = None) -> Table:
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
    report: ReportLike,
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


# Rows of the block table.


def memory_rows(memory: MemoryData, top: int | None, with_module: bool = False) -> list[dict[str, Any]]:
    """Return one row per block, one per kind, and the total.

    Args:
        memory: the memory of the run.
        top: the maximum number of blocks; a row ``others`` sums the remaining ones. None for all.
        with_module: whether the table also shows the module of a block; its name then omits the module.
    """
    blocks = memory.blocks()
    if with_module:
        blocks = [{**row, "name": row["name"].removeprefix(f"{row['module']}.")} for row in blocks]
    rows = [*limited(blocks, top, _others)]
    rows += [{"kind": f"all {kind}", "nbytes": nbytes} for kind, nbytes in memory.by_kind.items()]
    rows.append({"kind": "total", "call": memory.at, "nbytes": memory.peak})
    return [{**row, "nbytes%": 100 * row["nbytes"] / memory.peak if memory.peak else 0} for row in rows]


def _others(blocks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"kind": "others", "name": f"{len(blocks)} blocks", "nbytes": sum(block["nbytes"] for block in blocks)}


def memory_remarks(memory: MemoryData) -> list[str]:
    """Return the lines below the table: the peak and where it is, the peaks of the phases, and the notes."""
    phases = ", ".join(f"{phase} {_bytes(nbytes)}" for phase, nbytes in memory.phases.items())
    saved = [f"kept for the backward pass: {_bytes(memory.saved)}"] if memory.saved else []
    return [
        f"peak: {_bytes(memory.peak)} ({exact(memory.peak)} B), {memory.where}",
        f"before the run: {_bytes(memory.base)}; highest in {phases}; after the run: {_bytes(memory.end)}",
        *saved,
        *memory.notes,
    ]


def _bytes(value: int) -> str:
    return readable(value, "bytes")


# Saved operands of the forward pass.


def with_saved(calls: Sequence[Call], raw: RawLedger, memory: MemoryLedger) -> list[Call]:
    """Return the calls with the ids of the operands that autograd keeps.

    Args:
        calls: the calls of the run.
        raw: the block of each operand.
        memory: the kind of every block.
    """
    kinds = {block.id: block.kind for block in memory.blocks}
    saved = {storage for storage, block in raw.storages.items() if kinds.get(block) == "saved"}
    return [_with_saved(call, saved) if call.phase == "forward" else call for call in calls]


def _with_saved(call: Call, saved: set[int]) -> Call:
    operands = zip((*call.inputs, *call.outputs), call.storages, strict=True)
    kept = tuple(dict.fromkeys(operand for operand, storage in operands if storage in saved))
    return call._replace(saved=kept) if kept else call


# The memory section of the page: a picture over the run, and the blocks alive at the peak.


UNFUSED = "The memory is that of a run without fusion."

MOST_BLOCKS_OF_PAGE = 100
"""The maximum number of blocks in the table; one row sums the others."""


def memory_section(report: ReportLike) -> str:
    """Return the section; empty if memory was not recorded."""
    if report.trace.run.memory is None:
        return ""
    memory = memory_of(report)
    columns = columns_of(memory, report.trace.calls)
    drawn = figure(memory, columns, report.trace.calls) if columns and memory.peak else ""
    unfused = [] if report.trace.run.fusion is None else [UNFUSED]
    notes = "".join(f"<p class='note'>{text(note)}</p>" for note in (*unfused, *memory.notes))
    content = f"{cards(_section_cards(memory))}{drawn}{_blocks(memory)}{notes}"
    return section("Memory of the run", content, "memory")


def memory_data(report: ReportLike) -> dict[str, Any] | None:
    """Return the columns of the picture for the page's script, exact numbers as text; None if there is no picture."""
    columns = [] if report.trace.run.memory is None else columns_of(memory_of(report), report.trace.calls)
    if not columns:
        return None
    kinds = [kind for kind in STACK if any(kind in column.by_kind for column in columns)]
    rows = [[column.call, str(column.live), *(str(column.by_kind.get(k, 0)) for k in kinds)] for column in columns]
    return {"kinds": kinds, "rows": rows}


def _section_cards(memory: Memory) -> list[str]:
    accuracy = "exact" if memory.is_exact else "approximate"
    saved = amount_card("Kept for backward", memory.saved, "bytes", "saved by autograd")
    return [
        amount_card("Peak", memory.peak, "bytes", f"{accuracy}, {memory.where}"),
        amount_card("Before the run", memory.base, "bytes", "parameters, inputs and other state"),
        *([saved] if memory.saved else []),
        amount_card("After the run", memory.end, "bytes", "what the caller holds"),
    ]


def _blocks(memory: Memory) -> str:
    columns = [*choose(BLOCKS, MemoryColumns.DEFAULT), Column("dies", "Freed by")]
    *rows, total = memory_rows(memory, MOST_BLOCKS_OF_PAGE, with_module=True)
    return f"<h3>Alive at the peak</h3>{table(Table('Alive at the peak', columns, rows, total=total))}"


# HTML section: memory of an inference.


ARENA_TITLE = "Memory of one inference"


def arena_section(report: ReportLike) -> str:
    """Return the section with the memory of an inference run; empty if there is none, as for a training step."""
    if not report.trace.records or len(report.trace) > MOST_CALLS:
        return ""
    if symbols_in(report.trace):
        note = "<p class='note'>A layout needs numbers for the symbolic sizes, as from report.subs(…).</p>"
        return section(ARENA_TITLE, note, "arena")
    try:
        arena = arena_of(report)
        if arena.peak == 0 or arena.symbols:
            return ""
        drawn = arena_picture(arena.timeline, arena.slots, arena.size, _free_calls(report.trace))
        content = f"{cards(_arena_section_cards(arena))}{drawn}"
    except ArenaError:
        return ""
    unfused = [] if report.trace.run.fusion is None else [UNFUSED]
    notes = "".join(f"<p class='note'>{text(note)}</p>" for note in (*unfused, *arena.notes))
    return section(ARENA_TITLE, content + notes, "arena")


def _arena_section_cards(arena: Arena) -> list[str]:
    bound = "the best order needs no more" if arena.is_exact else "no order needs less"
    values, weights = memories_of(arena)
    return [
        amount_card("Peak of live values", arena.peak, "bytes", f"in execution order, at {arena.at}"),
        amount_card("Arena", arena.size, "bytes", f"{values}, aligned to {arena.align} bytes"),
        amount_card("Lower bound", arena.lower_bound, "bytes", bound),
        amount_card("Weights and constants", arena.weights, "bytes", weights),
    ]


def _free_calls(trace: Trace) -> set[str]:
    # Such as ``Constant`` and ``Identity``.
    costs = {record.call.name: record.cost for record in trace}
    return {
        name
        for name, cost in costs.items()
        if cost and cost.flops in (0, Operations()) and cost.mread == cost.mwrite == 0
    }
