"""The status of a report and the attributes of its calls, as exported files contain them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from costcore.ir import Tensor
from costcore.ledger.caveats import n_assumptions, not_counted
from costcore.numbers.symbolic import as_text
from costcore.reports.data.report_data import ReportData
from costcore.tables.quantities import registered
from costcore.text.values import attribute_text, jsonable
from costcore.trace.call import Call


def call_facts(call: Call, entry: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what a viewer displays of a call: operator, costs, operands and attributes.

    Args:
        call: the call.
        entry: its entry in ``layer_report``; None if it could not be counted.
    """
    layer = call.layer
    described: dict[str, Any] = {"op": layer.op, "phase": call.phase}
    if entry is None:
        described["counted"] = f"no: {call.layer.op} has no cost"
    else:
        numbers = (each.name for each in registered().values() if each.is_number and each.certainty == "exact")
        described |= {name: entry[name] for name in numbers if name in entry}
    if call.times != 1:
        described["times"] = call.times
    described["inputs"] = ", ".join(f"{name}: {tensor_text(tensor)}" for name, tensor in layer.inputs.items())
    described["outputs"] = ", ".join(map(tensor_text, layer.outputs))
    attributes = layer.attrs if entry is None else entry["params"]
    return {**described, **{f"settings.{name}": attribute_text(value) for name, value in attributes.items()}}


def status(report: ReportData) -> str:
    """Return the status: ``partial`` with what is not counted, ``assumed`` with the number of assumptions."""
    missing = not_counted(report.trace)
    reasons = [f"not counted: {missing}"] * bool(missing)
    reasons += [n_assumptions(report.trace)] * bool(report.trace.run.assumptions)
    return ": ".join([report.status, "; ".join(reasons)]) if reasons else report.status


def json_text(content: Any) -> str:
    """Return one line of JSON; integers are exact, and equal content gives equal text."""
    return json.dumps(jsonable(content), ensure_ascii=False, separators=(",", ":")) + "\n"


def tensor_text(tensor: Tensor) -> str:
    """Return dtype and shape of a tensor, ``float32[1, 3]``."""
    return f"{tensor.dtype}[{', '.join(map(as_text, tensor.shape))}]"
