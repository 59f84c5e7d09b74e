"""The quantities of memory: bytes alive during a run whose memory was recorded, and the arena of an inference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from costcore.errors import CostError
from costcore.ledger.ledger import Ledger
from costcore.tables.quantity import Quantity

if TYPE_CHECKING:
    from costcore.analyses.memory.arena import Arena
    from costcore.ledger.ledger import MemoryData


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
