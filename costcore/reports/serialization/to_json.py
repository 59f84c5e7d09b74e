"""A report in plain JSON types, and as JSON text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from costcore.errors import CostError
from costcore.reports.serialization.codec import Encoder, UniqueEntries
from costcore.reports.serialization.report_form import (
    ASSUMPTIONS,
    ATTRIBUTES,
    CALL,
    COST,
    LAYER,
    MODULES,
    PARAMETERS,
    RECORDS,
    SCHEMA,
    SETTINGS,
    VERSIONS,
    StatedCost,
)
from costcore.text.targets import Target, save
from costcore.trace.records import DECLARED
from costcore.trace.run import Run
from costcore.trace.trace import Trace

TOTAL = ("flops", "macs", "mread", "mwrite", "mrw", "mcomm", "n_layers", "n_params")
"""The keys of the total in a file."""


def to_dict(trace: Trace, total: Mapping[str, Any]) -> dict[str, Any]:
    """Return the report in plain JSON types, as ``report.schema.json`` describes them.

    Equal layers and equal costs are written once; calls refer to them by index.

    Raises:
        CostError: if an attribute is of a type that a report file cannot contain.
    """
    run, encoder = trace.run, Encoder()
    layers = encoder.tables["layers"] = UniqueEntries(LAYER.write)
    costs = encoder.tables["costs"] = UniqueEntries(
        lambda cost, encoder: COST.write(StatedCost.of(cost, run.fma_1flop), encoder)
    )
    calls = []
    for record in trace:
        try:
            calls.append(CALL.write(record, encoder))
        except CostError as error:
            raise CostError(f"operator {record.call.layer.op!r}: {error}") from error

    def records(*names: str) -> dict[str, Any]:
        return {name: RECORDS[name].write(run.records[name], encoder) for name in names if run.records.get(name)}

    return {
        "schema": SCHEMA,
        "versions": VERSIONS.write(run, encoder),
        "status": trace.status,
        "settings": SETTINGS.write(run, encoder),
        "total": total_entry(total, encoder),
        "assumptions": ASSUMPTIONS.write(run.assumptions, encoder),
        "notes": [*run.notes, *map(str, run.regrouped)],
        "parameters": PARAMETERS.write(run.parameters, encoder),
        "n_params_model": encoder.dim(run.n_params_model),
        **records("inputs", "buffers", "returned"),
        "modules": MODULES.write(run.modules, encoder),
        "layers": layers.entries,
        "costs": costs.entries,
        "calls": calls,
        **records("memory"),
        "symbols": encoder.symbols,
        **records("module_calls", "dataflow", "nodes", "patterns", "fusion", "rank", "ranges"),
        **_others(run, encoder),
    }


def _others(run: Run, encoder: Encoder) -> dict[str, Any]:
    """Return the records that have no field of their own, such as those of plug-ins."""
    lost = {"regrouped", *RECORDS, *(name for name, record in DECLARED.items() if not record.is_kept)}
    others = {name: value for name, value in run.records.items() if name not in lost}
    return {"records": ATTRIBUTES.write(others, encoder)} if others else {}


def total_entry(total: Mapping[str, Any], encoder: Encoder) -> dict[str, Any]:
    """Return the total in plain JSON types."""
    return {key: encoder.dim(total[key]) for key in TOTAL if key in total}


def to_json(report: Mapping[str, Any], target: Target, indent: int | None) -> str:
    """Return the result of :func:`to_dict` as text, and write it to ``target`` if given."""
    separators = (",", ":") if indent is None else None
    return save(json.dumps(report, indent=indent, separators=separators, allow_nan=False) + "\n", target)
