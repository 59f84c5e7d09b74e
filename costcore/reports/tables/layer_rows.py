"""The rows of ``show_layers``: one per operator call, in torchstat's format."""

from __future__ import annotations

from typing import Any

from costcore.reports.ledger import Ledger, flops_of, memory
from costcore.symbolic import added


def layer_rows(ledger: Ledger) -> list[dict[str, Any]]:
    """A line for every counted call as torchstat prints it, and the total.

    ``memory`` is the bytes of the outputs, ``madd`` FLOPs with a fused multiply-add as two, ``flops_fma1`` as one,
    whichever the report itself counts.
    """
    own = ("memory", "madd", "flops_fma1")
    lines = []
    for call, cost in ledger.counted:
        entry, inputs = ledger.entries[call.name], list(call.layer.inputs.values())
        line = {
            **entry,
            "input_shape": inputs[0].shape if inputs else "",
            "output_shape": call.layer.outputs[0].shape if call.layer.outputs else "",
            "memory": memory(call, cost),
            "madd": flops_of(cost, False) * call.times,
            "flops_fma1": flops_of(cost, True) * call.times,
        }
        lines.append(line)
    return [*lines, {**ledger.total, "module": "total", **{key: added(line[key] for line in lines) for key in own}}]
