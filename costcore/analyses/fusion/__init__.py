"""Fusion: the bytes left after a compiler fused the calls, and the kernels of a compiler's own schedule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from costcore.analyses.analysis import Analysis
from costcore.errors import CostError, unknown
from costcore.ledger.ledger import Ledger, multiplied
from costcore.tables.quantity import Quantity
from costcore.trace.run import LEVELS

# The quantities after fusion: each call has its share of the bytes of its kernel.

Traffic = tuple[list[tuple[int, ...]], list[tuple[Any, Any]]]
"""The groups, as positions of their calls; and the bytes that each call reads and writes."""


def _traffic(ledger: Ledger, level: str) -> Traffic:
    from costcore.analyses.fusion.groups import traffic_of_calls

    fusion = ledger.trace.run.fusion
    if fusion is not None and fusion.level == level:
        costs = (record.cost for record in ledger.trace)
        return [*fusion.groups], [(0, 0) if cost is None else (cost.mread, cost.mwrite) for cost in costs]
    if fusion is not None:
        raise CostError(
            f"this report is already fused at level {fusion.level!r}. Fuse the report from which it was made."
        )
    return ledger.cached(("fused", level), lambda: traffic_of_calls(ledger.trace, level))  # type: ignore[no-any-return]


def _bytes(level: str, amount: Callable[[Any, Any], Any]) -> Callable[[Ledger], Sequence[Any]]:
    def of_calls(ledger: Ledger) -> Sequence[Any]:
        pairs = zip(ledger.trace, _traffic(ledger, level)[1], strict=True)
        return [
            multiplied(amount(read, written), record.call.times)
            for record, (read, written) in pairs
            if record.cost is not None
        ]

    return of_calls


def _quantities_at(level: str) -> dict[str, Quantity]:
    if level not in LEVELS:
        raise ValueError(unknown("level of fusion", level, LEVELS))

    def n_groups(ledger: Ledger) -> int:
        groups, amounts = _traffic(ledger, level)
        return sum(any(amount != 0 for i in calls for amount in amounts[i]) for calls in groups)

    kinds = {
        "fused_mread": ("Fused read", "bytes read after fusion", lambda read, written: read),
        "fused_mwrite": ("Fused written", "bytes written after fusion", lambda read, written: written),
        "fused_mrw": ("Fused R+W", "bytes read and written after fusion", lambda read, written: read + written),
    }
    found = {
        name: Quantity(name, title, "bytes", doc, _bytes(level, amount), words=doc)
        for name, (title, doc, amount) in kinds.items()
    }
    found["n_groups"] = Quantity(
        "n_groups", "# Groups", "count", "groups of calls that run as one kernel and move bytes", of_run=n_groups
    )
    return found


def _with_level(name: str) -> Callable[[str], Quantity]:
    def at(level: str) -> Quantity:
        found = _quantities_at(level)[name]
        return found._replace(name=f"{name}@{level}", title=f"{found.title} ({level})", words=f"{found.doc} ({level})")

    return at


QUANTITIES = (
    *_quantities_at("pointwise").values(),
    *(
        each._replace(name=f"{name}@LEVEL", doc=f"{each.doc}; LEVEL: {', '.join(LEVELS)}", at=_with_level(name))
        for name, each in _quantities_at("pointwise").items()
    ),
)


ANALYSES = (
    Analysis(
        "fusion",
        "the bytes after kernel fusion",
        f"{__name__}.groups:FusedView",
        quantities=f"{__name__}:QUANTITIES",
    ),
    Analysis(
        "kernels",
        "the kernels of the compiled model, with their calls and bytes",
        f"{__name__}.kernels:kernels_of",
    ),
)
