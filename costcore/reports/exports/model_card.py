"""A report as a block of YAML for a model card."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from costcore.dims import Dim
from costcore.reports.exports.facts import status
from costcore.reports.ledger import flops_of
from costcore.reports.report_data import ReportData
from costcore.reports.serialization.to_json import to_dict, to_json
from costcore.reports.text.values import jsonable


def to_model_card(report: ReportData, input_shape: Any = None) -> str:
    """A YAML block for a model card: costs, convention, and a hash of the report they are from.

    Args:
        report: the report.
        input_shape: what the model was run on, ``(1, 3, 224, 224)``; where not given, the shapes of the data that
            calls read and no call made.
    """
    total = report.total_report
    card = {
        "tool": f"costcore {report.trace.run.version}",
        "convention": report.trace.run.convention,
        "status": status(report),
        "frameworks": dict(report.trace.run.frameworks),
        "input_shape": _input_shapes(report) if input_shape is None else input_shape,
        "flops_fma_1": _flops(report, True),
        "flops_fma_2": _flops(report, False),
        "macs": total["macs"],
        "parameters": total.get("n_params_model", total["n_params"]),
        "bytes_read": total["mread"],
        "bytes_written": total["mwrite"],
        "layout": report.trace.run.layout,
        "report_sha256": report_hash(report),
    }
    return "computational_cost:\n" + "".join(f"  {key}: {_yaml(value)}\n" for key, value in card.items())


def report_hash(report: ReportData) -> str:
    """SHA-256 of the report's JSON text, which is the same for equal reports."""
    text = to_json(to_dict(report.trace, report.ledger.total), None, None)
    return hashlib.sha256(text.encode()).hexdigest()


def _flops(report: ReportData, fma_1flop: bool) -> Dim:
    counted = ((item.call, item.cost) for item in report.trace)
    return sum(flops_of(cost, fma_1flop) * call.times for call, cost in counted if cost is not None)


def _input_shapes(report: ReportData) -> list[list[Any]]:
    """The shapes of the data that no call made, in order of first use; of the first call where ids are not known."""
    made: set[int] = set()
    found: dict[int, list[Any]] = {}
    for call in report.trace.calls:
        made.update(call.outputs)
        for i, tensor in zip(call.inputs, call.layer.inputs.values(), strict=False):
            if i not in made and tensor.role == "data" and call.phase == "forward":
                found.setdefault(i, list(tensor.shape))
    if not found and report.trace.calls:
        first = report.trace.calls[0].layer.inputs.values()
        return [list(tensor.shape) for tensor in first if tensor.role == "data"]
    return list(found.values())


def _yaml(value: Any) -> str:
    """A value in YAML's flow style."""
    value = jsonable(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_yaml(name)}: {_yaml(part)}" for name, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_yaml, value)) + "]"
    if isinstance(value, str):
        return _quoted(value)
    return json.dumps(value)


def _quoted(text: str) -> str:
    """A double-quoted scalar; what is not printable is spelled out, as YAML wants it."""
    return "".join(
        c if c.isprintable() else f"\\U{ord(c):08x}" for c in '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    )
