"""The arena of an inference run: a static layout in which blocks alive at the same time do not overlap.

:class:`Arena` reports the peak of live values, the smallest of several greedy layouts, and a bound for every order.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from shlex import quote
from typing import Any, NamedTuple

from costcore.analyses.analysis import ReportLike
from costcore.analyses.memory.liveness import (
    Block,
    Lifetimes,
    in_onnx_runtime,
    lifetimes_of,
    merged,
    reused,
    steps_in_order,
)
from costcore.analyses.memory.order import BestOrder, best_order, first_step_of, highest, live_bytes
from costcore.errors import ArenaError, CostError
from costcore.numbers import Dim, as_text, is_symbolic, symbols_of
from costcore.tables.answer import Content, Figure
from costcore.tables.columns import by_key, choose, in_order, limited
from costcore.tables.html import key, section, text
from costcore.tables.pictures import Picture, Theme, add_legend, axes_of, in_units, label
from costcore.tables.result import Result, Table
from costcore.text.amounts import exact, short
from costcore.text.output import Column
from costcore.trace.interrupts import collector_off
from costcore.trace.trace import Trace

# The report of an arena.


MOST_VALUES = 5
"""The number of values in ``print`` and notebooks; a row sums the others."""

COLUMNS = ("name", "nbytes", "offset", "born", "dies", "at_peak", "shape")
"""The columns of the table of values."""

MAX_NAMES = 8
"""The maximum number of symbols in a message."""


class Arena(Result):
    """The memory of an inference run with static places for its values, as on a microcontroller.

    A value is alive from the call that makes it to its last reader; outputs of the model, to the end; inputs, from the
    start. The inputs and outputs of a call are alive together. Views share the memory of their base. Weights do not
    count: they are read where they are stored (flash).

    Three figures, each with its own name:

    * :attr:`peak`: the largest sum of live values, in the order of the file. No layout for this order needs less.
    * :attr:`size`: the bytes of a layout that was found, :attr:`offsets`. It is never below the peak, and it can be
      used as it is. If it equals the peak, no smaller layout exists; otherwise one may exist.
    * :attr:`lower_bound`: no order of the calls needs less. It is never above the peak. If :attr:`is_exact`, calls in
      the order of :attr:`order` need no more.

    All are bytes. If sizes are symbolic, so is the peak, ``Max(…)`` of all sums that can be the largest. A layout and
    an order need numbers.

    Args:
        trace: the captured run.
        align: offsets and sizes in the layout are multiples of this.
        inplace: whether element-wise operators write over an operand of the same shape and dtype that nothing else
            needs. An input of the model and a stored tensor are never written over.
        count_inputs: whether inputs of the model are part of the arena. A runtime that reads the buffer of its caller
            does not copy them.

    Raises:
        ArenaError: if the run has a backward pass, or if lifetimes of values are unknown.
    """

    def __init__(self, trace: Trace, align: int = 64, inplace: bool = False, count_inputs: bool = True) -> None:
        _check(align, inplace=inplace, count_inputs=count_inputs)
        self.align = align
        self.inplace = inplace
        self.count_inputs = count_inputs
        with collector_off():
            self._lifetimes: Lifetimes = lifetimes_of(trace)
        self._trace = trace
        self._orders: tuple[list[int], ...] = ()

    def __repr__(self) -> str:
        peak, weights = as_text(self.peak), as_text(self.weights)
        size = "" if self.symbols else f", arena {self.size}"
        return f"<Arena: peak {peak} bytes at {self.at}{size}, weights {weights}>"

    def _content(self) -> Content:
        of_values, of_weights = memories_of(self)
        figures = [Figure("peak", "Peak", self.peak, "bytes", f"in execution order, at {self.at}")]
        if not self.symbols:
            bound = "of the best order" if self.is_exact else "no order needs less"
            size = Figure("size", "Arena", self.size, "bytes", f"{of_values}, aligned to {self.align} bytes")
            figures += [size, Figure("lower_bound", "Lower bound", self.lower_bound, "bytes", bound)]
        figures.append(Figure("weights", "Weights and constants", self.weights, "bytes", of_weights))
        title = f"The {MOST_VALUES} largest values" if len(self._counted) > MOST_VALUES else "Values, largest first"
        values = Table("Values, largest first", choose(ARENA, COLUMNS), self.entries(), total=self.total_entry())
        values.others = others_of
        shown = values.sorted("nbytes").top(MOST_VALUES, title)
        return Content("Memory of one inference", figures, [shown], self._assumptions, model=self._trace.run.model)

    @property
    def peak(self) -> Dim:
        """The largest sum of the values that are alive at once, in the order of the file."""
        return self._peak

    @property
    def peak_with_reuse(self) -> Dim:
        """The peak if activation functions overwrite operands, and freed buffers are reused for equal shapes only.

        Without the inputs, this is what ONNX Runtime allocates for tensors on a CPU, unless it changes the graph first.
        """
        lifetimes = lifetimes_of(self._trace, returns_copies=True)
        for order in self._orders:
            lifetimes = steps_in_order(lifetimes, order)
        lifetimes = in_onnx_runtime(lifetimes)
        steps = len(lifetimes.steps)
        return highest(live_bytes(reused(self._among(merged(lifetimes, True)), steps - 1), steps))

    @property
    def at(self) -> str:
        """The call at the peak; for a symbolic peak, the call of one of its terms."""
        return self.timeline[first_step_of(self._live, self._peak)][0]

    @property
    def weights(self) -> Dim:
        """The bytes of weights and constants that the run reads, shared ones once. On a microcontroller: flash."""
        return self._lifetimes.weights

    @property
    def file(self) -> Dim:
        """The bytes of the file, if its runtime keeps it whole in flash, as TensorFlow Lite does; 0 if not."""
        flow = self._trace.run.dataflow
        return self.weights + flow.structure if flow is not None and flow.structure else 0

    @property
    def timeline(self) -> list[tuple[str, Dim]]:
        """The name of every step in the order of the file, and the bytes that are alive during it.

        A step is a call. Loops and branches that data decides add steps of their own, such as ``loop.body: start``.
        """
        return [(step.name, live) for step, live in zip(self._lifetimes.steps, self._live, strict=True)]

    @property
    def by_call(self) -> dict[str, Dim]:
        """The bytes that are alive during each call, by its name."""
        pairs = zip(self._lifetimes.steps, self._live, strict=True)
        return {step.name: live for step, live in pairs if step.is_call}

    @property
    def size(self) -> int:
        """The bytes of the smallest layout that was found: "peak SRAM" in the words of TinyML."""
        return self._layout.size

    @property
    def strategy(self) -> str:
        """The strategy of the smallest layout: ``size``, ``conflicts``, ``birth`` or ``micro``."""
        return self._layout.strategy

    @property
    def sizes(self) -> dict[str, int]:
        """The bytes of the layout of each strategy that was tried."""
        return dict(self._layout.sizes)

    @property
    def offsets(self) -> dict[str, int]:
        """The offset of every value in the arena, by name."""
        return {block.name: offset for block, offset in zip(self._counted, self._layout.offsets, strict=True)}

    @property
    def slots(self) -> list[Slot]:
        """The values with their places in the arena, in the order in which they are made."""
        return [
            Slot(b.name, offset, int(b.nbytes), b.born, b.last_use, b.kind, b.module, b.shape, b.dtype)
            for b, offset in zip(self._counted, self._layout.offsets, strict=True)
        ]

    @property
    def lower_bound(self) -> int:
        """Bytes that every order of the calls needs."""
        return self._best.lower_bound

    @property
    def is_exact(self) -> bool:
        """Whether calls in the order of :attr:`order` need no more than :attr:`lower_bound`."""
        return self._best.is_exact

    @property
    def order(self) -> list[str]:
        """The calls in the best order that was found."""
        steps = self._lifetimes.steps
        return [steps[step].name for step in self._best.order if steps[step].is_call]

    def in_best_order(self) -> Arena:
        """Return the arena of the same calls in the order of :attr:`order`.

        Raises:
            ArenaError: if sizes are symbolic.
        """
        made = Arena.__new__(Arena)
        made.align, made.inplace, made.count_inputs = self.align, self.inplace, self.count_inputs
        made._lifetimes, made._trace = steps_in_order(self._lifetimes, self._best.order), self._trace
        made._orders = (*self._orders, self._best.order)
        return made

    @property
    def order_peak(self) -> int:
        """The bytes that calls in the order of :attr:`order` need."""
        return self._best.peak

    @property
    def symbols(self) -> list[str]:
        """The names of the symbolic dimensions on which the figures depend."""
        return sorted(str(symbol) for symbol in symbols_of([block.nbytes for block in self._counted]))

    @property
    def notes(self) -> list[str]:
        """Assumptions behind the figures."""
        return list(self._lifetimes.notes)

    @property
    def remarks(self) -> list[str]:
        """The figures as lines of text, in the terms of TinyML if a microcontroller can hold them, and the notes."""
        values, place = memories_of(self)
        whole = f"; the file, which the runtime keeps whole: {_bytes(self.file)}" if self.file else ""
        lines = [
            f"{'flash (weights and constants)' if place else 'weights and constants'}: {_bytes(self.weights)}{whole}",
            f"peak, in execution order: {_bytes(self.peak)}, at {self.at}",
        ]
        if self.symbols:
            lines.append(f"a layout needs numbers for {', '.join(self.symbols)}: subs(…), or --dim")
        else:
            bound = "best order" if self.is_exact else "no order needs less than"
            lines.append(f"{values} (arena, aligned to {self.align}): {_bytes(self.size)}, placed by {self.strategy}")
            lines.append(f"{bound}: {_bytes(self.lower_bound)}")
        return [*lines, *self._assumptions]

    @property
    def _assumptions(self) -> list[str]:
        options = ["element-wise results overwrite their operands"] * self.inplace
        options += ["inputs of the model are not counted"] * (not self.count_inputs)
        return [*options, *self.notes]

    def total_entry(self) -> dict[str, Any]:
        """Return the name and the bytes of the whole arena, or of the peak if sizes are symbolic."""
        return {"name": "peak", "nbytes": self.peak} if self.symbols else {"name": "arena", "nbytes": self.size}

    def entries(self) -> list[dict[str, Any]]:
        """Return a dict per value, as the table shows it, in the order of making; no offsets if sizes are symbolic.

        ``born`` and ``dies`` name the first and the last step that needs the value; ``at_peak`` is ``yes`` if it is
        alive at the peak.
        """
        steps, peak = self._lifetimes.steps, first_step_of(self._live, self._peak)
        offsets: list[Any] = [None] * len(self._counted) if self.symbols else self._layout.offsets
        return [
            {
                "name": block.name,
                "nbytes": block.nbytes,
                "offset": offset,
                "born": "start" if block.kind == "input" else steps[block.born].name,
                "dies": "end" if block.is_kept else steps[block.last_use].name,
                "at_peak": "yes" if block.born <= peak <= block.last_use else "no",
                "kind": block.kind,
                "module": block.module,
                "shape": block.shape,
                "dtype": block.dtype,
            }
            for block, offset in zip(self._counted, offsets, strict=True)
        ]

    def _pictures(self) -> str:
        if self.symbols or not self.peak or len(self._lifetimes.steps) > MOST_CALLS:
            return ""
        return section("Layout", arena_picture(self.timeline, self.slots, self.size, set()), "arena")

    def _picture(self, theme: Theme) -> Picture:
        if self.symbols:
            raise CostError("a layout needs numbers, but sizes are symbolic: use report.subs(batch=1)")
        slots = sorted(self.slots, key=lambda slot: (-slot.nbytes, slot.born, slot.offset))[:MOST_DRAWN]
        rows = [(slot.name, slot.offset, slot.nbytes, slot.born, slot.last_use) for slot in slots if slot.nbytes]
        return Picture(("name", "offset", "nbytes", "born", "last_use"), rows, lambda: self._draw(slots, theme))

    def _draw(self, slots: Sequence[Slot], theme: Theme) -> Any:
        (top,), title = in_units(Column("nbytes", "Address", "bytes"), [self.size])
        unit = top / max(self.size, 1)
        axes = axes_of(theme, 8, 4.5)
        colors = {"input": theme.gray, "value": theme.colors[0], "output": theme.colors[3]}
        kinds = [kind for kind in colors if any(slot.kind == kind and slot.nbytes for slot in slots)]
        for kind in kinds:
            some = [slot for slot in slots if slot.kind == kind and slot.nbytes]
            axes.bar(
                [slot.born for slot in some],
                [slot.nbytes * unit for slot in some],
                [slot.last_use + 1 - slot.born for slot in some],
                [slot.offset * unit for slot in some],
                align="edge",
                color=colors[kind],
                edgecolor=theme.paper,
                linewidth=0.6,
                label=kind,
            )
        peak = max(range(len(self.timeline)), key=lambda i: self.timeline[i][1])
        axes.axvline(peak + 0.5, color=theme.ink, linewidth=1, linestyle="--", label="peak")
        axes.set(xlabel=f"Calls in order of execution\npeak at {label(self.at)}", ylabel=title)
        axes.set_xlim(0, len(self.timeline))
        axes.set_ylim(0, top)
        axes.grid(axis="y", color=theme.line)
        model = self._trace.run.model
        axes.set_title(label(f"Arena{f' of {model}' if model else ''}: {short(self.size, 'bytes')}"), fontsize=10)
        add_legend(axes, theme)
        return axes.figure

    def to_dict(self) -> dict[str, Any]:
        """Return the figures in plain JSON types; expressions as text.

        ``size``, ``offsets``, ``strategy``, ``lower_bound``, ``is_exact``, ``order`` and ``order_peak`` are None if
        sizes are symbolic.
        """
        keys = ("size", "offsets", "strategy", "lower_bound", "is_exact", "order", "order_peak")
        return {
            **super().to_dict(),
            "align": self.align,
            "inplace": self.inplace,
            "count_inputs": self.count_inputs,
            "weights": _plain(self.weights),
            "file": _plain(self.file),
            "peak": _plain(self.peak),
            "at": self.at,
            "timeline": [[name, _plain(live)] for name, live in self.timeline],
            **{key: None if self.symbols else getattr(self, key) for key in keys},
            "notes": self.notes,
        }

    @cached_property
    def _merged(self) -> list[Block]:
        return merged(self._lifetimes, self.inplace)

    @cached_property
    def _counted(self) -> list[Block]:
        return self._among(self._merged)

    def _among(self, blocks: Iterable[Block]) -> list[Block]:
        return [block for block in blocks if self.count_inputs or block.kind != "input"]

    @cached_property
    def _live(self) -> list[Dim]:
        return live_bytes(self._counted, len(self._lifetimes.steps))

    @cached_property
    def _peak(self) -> Dim:
        return highest(self._live)

    @cached_property
    def _layout(self) -> Layout:
        self._check_numbers("a layout")
        with collector_off():
            return smallest_layout(
                [Lifetime(int(block.nbytes), block.born, block.last_use) for block in self._counted], self.align
            )

    @cached_property
    def _best(self) -> BestOrder:
        self._check_numbers("an order")
        with collector_off():
            return best_order(self._lifetimes, self.inplace, self.count_inputs)

    def _check_numbers(self, what: str) -> None:
        if symbols := self.symbols:
            more = f" and {len(symbols) - MAX_NAMES} more" if len(symbols) > MAX_NAMES else ""
            example = ", ".join(f"{name!r}: 1" for name in symbols[:2])
            options = " ".join(f"--dim {quote(f'{name}=1')}" for name in symbols[:2])
            names = [name if name.isidentifier() else repr(name) for name in symbols[:MAX_NAMES]]
            raise ArenaError(
                f"{what} needs numbers, but sizes depend on {', '.join(names)}{more}. Substitute them, "
                f"as in report.subs({{{example}}}).arena(), or {options} on the command line"
            )


def _check(align: object, **switches: object) -> None:
    if not isinstance(align, int) or isinstance(align, bool):
        raise TypeError(f"align must be an integer (got {align!r})")
    if align < 1:
        raise ArenaError(f"align must be at least 1 (got {align})")
    for name, value in switches.items():
        if not isinstance(value, bool):
            raise TypeError(f"{name} must be True or False (got {value!r})")


def _bytes(amount: Dim) -> str:
    return f"{as_text(amount)} B" if is_symbolic(amount) else f"{amount:,} B"


def _plain(amount: Dim) -> int | str:
    return as_text(amount) if is_symbolic(amount) else int(amount)


def arena_of(report: ReportLike, align: int = 64, inplace: bool = False, count_inputs: bool = True) -> Arena:
    """Return the arena of a run, see :meth:`costcore.Report.arena`."""
    return Arena(report.trace, align, inplace, count_inputs)


# Planner: greedy layouts.


MOST_CONFLICTS = 2_000_000
"""The maximum number of pairs of blocks alive at the same time; with more, only the strategy ``birth`` is tried."""


class Lifetime(NamedTuple):
    """A block to place.

    Attributes:
        nbytes: its size.
        born: index of the first step that needs it.
        last_use: index of the last step that needs it.
    """

    nbytes: int
    born: int
    last_use: int


class Layout(NamedTuple):
    """A static memory layout.

    Attributes:
        size: the bytes that it takes.
        offsets: the offset of each block.
        strategy: the order in which the blocks were placed: ``size``, ``conflicts``, ``birth`` or ``micro``.
        sizes: the size by strategy, of all that were tried.
    """

    size: int
    offsets: list[int]
    strategy: str
    sizes: dict[str, int]


def smallest_layout(lifetimes: Sequence[Lifetime], align: int) -> Layout:
    """Return the smallest layout of several greedy ones.

    Each block gets the lowest offset without a conflict with placed blocks of overlapping lifetimes. Blocks are
    placed in order of falling size (Pisarchyk and Lee 2020, arXiv:2001.03288, the planner of TensorFlow Lite), of
    falling number of conflicts, and in the order in which they are made (``birth``). ``micro`` is the planner of
    TensorFlow Lite for microcontrollers: falling size; of equally large blocks, the one made last comes first.

    Args:
        lifetimes: the blocks.
        align: offsets and sizes are rounded up to multiples of this.
    """
    rounded = [-(-life.nbytes // align) * align for life in lifetimes]
    by_birth = sorted(range(len(lifetimes)), key=lambda i: (lifetimes[i].born, -rounded[i], i))
    placed = _place_by_birth(lifetimes, rounded, by_birth)
    found = {"birth": (_extent(placed, rounded), placed)}
    if _count_conflicts(lifetimes) <= MOST_CONFLICTS:
        conflicts = _overlapping(lifetimes, rounded, by_birth)
        keys: dict[str, Callable[[int], tuple[int, ...]]] = {
            "size": lambda i: (-rounded[i], lifetimes[i].born, i),
            "conflicts": lambda i: (-len(conflicts[i]), -rounded[i], lifetimes[i].born, i),
            "micro": lambda i: (-rounded[i], -lifetimes[i].born, -i),
        }
        for name, key in keys.items():
            placed = _place_lowest(sorted(range(len(lifetimes)), key=key), rounded, conflicts)
            found[name] = _extent(placed, rounded), placed
    names = [name for name in ("size", "conflicts", "birth", "micro") if name in found]
    best = min(names, key=lambda name: found[name][0])
    return Layout(*found[best], best, {name: found[name][0] for name in names})


def _extent(offsets: Sequence[int], sizes: Sequence[int]) -> int:
    return max((offset + size for offset, size in zip(offsets, sizes, strict=True)), default=0)


def _count_conflicts(lifetimes: Sequence[Lifetime]) -> int:
    n_steps = max((life.last_use for life in lifetimes), default=0) + 2
    born, died = [0] * n_steps, [0] * n_steps
    # Lists of pairs could exhaust memory, so pairs are only counted.
    for life in lifetimes:
        born[life.born] += 1
        died[life.last_use + 1] += 1
    pairs = alive = 0
    for new, gone in zip(born, died, strict=True):
        alive -= gone
        pairs += alive * new + new * (new - 1) // 2
        alive += new
    return pairs


def _overlapping(lifetimes: Sequence[Lifetime], sizes: Sequence[int], by_birth: Sequence[int]) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in lifetimes]
    alive: list[int] = []
    for i in by_birth:
        if not sizes[i]:
            continue
        alive = [j for j in alive if lifetimes[j].last_use >= lifetimes[i].born]
        for j in alive:
            found[j].append(i)
        found[i] += alive
        alive.append(i)
    return found


def _place_lowest(order: Sequence[int], sizes: Sequence[int], conflicts: Sequence[Sequence[int]]) -> list[int]:
    offsets: dict[int, int] = {}
    for i in order:
        size, offset = sizes[i], 0
        for start, end in sorted([(offsets[j], offsets[j] + sizes[j]) for j in conflicts[i] if j in offsets]):
            if start - offset >= size:
                break
            offset = max(offset, end)
        offsets[i] = offset
    return [offsets[i] for i in range(len(sizes))]


def _place_by_birth(lifetimes: Sequence[Lifetime], sizes: Sequence[int], by_birth: Sequence[int]) -> list[int]:
    # A run-time allocator that always takes the lowest gap gives the same offsets.
    offsets = [0] * len(sizes)
    leaving: dict[int, list[int]] = {}
    for i in by_birth:
        if sizes[i]:
            leaving.setdefault(lifetimes[i].last_use + 1, []).append(i)
    ends = sorted(leaving)
    gone = top = 0
    gaps: list[tuple[int, int]] = []
    for i in by_birth:
        size = sizes[i]
        if not size:
            continue
        while gone < len(ends) and ends[gone] <= lifetimes[i].born:
            gaps = _merged_gaps(gaps, [(offsets[j], offsets[j] + sizes[j]) for j in leaving[ends[gone]]])
            gone += 1
        if gaps and gaps[-1][1] == top:  # the last gap reaches the end of the used memory
            top = gaps.pop()[0]
        for k, (start, end) in enumerate(gaps):
            if end - start >= size:
                offsets[i], gaps[k] = start, (start + size, end)
                break
        else:
            offsets[i], top = top, top + size
    return offsets


def _merged_gaps(gaps: Sequence[tuple[int, int]], freed: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in sorted([*gaps, *freed]):
        if joined and joined[-1][1] == start:
            joined[-1] = joined[-1][0], end
        else:
            joined.append((start, end))
    return joined


# Table of the values with their offsets and lifetimes.


class Slot(NamedTuple):
    """The place of a value in the arena.

    Attributes:
        name: the call that makes the value, or the input; the first call if later values take over its memory.
        offset: the first byte.
        nbytes: its size, before alignment.
        born: index of the first step that needs it.
        last_use: index of the last step that needs it.
        kind: ``input``, ``value`` or ``output``.
        module: path of the module of the call that makes it.
        shape: its shape; None if it is not one tensor.
        dtype: its dtype.
    """

    name: str
    offset: int
    nbytes: int
    born: int
    last_use: int
    kind: str
    module: str
    shape: tuple[Dim, ...] | None
    dtype: str


def arena_rows(
    values: Sequence[Mapping[str, Any]], whole: Mapping[str, Any], sort: Column | None, top: int | None
) -> list[Mapping[str, Any]]:
    """Return the entries of the values, the largest first, and the entry of the whole arena.

    Args:
        values: an entry per value.
        whole: the last row.
        sort: the column to sort by; None for the size.
        top: the maximum number of rows; a row ``others`` sums the remaining ones. None for all.
    """
    return [*limited(in_order(values, sort or ARENA["nbytes"], lambda entry: entry), top, others_of), whole]


def others_of(entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the row that stands for several values."""
    return {"name": f"others ({len(entries)})", "nbytes": sum(entry["nbytes"] for entry in entries)}


