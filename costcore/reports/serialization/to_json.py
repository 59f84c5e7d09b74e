"""A report in plain JSON types, and as JSON text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from costcore.errors import CostError
from costcore.ir import OPERATION_CLASSES, Cost, Layer, Operations, Tensor
from costcore.ledger.ledger import flops_of, nodes_by_call
from costcore.numbers.dims import is_symbolic
from costcore.reports.serialization.codec import Encoder
from costcore.text.targets import Target, save
from costcore.trace.call import Module, ModuleCall
from costcore.trace.dataflow import Dataflow, Value
from costcore.trace.memory_ledger import MemoryLedger
from costcore.trace.run import FLOPS, Fusion
from costcore.trace.trace import CallCost, Trace

SCHEMA = "costcore.report/1"
"""Name and version of the format that ``costcore/reports/report.schema.json`` describes."""

TOTAL = ("flops", "macs", "mread", "mwrite", "mrw", "mcomm", "n_layers", "n_params")
"""The keys of the total in a file."""

RUN_IDS = ("inputs", "buffers", "returned")
"""The lists of operand ids of a run; empty ones are omitted."""


def to_dict(trace: Trace, total: Mapping[str, Any]) -> dict[str, Any]:
    """Return the report in plain JSON types, as ``report.schema.json`` describes them.

    Equal layers and equal costs are written once; calls refer to them by index.

    Raises:
        CostError: if an attribute is of a type that a report file cannot contain.
    """
    run, encoder = trace.run, Encoder()
    layers, costs = _UniqueEntries(), _UniqueEntries()
    calls = []
    for record in trace:
        entry = _call(record, encoder)
        entry["layer"] = layers.index_of(record.call.layer, lambda layer: _layer(layer, encoder))
        if record.cost is not None:
            to_entry = partial(_cost, op=record.call.layer.op, fma_1flop=run.fma_1flop, encoder=encoder)
            entry["cost"] = costs.index_of(record.cost, to_entry)
        calls.append(entry)
    entries = {
        "schema": SCHEMA,
        "versions": {"costcore": run.version, "convention": run.convention, "frameworks": dict(run.frameworks)},
        "status": trace.status,
        "settings": {
            "fma_1flop": run.fma_1flop,
            "layout": run.layout,
            **({} if run.unit == FLOPS else {"unit": run.unit}),
        },
        "total": total_entry(total, encoder),
        "assumptions": [{"what": a.what, "where": a.where, "line": a.line, "times": a.times} for a in run.assumptions],
        "notes": [*run.notes, *map(str, run.regrouped)],
        "parameters": [{"id": identity, "size": encoder.dim(size)} for identity, size in run.parameters.items()],
        "n_params_model": encoder.dim(run.n_params_model),
        **{key: list(ids) for key in RUN_IDS if (ids := getattr(run, key))},
        "modules": [_module(path, module, encoder) for path, module in run.modules.items()],
        "layers": layers.entries,
        "costs": costs.entries,
        "calls": calls,
        **({} if run.memory is None else {"memory": _memory(run.memory)}),
        "symbols": encoder.symbols,
    }
    if run.module_calls:
        entries["module_calls"] = [_module_call(call, encoder) for call in run.module_calls]
    if run.dataflow is not None:
        entries["dataflow"] = _dataflow(run.dataflow, encoder)
    if run.nodes:
        names = nodes_by_call(trace).values()
        entries["nodes"] = [{"call": i, **each} for i, each in zip(run.nodes, names, strict=True)]
    if run.patterns:
        entries["patterns"] = [{"call": i, "pattern": pattern} for i, pattern in run.patterns.items()]
    if run.fusion is not None:
        entries["fusion"] = _fusion(run.fusion, encoder)
    if run.rank is not None:
        entries["rank"] = {**run.rank._asdict(), "mesh": [list(dimension) for dimension in run.rank.mesh]}
    if run.ranges:
        entries["ranges"] = {name: list(limits) for name, limits in run.ranges.items()}
    return entries


def _fusion(fusion: Fusion, encoder: Encoder) -> dict[str, Any]:
    groups = [list(calls) for calls in fusion.groups]
    return {"level": fusion.level, "groups": groups, "unfused_mrw": encoder.dim(fusion.unfused)}


def total_entry(total: Mapping[str, Any], encoder: Encoder) -> dict[str, Any]:
    """Return the total in plain JSON types."""
    return {key: encoder.dim(total[key]) for key in TOTAL if key in total}


def _memory(ledger: MemoryLedger) -> dict[str, Any]:
    """Return the entry of the memory of a run.

    The device of most blocks is stated once. Empty names, and the end of a block that is never freed, are omitted.
    """
    device = ledger.devices[0] if ledger.devices else ""
    blocks = []
    for block in ledger.blocks:
        entry = {**block._asdict(), "shape": list(block.shape)}
        if block.device == device:
            del entry["device"]
        blocks.append(
            {key: value for key, value in entry.items() if value is not None and (value != "" or key == "device")}
        )
    return {
        "device": device,
        "events": list(ledger.calls),
        "blocks": blocks,
        "notes": list(ledger.notes),
        "approximations": list(ledger.approximations),
    }


class _UniqueEntries:
    """A list of distinct entries, to which calls refer by index.

    Attributes:
        entries: the distinct entries, in order of first use.
    """

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []
        self._by_identity: dict[int, int] = {}
        self._by_text: dict[str, int] = {}

    def index_of(self, item: object, to_entry: Callable[[Any], dict[str, Any]]) -> int:
        """Return the index of the entry of a layer or cost, which must outlive this object.

        Args:
            item: the layer or cost.
            to_entry: returns its entry; called once per object.
        """
        if id(item) not in self._by_identity:
            entry = to_entry(item)
            index = self._by_text.setdefault(json.dumps(entry), len(self.entries))
            if index == len(self.entries):
                self.entries.append(entry)
            self._by_identity[id(item)] = index
        return self._by_identity[id(item)]


def _module(path: str, module: Module, encoder: Encoder) -> dict[str, Any]:
    entry = {
        "path": path,
        "type": module.type,
        "parameters": list(module.parameters),
        "frozen": list(module.frozen),
        "buffers": encoder.dim(module.buffers),
        "same_as": module.same_as,
    }
    own = {name: encoder.dim(size) for name, size in module.own}
    optional = {"bases": list(module.bases), "own": own, "kernel_is_int": module.kernel_is_int}
    return entry | {key: value for key, value in optional.items() if value}


def _module_call(call: ModuleCall, encoder: Encoder) -> dict[str, Any]:
    shapes = {"inputs": call.inputs, "outputs": call.outputs}
    entry: dict[str, Any] = {"module": call.module}
    if call.parent:
        entry["parent"] = call.parent
    return entry | {key: [[*map(encoder.dim, shape)] for shape in value] for key, value in shapes.items() if value}


def _dataflow(flow: Dataflow, encoder: Encoder) -> dict[str, Any]:
    """Return the values that a graph states beside those of calls; empty lists are omitted."""

    def values(found: Iterable[Value]) -> list[dict[str, Any]]:
        return [{"id": v.id, "nbytes": encoder.dim(v.nbytes)} | ({"name": v.name} if v.name else {}) for v in found]

    steps = []
    for step in flow.steps:
        lists = {"reads": list(step.reads), "makes": values(step.makes)}
        pairs = {key: [*map(list, getattr(step, key))] for key in ("takes", "overwrites", "views")}
        content = {**lists, **pairs, "name": step.name}
        steps.append({"at": step.at} | {key: value for key, value in content.items() if value})
    entry = {
        "inputs": values(flow.inputs),
        "stored": values(flow.stored),
        "steps": steps,
        "views": [*map(list, flow.views)],
        "spans": [*map(list, flow.spans)],
        "unknown": list(flow.unknown),
    }
    return {key: value for key, value in entry.items() if value}


def _layer(layer: Layer, encoder: Encoder) -> dict[str, Any]:
    return {
        "op": layer.op,
        "inputs": [{"name": name, **_tensor(tensor, encoder)} for name, tensor in layer.inputs.items()],
        "outputs": [_tensor(tensor, encoder) for tensor in layer.outputs],
        "attrs": _attributes(layer.attrs, layer.op, encoder),
    }


def _tensor(tensor: Tensor, encoder: Encoder) -> dict[str, Any]:
    entry = {"shape": [encoder.dim(size) for size in tensor.shape], "dtype": tensor.dtype, "role": tensor.role}
    return entry if tensor.stored is None else {**entry, "stored": encoder.dim(tensor.stored)}


def _cost(cost: Cost, op: str, fma_1flop: bool, encoder: Encoder) -> dict[str, Any]:
    entry: dict[str, Any] = {"flops": encoder.dim(flops_of(cost, fma_1flop))}
    if isinstance(cost.flops, Operations):
        entry["operations"] = {k: encoder.dim(n) for k in OPERATION_CLASSES if (n := getattr(cost.flops, k)) != 0}
    bytes_and_macs = {key: encoder.dim(getattr(cost, key)) for key in ("mread", "mwrite", "macs")}
    if cost.mcomm != 0:
        bytes_and_macs["mcomm"] = encoder.dim(cost.mcomm)
    return {**entry, **bytes_and_macs, "params": _attributes(cost.params, op, encoder)}


def _attributes(attributes: Mapping[str, Any], op: str, encoder: Encoder) -> dict[str, Any]:
    """Return the attributes of an operator by name.

    Raises:
        CostError: if a name is not a string, or a value is of a type that a report file cannot contain.
    """
    for name in attributes:
        if not isinstance(name, str):
            raise CostError(f"operator {op!r}: names of attributes must be strings (got {name!r})")
    try:
        return {name: encoder.value(value) for name, value in attributes.items()}
    except CostError as error:
        raise CostError(f"operator {op!r}: {error}") from error


TEXTS = ("native", "overload", "function", "module", "region", "where")
"""The strings of a call that may be empty."""

LISTS = ("inputs", "outputs", "storages", "parameters", "saved", "strided", "given")
"""The lists of a call: ids, positions and names."""


def _call(record: CallCost, encoder: Encoder) -> dict[str, Any]:
    """Return the entry of a call; empty values, a repetition count of 1 and the phase ``forward`` are omitted."""
    call = record.call
    phase = "" if call.phase == "forward" else call.phase
    texts = {key: getattr(call, key) for key in TEXTS}
    entry: dict[str, Any] = {"name": call.name, "type": call.type}
    entry |= {key: text for key, text in {**texts, "phase": phase, "reason": record.reason}.items() if text}
    entry |= {key: list(items) for key in LISTS if (items := getattr(call, key))}
    if call.module_call:
        entry["module_call"] = call.module_call
    if is_symbolic(call.times) or call.times != 1:
        entry["times"] = encoder.dim(call.times)
    return entry if record.seconds is None else {**entry, "seconds": record.seconds}


def to_json(report: Mapping[str, Any], target: Target, indent: int | None) -> str:
    """Return the result of :func:`to_dict` as text, and write it to ``target`` if given."""
    separators = (",", ":") if indent is None else None
    return save(json.dumps(report, indent=indent, separators=separators, allow_nan=False) + "\n", target)
