"""What exported files say of a report and its calls."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from costcore.ir import Tensor
from costcore.reports.caveats import not_counted
from costcore.reports.report_data import ReportData
from costcore.reports.text.amounts import METRICS
from costcore.reports.text.values import attribute_text, jsonable
from costcore.symbolic import written
from costcore.trace.call import Call


def facts(call: Call, entry: Mapping[str, Any] | None) -> dict[str, Any]:
    """What a viewer is told of a call; ``entry`` is its entry of the report, None where it could not be counted."""
    layer = call.layer
    described: dict[str, Any] = {"op": layer.op, "phase": call.phase}
    if entry is None:
        described["counted"] = f"no: {call.layer.op} has no cost"
    else:
        described |= {key: entry[key] for key in METRICS}
    if call.times != 1:
        described["times"] = call.times
    described["inputs"] = ", ".join(f"{name}: {_tensor(tensor)}" for name, tensor in layer.inputs.items())
    described["outputs"] = ", ".join(map(_tensor, layer.outputs))
    settings = layer.attrs if entry is None else entry["params"]
    return {**described, **{f"settings.{name}": attribute_text(value) for name, value in settings.items()}}


def status(report: ReportData) -> str:
    """``complete``, or ``partial`` with what is not counted."""
    missing = not_counted(report.trace)
    return f"partial: not counted: {missing}" if missing else "complete"


def json_text(content: Any) -> str:
    """JSON, one line, integers exact, the same for equal content."""
    return json.dumps(jsonable(content), ensure_ascii=False, separators=(",", ":")) + "\n"


def _tensor(tensor: Tensor) -> str:
    return f"{tensor.dtype}[{', '.join(map(written, tensor.shape))}]"


def _word(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else written(value)
