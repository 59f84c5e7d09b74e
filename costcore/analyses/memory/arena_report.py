"""The arena of a run: the memory of its values if each is kept from the call that makes it to its last reader."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from shlex import quote
from typing import Any

from costcore.analyses.analysis import Analyzed
from costcore.analyses.memory.arena import Life, Plan, plan
from costcore.analyses.memory.arena_rows import ARENA, Slot, others_of
from costcore.analyses.memory.liveness import lives_of
from costcore.analyses.memory.lives import Block, Lives, in_order
from costcore.analyses.memory.merging import merged
from costcore.analyses.memory.order import BestOrder, best_order
from costcore.analyses.memory.reuse import in_onnx_runtime, reused
from costcore.analyses.memory.timeline import first_step_of, highest, live_bytes
from costcore.errors import ArenaError
from costcore.numbers.dims import Dim, is_symbolic
from costcore.numbers.evaluation import symbols_of
from costcore.numbers.symbolic import as_text
from costcore.tables.answer import Answer, Figure
from costcore.tables.columns import choose
from costcore.tables.result import Result
from costcore.tables.table import Table
from costcore.text.targets import Target, save
from costcore.trace.gc_paused import collector_off
from costcore.trace.trace import Trace

MOST_VALUES = 5
"""The number of values that ``print`` and notebooks show; a row sums the others."""

COLUMNS = ("name", "nbytes", "offset", "born", "dies", "at_peak", "shape")
"""The columns of their table."""

MAX_NAMES = 8
"""The maximum number of symbols in a message."""


class Arena(Result):
    """The memory of an inference run whose values are placed before it starts, as on a microcontroller.

    A value lives from the call that makes it to its last reader; what the model returns, to the end; inputs from the
    start. The inputs and outputs of a call are alive together. Views share the memory of what they view. Weights are
    apart: they are read where they are stored (flash).

    Three figures, each with its own name:

    * :attr:`peak`: the largest sum of live values, in the order of the file. No layout for this order needs less.
    * :attr:`size`: the bytes of a layout that was found, :attr:`offsets`. It is never below the peak, and it can be
      used as it is. Whether a smaller layout exists is not known unless it equals the peak.
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
            self._lives: Lives = lives_of(trace)
        self._trace = trace
        self._orders: tuple[list[int], ...] = ()

    def __repr__(self) -> str:
        peak, weights = as_text(self.peak), as_text(self.weights)
        size = "" if self.symbols else f", arena {self.size}"
        return f"<Arena: peak {peak} bytes at {self.at}{size}, weights {weights}>"

    def _answer(self) -> Answer:
        figures = [Figure("peak", "Peak", self.peak, "bytes", f"in execution order, at {self.at}")]
        if not self.symbols:
            bound = "of the best order" if self.is_exact else "no order needs less"
            size = Figure("size", "Arena", self.size, "bytes", f"peak SRAM, aligned to {self.align} bytes")
            figures += [size, Figure("lower_bound", "Lower bound", self.lower_bound, "bytes", bound)]
        figures.append(Figure("weights", "Weights and constants", self.weights, "bytes", "flash"))
        title = f"The {MOST_VALUES} largest values" if len(self._counted) > MOST_VALUES else "Values, largest first"
        values = Table("Values, largest first", choose(ARENA, COLUMNS), self.entries(), total=self.total_entry())
        values.others = others_of
        shown = values.sorted("nbytes").top(MOST_VALUES, title)
        return Answer("Memory of one inference", figures, [shown], self._assumptions)

    @property
    def peak(self) -> Dim:
        """The largest sum of the values that are alive at once, in the order of the file."""
        return self._peak

    @property
    def peak_with_reuse(self) -> Dim:
        """The largest sum of live buffers if activations are written over operands, and others wait for equal shapes.

        Without the inputs, that is what ONNX Runtime allocates on a CPU for tensors, in the order of its calls, as long
        as it does not change the graph.
        """
        lives = lives_of(self._trace, returns_copies=True)
        for order in self._orders:
            lives = in_order(lives, order)
        lives = in_onnx_runtime(lives)
        steps = len(lives.moments)
        return highest(live_bytes(reused(self._among(merged(lives, True)), steps - 1), steps))

    @property
    def at(self) -> str:
        """The call at which the peak is reached; of a symbolic peak, that of one of its terms."""
        return self.timeline[first_step_of(self._live, self._peak)][0]

    @property
    def weights(self) -> Dim:
        """The bytes of the stored tensors that the run reads, constants included, shared ones once: flash."""
        return self._lives.weights

    @property
    def timeline(self) -> list[tuple[str, Dim]]:
        """The name of every step in the order of the file, and the bytes that are alive during it.

        A step is a call. Loops and branches that data decides add steps of their own, such as ``loop.body: start``.
        """
        return [(moment.name, live) for moment, live in zip(self._lives.moments, self._live, strict=True)]

    @property
    def by_call(self) -> dict[str, Dim]:
        """The bytes that are alive during each call, by its name."""
        pairs = zip(self._lives.moments, self._live, strict=True)
        return {moment.name: live for moment, live in pairs if moment.is_call}

    @property
    def size(self) -> int:
        """The bytes of the smallest layout that was found: "peak SRAM" in the words of TinyML."""
        return self._plan.size

    @property
    def strategy(self) -> str:
        """The order in which the values were placed in that layout: ``size``, ``conflicts``, ``birth`` or ``micro``."""
        return self._plan.strategy

    @property
    def sizes(self) -> dict[str, int]:
        """The bytes of the layout of each strategy that was tried."""
        return dict(self._plan.sizes)

    @property
    def offsets(self) -> dict[str, int]:
        """The offset of every value in the arena, by name."""
        return {block.name: offset for block, offset in zip(self._counted, self._plan.offsets, strict=True)}

    @property
    def slots(self) -> list[Slot]:
        """The values with their places in the arena, in order of birth."""
        return [
            Slot(b.name, offset, int(b.nbytes), b.born, b.dies, b.kind, b.module, b.shape, b.dtype)
            for b, offset in zip(self._counted, self._plan.offsets, strict=True)
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
        moments = self._lives.moments
        return [moments[step].name for step in self._best.order if moments[step].is_call]

    def in_best_order(self) -> Arena:
        """Return the arena of the same calls in the order of :attr:`order`.

        Raises:
            ArenaError: if sizes are symbolic.
        """
        made = Arena.__new__(Arena)
        made.align, made.inplace, made.count_inputs = self.align, self.inplace, self.count_inputs
        made._lives, made._trace = in_order(self._lives, self._best.order), self._trace
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
        """What the figures assume."""
        return list(self._lives.notes)

    @property
    def remarks(self) -> list[str]:
        """The figures as lines of text, in the words of TinyML, and the notes."""
        lines = [
            f"flash (weights and constants): {_bytes(self.weights)}",
            f"peak, in execution order: {_bytes(self.peak)}, at {self.at}",
        ]
        if self.symbols:
            lines.append(f"a layout needs numbers for {', '.join(self.symbols)}: subs(…), or --dim")
        else:
            bound = "best order" if self.is_exact else "no order needs less than"
            lines.append(f"peak SRAM (arena, aligned to {self.align}): {_bytes(self.size)}, placed by {self.strategy}")
            lines.append(f"{bound}: {_bytes(self.lower_bound)}")
        return [*lines, *self._assumptions]

    @property
    def _assumptions(self) -> list[str]:
        options = ["element-wise results are written over operands"] * self.inplace
        options += ["inputs of the model are not counted"] * (not self.count_inputs)
        return [*options, *self.notes]

    def total_entry(self) -> dict[str, Any]:
        """Return the name and the bytes of the whole arena, or of the peak if sizes are symbolic."""
        return {"name": "peak", "nbytes": self.peak} if self.symbols else {"name": "arena", "nbytes": self.size}

    def entries(self) -> list[dict[str, Any]]:
        """Return a dict per value, in order of birth, as the table shows it; without offsets if sizes are symbolic.

        ``born`` and ``dies`` name the first and the last step that needs the value; ``at_peak`` is ``yes`` if it is
        alive at the peak.
        """
        moments, peak = self._lives.moments, first_step_of(self._live, self._peak)
        offsets: list[Any] = [None] * len(self._counted) if self.symbols else self._plan.offsets
        return [
            {
                "name": block.name,
                "nbytes": block.nbytes,
                "offset": offset,
                "born": "start" if block.kind == "input" else moments[block.born].name,
                "dies": "end" if block.is_kept else moments[block.dies].name,
                "at_peak": "yes" if block.born <= peak <= block.dies else "no",
                "kind": block.kind,
                "module": block.module,
                "shape": block.shape,
                "dtype": block.dtype,
            }
            for block, offset in zip(self._counted, offsets, strict=True)
        ]

    def to_html(self, target: Target = None, title: str = "") -> str:
        """Return one self-contained HTML page, with the layout as a picture, and write it to ``target`` if given."""
        from costcore.analyses.memory.arena_picture import MOST_CALLS, picture
        from costcore.tables.html import page

        is_drawn = not self.symbols and self.peak and len(self._lives.moments) <= MOST_CALLS
        drawn = picture(self.timeline, self.slots, self.size, set()) if is_drawn else ""
        drawn = f"<section id='arena'><h2>Layout</h2>{drawn}</section>" if drawn else ""
        return save(page(self._answer(), title, picture=drawn, styles=("arena.css",)), target)

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
            "peak": _plain(self.peak),
            "at": self.at,
            "timeline": [[name, _plain(live)] for name, live in self.timeline],
            **{key: None if self.symbols else getattr(self, key) for key in keys},
            "notes": self.notes,
        }

    @cached_property
    def _merged(self) -> list[Block]:
        return merged(self._lives, self.inplace)

    @cached_property
    def _counted(self) -> list[Block]:
        return self._among(self._merged)

    def _among(self, blocks: Iterable[Block]) -> list[Block]:
        return [block for block in blocks if self.count_inputs or block.kind != "input"]

    @cached_property
    def _live(self) -> list[Dim]:
        return live_bytes(self._counted, len(self._lives.moments))

    @cached_property
    def _peak(self) -> Dim:
        return highest(self._live)

    @cached_property
    def _plan(self) -> Plan:
        self._check_numbers("a layout")
        with collector_off():
            return plan([Life(int(block.nbytes), block.born, block.dies) for block in self._counted], self.align)

    @cached_property
    def _best(self) -> BestOrder:
        self._check_numbers("an order")
        with collector_off():
            return best_order(self._lives, self.inplace, self.count_inputs)

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


def arena_of(report: Analyzed, align: int = 64, inplace: bool = False, count_inputs: bool = True) -> Arena:
    """Return the arena of a run, see :meth:`costcore.Report.arena`."""
    return Arena(report.trace, align, inplace, count_inputs)