ARENA = by_key(
    Column("name", "Value"),
    Column("nbytes", "Memory", "bytes"),
    Column("offset", "Offset", "count"),
    Column("born", "From"),
    Column("dies", "To"),
    Column("at_peak", "At peak"),
    Column("kind", "Kind"),
    Column("module", "Module"),
    Column("shape", "Shape", "shape"),
    Column("dtype", "Element type"),
)


def arena_drawn(report: ReportLike, theme: Theme, **options: Any) -> Picture:
    """Return the layout of an inference run: every value from its first to its last call, at its address."""
    return arena_of(report, **options)._picture(theme)


class ArenaColumns:
    """Column sets of ``show_arena``."""

    DEFAULT = ("name", "nbytes", "offset", "born", "dies", "at_peak", "kind", "shape", "dtype")
    ALL = tuple(ARENA)


MICROCONTROLLER = 16 * 2**20
"""The largest SRAM and flash of usual microcontrollers."""


def memories_of(arena: Arena) -> tuple[str, str]:
    """Return the names of the memories of values and weights: SRAM and flash if a microcontroller can hold both."""
    sizes = [arena.weights, arena.peak]
    is_small = all(is_symbolic(size) or size <= MICROCONTROLLER for size in sizes)
    return ("peak SRAM", "flash") if is_small else ("peak memory", "")


