"""The quantity ``flops@CONVENTION``: what another tool counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from costcore.errors import CostError
from costcore.ledger.ledger import Ledger
from costcore.numbers import expanded_sum
from costcore.tables.quantity import Quantity
from costcore.trace.run import FLOPS

if TYPE_CHECKING:
    from costcore.analyses.conventions.counting import Counts


def _at(name: str) -> Quantity:
    from costcore.analyses.conventions.convention import UNIT_NAMES, find_convention

    convention = find_convention(name)

    def counts(ledger: Ledger) -> Counts:
        from costcore.analyses.conventions.counting import count

        if ledger.trace.run.unit != FLOPS:
            raise CostError(
                f"this report shows {ledger.trace.run.unit}. Ask for {name} in the report it was made from."
            )
        return ledger.cached(("counts", name), lambda: count(ledger.trace, find_convention(name)))  # type: ignore[no-any-return]

    def is_counted(ledger: Ledger) -> bool:
        return ledger.trace.run.convention == convention.name

    def of_calls(ledger: Ledger) -> Sequence[Any]:
        if is_counted(ledger):
            return [entry["flops"] for entry in ledger.entries.values()]
        from costcore.analyses.conventions.counting import amounts

        by_position = zip(amounts(counts(ledger), ledger.trace), ledger.trace, strict=True)
        return [amount for amount, record in by_position if record.cost is not None]

    def of_run(ledger: Ledger) -> Any:
        if is_counted(ledger):
            return ledger.total["flops"]
        return expanded_sum(line.amount for line in counts(ledger).lines)

    is_closed_form = any(each.by == "whole" for each in convention.counts)
    words = f"{UNIT_NAMES[convention.unit]} ({name})"
    return Quantity(
        *(f"flops@{name}", words, "flops", f"{UNIT_NAMES[convention.unit]} as {convention.label} counts them"),
        of_calls=None if is_closed_form else of_calls,
        of_run=of_run,
        needs={"spelled": True} if convention.needs_functions else {},
        remarks=lambda ledger: [] if is_counted(ledger) else [*counts(ledger).notes],
    )


QUANTITIES = (
    Quantity(
        "flops@CONVENTION",
        "FLOPs",
        "flops",
        "what another tool counts: a name of costcore.conventions(), or a path",
        at=_at,
    ),
)
