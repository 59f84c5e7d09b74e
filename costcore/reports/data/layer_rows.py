"""The rows of ``show_layers``: one per operator call, in torchstat's format."""

from __future__ import annotations

from typing import Any

from costcore.ledger.ledger import Ledger, flops_of, memory
from costcore.numbers.symbolic import expanded_sum

TORCHSTAT_SUMS = ("memory", "madd", "flops_fma1")
"""The sums that only these rows have."""


def layer_rows(ledger: Ledger) -> list[dict[str, Any]]:
    """Return one row per counted call, and the total as the last one.

    ``memory`` is the size of the outputs in bytes. ``madd`` is FLOPs with a fused multiply-add counted as two,
    ``flops_fma1`` FLOPs with a fused multiply-add counted as one; neither depends on the report's ``fma_1flop``.
    """
    rows = []
    amounts: dict[Any, dict[str, Any]] = {}
    for call, cost in ledger.counted:
        key = id(call.layer), id(cost), call.times
        if key not in amounts:
            amounts[key] = {
                "memory": memory(call, cost),
                "madd": flops_of(cost, False) * call.times,
                "flops_fma1": flops_of(cost, True) * call.times,
            }
        entry, inputs = ledger.entries[call.name], list(call.layer.inputs.values())
        row = {
            **entry,
            "input_shape": inputs[0].shape if inputs else "",
            "output_shape": call.layer.outputs[0].shape if call.layer.outputs else "",
            **amounts[key],
        }
        rows.append(row)
    sums = {key: expanded_sum(row[key] for row in rows) for key in TORCHSTAT_SUMS}
    return [*rows, {**ledger.total, "module": "total", **sums}]