# Picture: lifetime across, offset upwards.


MOST_CALLS = 20_000
"""Runs with more calls have no picture: it would make the page slow."""

MOST_DRAWN = 1000
"""The maximum number of rectangles; the largest values are drawn."""

WIDTH, HEIGHT = 1000, 300
"""The size of the picture in its own units."""


def arena_picture(timeline: Sequence[tuple[str, Dim]], slots: Sequence[Slot], size: int, free: set[str]) -> str:
    """Return the picture, with the name of each value as a tooltip.

    Args:
        timeline: the name of every step and its live bytes.
        slots: the values with their places.
        size: the bytes of the arena.
        free: the names of zero-cost calls, which the picture omits.
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
        key(*each) for each in (("input", "inputs"), ("value", "values between calls"), ("output", "outputs"))
    )
    return (
        f"<figure class='picture'><svg id='arena-map' viewBox='0 0 {WIDTH} {HEIGHT}' preserveAspectRatio='none' "
        f"role='img' aria-label='Place in memory of {len(drawn)} values over {len(steps)} steps'>{shapes}{line}</svg>"
        f"<figcaption class='note'>Across: execution order{folded}. Upwards: offset, to {short(size, 'bytes')}. "
        f"Line: peak.{omitted} {keys}</figcaption></figure>"
    )


def _rectangle(slot: Slot, steps: Sequence[int], names: Sequence[str], size: int) -> str:
    first, last = bisect_left(steps, slot.born), bisect_right(steps, slot.last_use) - 1
    if first > last:  # only calls that are not drawn need the value
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
