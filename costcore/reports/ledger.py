"""Counted calls as entries of a report, and sums over any of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import fsum
from typing import Any

from costcore.dims import Dim
from costcore.ir import KINDS, Cost, Operations
from costcore.symbolic import added, share
from costcore.trace.call import Call
from costcore.trace.gc_paused import collector_off
from costcore.trace.trace import CallCost, Trace

SUMS = ("flops", "macs", "mread", "mwrite", "mrw")
SHARES = ("flops", "mread", "mwrite", "mrw", "seconds")
KEYS = ("type", "op", "module", "phase", "dtype", "native")
"""What calls can be grouped by."""


class Ledger:
    """The counted calls of a run: an entry for each, the total, and the sum of any group of them.

    Attributes:
        counted: the calls with their costs, in call order.
        entries: what users see of each, by name.
        total: the sum of all of them.
    """

    def __init__(self, trace: Trace) -> None:
        run = trace.run
        counted = [(record, record.cost) for record in trace if record.cost is not None]
        self._parameters = run.parameters
        self.counted = [(record.call, cost) for record, cost in counted]
        self.entries: dict[str, dict[str, Any]] = {}
        with collector_off():
            amounts: dict[Any, dict[str, Any]] = {}
            for record, cost in counted:
                key = id(record.call.layer), id(cost), record.call.times
                if key not in amounts:
                    amounts[key] = _amounts(record.call, cost, run.fma_1flop)
                self.entries[record.call.name] = _entry(record, cost, amounts[key])
        self.total = {"name": "total", "type": "total", **self._sums([call for call, _ in self.counted])}
        if run.n_params_model is not None:
            self.total["n_params_model"] = run.n_params_model
        for entry in (*self.entries.values(), self.total):
            entry.update(shares(entry, self.total))

    def sum(self, calls: Iterable[Call]) -> dict[str, Any]:
        """Number, costs, distinct parameters (each once) and shares of the total of those calls."""
        sums = self._sums(list(calls))
        return {**sums, **shares(sums, self.total)}

    def groups(self, *keys: str) -> dict[Any, list[Call]]:
        """The calls by what they have under ``keys``, a value or a tuple of values, in order of first call.

        Raises:
            TypeError: for no key, or one that is no string.
            ValueError: for an unknown key; names the known.
        """
        if not keys or not all(isinstance(key, str) for key in keys):
            raise TypeError(f"expected names of what to group by, of {', '.join(KEYS)}, got {keys!r}")
        if unknown := [key for key in keys if key not in KEYS]:
            raise ValueError(f"cannot group by {', '.join(map(repr, unknown))}; known are {', '.join(KEYS)}")
        found: dict[Any, list[Call]] = {}
        for call, _ in self.counted:
            entry = {**self.entries[call.name], "native": call.native}
            key = entry[keys[0]] if len(keys) == 1 else tuple(entry[key] for key in keys)
            found.setdefault(key, []).append(call)
        return found

    def by(self, *keys: str) -> dict[Any, dict[str, Any]]:
        """What :meth:`Report.by` says."""
        seen: set[int] = set()
        result = {}
        for key, calls in self.groups(*keys).items():
            read = {identity for call in calls for identity in call.parameters}
            shared = sum(self._parameters[identity] for identity in read & seen)
            seen |= read
            values = dict(zip(keys, (key,) if len(keys) == 1 else key, strict=True))
            result[key] = {**values, **self.sum(calls), "n_shared": shared}
        return result

    def _sums(self, calls: list[Call]) -> dict[str, Any]:
        entries = [self.entries[call.name] for call in calls]
        distinct = {identity for call in calls for identity in call.parameters}
        sums = {key: added(entry[key] for entry in entries) for key in SUMS}
        sums |= {"n_layers": len(calls), "n_params": added(self._parameters[identity] for identity in distinct)}
        measured = [entry["seconds"] for entry in entries if "seconds" in entry]
        return {**sums, "seconds": fsum(measured)} if measured else sums


def _amounts(call: Call, cost: Cost, fma_1flop: bool) -> dict[str, Any]:
    """What all calls of one layer, as often, have in common."""
    operations, times = cost.flops, call.times
    by_kind = isinstance(operations, Operations)
    return {
        "flops": flops_of(cost, fma_1flop) * times,
        "operations": {k: n for k in KINDS if (n := getattr(operations, k) * times) != 0} if by_kind else {},
        "macs": cost.macs * times,
        "mread": cost.mread * times,
        "mwrite": cost.mwrite * times,
        "mrw": (cost.mread + cost.mwrite) * times,
        "n_params": call.layer.n_params,
    }


def _entry(item: CallCost, cost: Cost, amounts: Mapping[str, Any]) -> dict[str, Any]:
    """One counted call as users see it, without its shares."""
    call, layer = item.call, item.call.layer
    typed = layer.outputs or tuple(layer.inputs.values())
    entry = {
        "name": call.name,
        "type": call.type,
        "op": layer.op,
        "module": call.module,
        "phase": call.phase,
        **amounts,
        "operations": dict(amounts["operations"]),
        "dtype": typed[0].dtype if typed else "",
        "input_shapes": [tensor.shape for tensor in layer.inputs.values()],
        "output_shapes": [tensor.shape for tensor in layer.outputs],
        "params": dict(cost.params),
        "traceback": call.where,
    }
    return entry if item.seconds is None else {**entry, "seconds": item.seconds}


def flops_of(cost: Cost, fma_1flop: bool) -> Dim:
    """FLOPs of one execution; those of a calculator that does not tell kinds are what it says."""
    return cost.flops.flops(fma_1flop) if isinstance(cost.flops, Operations) else cost.flops


def ignored(item: CallCost) -> dict[str, Any]:
    """A call of an operator without a calculator, as users see it."""
    call, layer = item.call, item.call.layer
    return {
        "name": call.name,
        "type": call.type,
        "native": call.native,
        "module": call.module,
        "phase": call.phase,
        "reason": item.reason,
        "traceback": call.where,
        "input_shapes": [tensor.shape for tensor in layer.inputs.values()],
        "output_shapes": [tensor.shape for tensor in layer.outputs],
        "mread": layer.read * call.times,
        "mwrite": layer.written * call.times,
    }


def shares(part: Mapping[str, Any], whole: Mapping[str, Any]) -> dict[str, float | None]:
    """Percentages; 0 of a total of 0, None where symbols leave it open. Measured time only where there is any."""
    found = {key: share(part[key], whole[key]) for key in SHARES if key in part and key in whole}
    return {f"{key}%": None if ratio is None else 100 * ratio for key, ratio in found.items()}


def memory(call: Call, cost: Cost) -> Dim:
    """Bytes of the outputs of a call; 0 where it writes nothing, because they are views of what was there."""
    return 0 if cost.mwrite == 0 else call.layer.written * call.times
