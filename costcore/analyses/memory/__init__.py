"""The memory of a run: the lifetimes of its blocks, and the blocks at the peak."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from costcore.analyses.analysis import Analysis, View
from costcore.errors import CostError
from costcore.ledger.ledger import Ledger
from costcore.tables.quantity import Quantity

if TYPE_CHECKING:
    from costcore.analyses.memory.arena import Arena
    from costcore.ledger.ledger import MemoryData


# The quantities of memory: live bytes of a run with recorded memory, and the arena of an inference.


def _memory(ledger: Ledger) -> MemoryData:
    from costcore.ledger.ledger import MemoryData

    recorded = ledger.trace.run.memory
    if recorded is None:
        raise CostError(
            "memory was not recorded. Pass memory=True to estimate (PyTorch, integer sizes) or ComputationalCostHook, "
            "or --memory on the command line. For an inference, also of an ONNX model, use the arena."
        )
    return ledger.cached("memory", lambda: MemoryData(recorded, ledger.trace.calls))  # type: ignore[no-any-return]


def _alive(key: str) -> Callable[[Ledger], Sequence[Any]]:
    def of_calls(ledger: Ledger) -> Sequence[Any]:
        _memory(ledger)
        return [entry[key] for entry in ledger.entries.values()]

    return of_calls


def _recorded(
    name: str, title: str, doc: str, combine: str, of_run: Callable[[Ledger], Any], key: str = ""
) -> Quantity:
    return Quantity(name, title, "bytes", doc, _alive(key or name), combine, of_run, needs={"memory": True}, words=doc)


def _arena(ledger: Ledger) -> Arena:
    from costcore.analyses.memory.arena import Arena

    return ledger.cached("arena", lambda: Arena(ledger.trace))  # type: ignore[no-any-return]


def _of_arena(name: str, title: str, doc: str, of_run: Callable[[Ledger], Any], words: str = "") -> Quantity:
    return Quantity(name, title, "bytes", doc, of_run=of_run, words=words or doc)


PEAK = "bytes of memory at the peak"

QUANTITIES = (
    _recorded("live", "Live", "bytes alive after a call", "last", lambda ledger: _memory(ledger).end),
    _recorded(
        "live_peak", "Live peak", "maximum bytes alive while a call runs", "max", lambda ledger: _memory(ledger).peak
    ),
    _recorded(
        *("saved", "Saved", "bytes that a call made and that autograd keeps", "sum"),
        lambda ledger: _memory(ledger).saved,
    ),
    _recorded("peak_memory", "Peak memory", PEAK, "max", lambda ledger: _memory(ledger).peak, "live_peak"),
    _of_arena(
        "arena", "Arena", "bytes of the arena of an inference", lambda ledger: _arena(ledger).size, "bytes of arena"
    ),
    _of_arena(
        "arena_peak", "Arena peak", "maximum bytes of values alive in an inference", lambda ledger: _arena(ledger).peak
    ),
    _of_arena(
        "arena_least",
        "Arena at least",
        "bytes that every order of the calls needs",
        lambda ledger: _arena(ledger).lower_bound,
    )._replace(certainty="bound"),
    _of_arena(
        "weights", "Weights", "bytes of stored tensors that an inference reads", lambda ledger: _arena(ledger).weights
    ),
)


POLICIES = ("cuda",)
"""The allocators with known rules."""

MEMORY = Analysis(
    "memory",
    "peak memory, and the tensors alive at the peak",
    f"{__name__}.live_memory:memory_of",
    needs={"memory": True},
    quantities=f"{__name__}:QUANTITIES",
    section=f"{__name__}.live_memory:memory_section",
    pictures={"memory": f"{__name__}.live_memory:memory"},
    view=View(
        "peak memory, and the tensors alive at the peak (PyTorch); with --train, of a training step",
        f"{__name__}.live_memory:alive_at_peak",
        "costcore.tables.columns:BLOCKS",
        "costcore.tables.columns:MemoryColumns",
        beside=("live_peak", "live", "saved"),
        order="whose largest blocks come first",
        top=15,
        arguments={"--allocator": {"choices": POLICIES, "help": "also print the memory that this allocator reserves"}},
        without_flops=True,
    ),
)

ARENA = Analysis(
    "arena",
    "the static memory plan of an inference",
    f"{__name__}.arena:arena_of",
    section=f"{__name__}.live_memory:arena_section",
    pictures={"arena": f"{__name__}.arena:arena_drawn"},
    view=View(
        "static memory plan of an inference: one row per value, peak SRAM and flash",
        f"{__name__}.live_memory:values_in_arena",
        f"{__name__}.arena:ARENA",
        f"{__name__}.arena:ArenaColumns",
        rows="its rows are values in memory, which are not parts of the run; ask for --columns arena",
        top=20,
        arguments={
            "--inplace": {"action": "store_true", "help": "let element-wise results overwrite their operands"},
            "--align": {"type": int, "metavar": "N", "help": "alignment of values in bytes; default: 64"},
        },
        without_flops=True,
        is_of_original=True,
    ),
)

ANALYSES = (MEMORY, ARENA)
