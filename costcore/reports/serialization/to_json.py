"""Reports as files: JSON that gives an equal report, and text."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from costcore.dims import is_symbolic
from costcore.errors import CostError
from costcore.ir import KINDS, Cost, Layer, Operations, Tensor
from costcore.reports.ledger import flops_of
from costcore.reports.serialization.codec import Encoder
from costcore.reports.serialization.targets import Target, save
from costcore.trace.trace import CallCost, Trace

SCHEMA = "costcore.report/1"
"""The form of the files; ``report.schema.json`` beside this module describes it."""

TOTAL = ("flops", "macs", "mread", "mwrite", "mrw", "n_layers", "n_params")


def to_dict(trace: Trace, total: Mapping[str, Any]) -> dict[str, Any]:
    """The report in plain JSON types, see ``report.schema.json``. Layers and costs stand once, calls refer to them.

    Raises:
        CostError: for a setting of a type that JSON cannot hold; names it.
    """
    run, code = trace.run, Encoder()
    layers, costs = _Pool(), _Pool()
    calls = []
    for item in trace:
        entry = _call(item, code)
        entry["layer"] = layers.place(item.call.layer, lambda layer: _layer(layer, code))
        if item.cost is not None:
            entry["cost"] = costs.place(
                item.cost, partial(_cost, op=item.call.layer.op, fma_1flop=run.fma_1flop, code=code)
            )
        calls.append(entry)
    modules = [
        {
            "path": path,
            "type": module.type,
            "parameters": list(module.parameters),
            "frozen": list(module.frozen),
            "buffers": code.dim(module.buffers),
            "same_as": module.same_as,
        }
        for path, module in run.modules.items()
    ]
    return {
        "schema": SCHEMA,
        "versions": {"costcore": run.version, "convention": run.convention, "frameworks": dict(run.frameworks)},
        "status": "complete" if trace.is_complete else "partial",
        "settings": {"fma_1flop": run.fma_1flop, "layout": run.layout},
        "total": {key: code.dim(total[key]) for key in TOTAL if key in total},
        "assumptions": [{"what": what, "where": where} for what, where in run.assumptions],
        "notes": [*run.notes, *map(str, run.regrouped)],
        "parameters": [{"id": identity, "size": code.dim(size)} for identity, size in run.parameters.items()],
        "n_params_model": code.dim(run.n_params_model),
        "modules": modules,
        "layers": layers.entries,
        "costs": costs.entries,
        "calls": calls,
        "symbols": code.symbols,
    }


class _Pool:
    """Things that are written once and referred to by their place."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []
        self._by_identity: dict[int, int] = {}
        self._by_text: dict[str, int] = {}

    def place(self, thing: object, write: Callable[[Any], dict[str, Any]]) -> int:
        """The place of ``thing``, which must live as long as the pool."""
        if id(thing) not in self._by_identity:
            entry = write(thing)
            place = self._by_text.setdefault(json.dumps(entry), len(self.entries))
            if place == len(self.entries):
                self.entries.append(entry)
            self._by_identity[id(thing)] = place
        return self._by_identity[id(thing)]


def _layer(layer: Layer, code: Encoder) -> dict[str, Any]:
    return {
        "op": layer.op,
        "inputs": [{"name": name, **_tensor(tensor, code)} for name, tensor in layer.inputs.items()],
        "outputs": [_tensor(tensor, code) for tensor in layer.outputs],
        "attrs": _settings(layer.attrs, layer.op, code),
    }


def _tensor(tensor: Tensor, code: Encoder) -> dict[str, Any]:
    return {"shape": [code.dim(size) for size in tensor.shape], "dtype": tensor.dtype, "role": tensor.role}


def _cost(cost: Cost, op: str, fma_1flop: bool, code: Encoder) -> dict[str, Any]:
    entry: dict[str, Any] = {"flops": code.dim(flops_of(cost, fma_1flop))}
    if isinstance(cost.flops, Operations):
        entry["operations"] = {k: code.dim(n) for k in KINDS if (n := getattr(cost.flops, k)) != 0}
    bytes_and_macs = {key: code.dim(getattr(cost, key)) for key in ("mread", "mwrite", "macs")}
    return {**entry, **bytes_and_macs, "params": _settings(cost.params, op, code)}


def _settings(settings: Mapping[str, Any], op: str, code: Encoder) -> dict[str, Any]:
    """Settings by name.

    Raises:
        CostError: for a name that is no string, or a value JSON cannot hold.
    """
    for name in settings:
        if not isinstance(name, str):
            raise CostError(f"operator {op!r} has a setting named {name!r}; a report file takes names that are strings")
    try:
        return {name: code.value(value) for name, value in settings.items()}
    except CostError as error:
        raise CostError(f"operator {op!r}: {error}") from error


def _call(item: CallCost, code: Encoder) -> dict[str, Any]:
    """A call; what is empty, 1 time, or ``forward`` is left out."""
    call = item.call
    ids = {key: list(getattr(call, key)) for key in ("inputs", "outputs", "storages", "parameters", "saved")}
    texts = {key: getattr(call, key) for key in ("native", "module", "region", "where")}
    optional = {**texts, "phase": "" if call.phase == "forward" else call.phase, "reason": item.reason, **ids}
    entry: dict[str, Any] = {"name": call.name, "type": call.type}
    entry |= {key: value for key, value in optional.items() if value}
    if is_symbolic(call.times) or call.times != 1:
        entry["times"] = code.dim(call.times)
    return entry if item.seconds is None else {**entry, "seconds": item.seconds}


def to_json(report: Mapping[str, Any], target: Target, indent: int | None) -> str:
    """What :func:`to_dict` made as text, written to ``target`` where one is given. Equal reports are equal bytes."""
    separators = (",", ":") if indent is None else None
    return save(json.dumps(report, indent=indent, separators=separators, allow_nan=False) + "\n", target)
