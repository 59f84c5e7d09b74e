"""``model_card``: a block of YAML for a model card."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from costcore.reports.data.report_data import ReportData
from costcore.reports.exports.facts import status
from costcore.reports.serialization.to_json import to_dict, to_json
from costcore.tables.quantities import numeric
from costcore.text.values import jsonable
from costcore.trace.run import FLOPS

if TYPE_CHECKING:
    from costcore.analyses.memory.report import Memory

COSTS = {"macs": "macs", "parameters": "n_params_model", "bytes_read": "mread", "bytes_written": "mwrite"}
"""The quantities of every card, by their names in it."""


def to_model_card(report: ReportData, input_shape: Any = None, columns: Sequence[str] = ()) -> str:
    """Return a YAML block for a model card: costs, convention, versions, and a hash of the report.

    Args:
        report: the report.
        input_shape: shape of the model's input, ``(1, 3, 224, 224)``; default: the shapes of the data that calls read
            and no call produces.
        columns: further quantities, ``["fused_mrw", "flops@fvcore"]``, which are in the card by their own names.

    Raises:
        ValueError: if there is no quantity of a name, or if it is not a number.
        CostError: if the report does not have it.
    """
    named = {**COSTS, **{name: name for name in columns}}
    card = {
        "tool": f"costcore {report.trace.run.version}",
        "convention": report.trace.run.convention,
        "status": status(report),
        "frameworks": dict(report.trace.run.frameworks),
        "input_shape": _input_shapes(report) if input_shape is None else input_shape,
        **_counted(report),
        **{key: numeric(name).total(report.ledger) for key, name in named.items()},
        **({} if report.memory is None else _memory(report.memory)),
        "layout": report.trace.run.layout,
        "report_sha256": report_hash(report),
    }
    return "computational_cost:\n" + "".join(f"  {key}: {_yaml(value)}\n" for key, value in card.items())


def report_hash(report: ReportData) -> str:
    """Return the SHA-256 hash of the report's JSON text; equal reports have equal hashes."""
    text = to_json(to_dict(report.trace, report.ledger.total), None, None)
    return hashlib.sha256(text.encode()).hexdigest()


def _memory(memory: Memory) -> dict[str, Any]:
    """Return the peak of tensors in bytes, how far it can be relied on, and its parts by kind."""
    accuracy = "exact for tensors, without workspace of kernels" if memory.is_exact else "approximate"
    return {"peak_memory": memory.peak, "peak_memory_is": accuracy, "peak_memory_by_kind": memory.by_kind}


def _counted(report: ReportData) -> dict[str, Any]:
    """Return the FLOPs with both prices of a fused multiply-add, or what another convention counts, with its unit."""
    unit = report.trace.run.unit
    if unit != FLOPS:
        return {"counted": report.ledger.total["flops"], "counted_unit": unit}
    prices = {"flops_fma_1": "flops_fma1", "flops_fma_2": "madd"}
    return {key: numeric(name).total(report.ledger) for key, name in prices.items()}


def _input_shapes(report: ReportData) -> list[list[Any]]:
    """Return the shapes of the data that no call produces, in order of first use.

    If calls have no operand ids, these are the shapes of the data that the first call reads.
    """
    produced: set[int] = set()
    shapes: dict[int, list[Any]] = {}
    for call in report.trace.calls:
        produced.update(call.outputs)
        for value, tensor in zip(call.inputs, call.layer.inputs.values(), strict=False):
            if value not in produced and tensor.role == "data" and call.phase == "forward":
                shapes.setdefault(value, list(tensor.shape))
    if not shapes and report.trace.calls:
        first_inputs = report.trace.calls[0].layer.inputs.values()
        return [list(tensor.shape) for tensor in first_inputs if tensor.role == "data"]
    return list(shapes.values())


def _yaml(value: Any) -> str:
    """Return a value in YAML's flow style."""
    value = jsonable(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_yaml(name)}: {_yaml(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_yaml, value)) + "]"
    if isinstance(value, str):
        return _quoted(value)
    return json.dumps(value)


def _quoted(text: str) -> str:
    """Return a double-quoted YAML scalar with unprintable characters escaped."""
    return "".join(
        c if c.isprintable() else f"\\U{ord(c):08x}" for c in '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    )
