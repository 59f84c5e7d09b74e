"""The quantities of receptive fields: which positions of the first input can change one output position."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from costcore.ledger.ledger import Ledger
from costcore.tables.quantity import Quantity

if TYPE_CHECKING:
    from costcore.analyses.receptive_field.fields import ReceptiveField


def _of_fields(text: Callable[[ReceptiveField], str]) -> Callable[[Ledger], Sequence[Any]]:
    def of_calls(ledger: Ledger) -> Sequence[Any]:
        from costcore.analyses.receptive_field.fields import receptive_fields

        fields = ledger.cached("receptive_fields", lambda: receptive_fields(ledger.trace))
        return [text(fields[call.name]) if call.name in fields else "" for call in ledger.calls]

    return of_calls


QUANTITIES = (
    Quantity(
        *("receptive_field", "Receptive field", "text", "input positions that one output position sees"),
        _of_fields(str),
        "last",
    ),
)
