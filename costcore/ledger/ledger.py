"""The counted calls as entries of a report, and sums over groups of calls."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import cached_property
from math import fsum
from typing import TYPE_CHECKING, Any

from costcore.ir import OPERATION_CLASSES, Cost, Operations
from costcore.messages import unknown
from costcore.numbers.dims import Dim
from costcore.numbers.symbolic import expanded_sum, share
from costcore.trace.call import Call
from costcore.trace.gc_paused import collector_off
from costcore.trace.trace import CallCost, Trace

if TYPE_CHECKING:
    from costcore.ledger.memory_data import MemoryData

SUMS = ("flops", "macs", "mread", "mwrite", "mrw")
"""The costs that are summed over calls."""

SENT = "mcomm"
"""The bytes that one process sends to others: summed too if any call of the run sends some, otherwise in no entry."""

SHARES = ("flops", "mread", "mwrite", "mrw", "seconds")
"""The amounts that entries also state in percent of the total."""

KEYS = ("type", "op", "module", "phase", "dtype", "native")
"""The keys by which calls can be grouped."""


class Ledger:
    """The counted calls of a run: an entry per call, their total, and the sum of any group of calls.

    Attributes:
        trace: the run.
        counted: the calls that have a cost, and that cost, in order of execution.
        entries: the entry of each counted call as :attr:`Report.layer_report` contains it, by name of the call.
        total: the sum of all counted calls.
        sums: the costs that are summed over calls.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        run = trace.run
        self._known: dict[Hashable, Any] = {}
        self.counted = [(call, cost) for call, cost, _, _, _ in trace.records if cost is not None]
        self.entries: dict[str, dict[str, Any]] = {}
        sends = any(cost.mcomm != 0 for _, cost in self.counted)
        self.sums = (*SUMS, SENT) if sends else SUMS
        with collector_off():
            amounts: dict[Any, dict[str, Any]] = {}
            for call, cost, _, _, seconds in trace.records:
                if cost is None:
                    continue
                key = id(call.layer), id(cost), call.times
                if key not in amounts:
                    amounts[key] = _amounts(call, cost, run.fma_1flop)
                    if sends:
                        amounts[key][SENT] = multiplied(cost.mcomm, call.times)
                entry = self.entries[call.name] = _entry(call, cost, amounts[key])
                if seconds is not None:
                    entry["seconds"] = seconds
            memory = None
            if run.memory is not None:
                from costcore.ledger.memory_data import MemoryData

                memory = MemoryData(run.memory, trace.calls)
            if memory is not None:
                _add_memory(self.entries, memory)
        self.total = {"name": "total", "type": "total", **self._sums([call for call, _ in self.counted])}
        if run.n_params_model is not None:
            self.total["n_params_model"] = run.n_params_model
        if run.rank is not None:
            self.total["n_params_rank"] = run.rank.n_params
        if memory is not None:
            self.total |= {"live": memory.end, "live_peak": memory.peak, "saved": memory.saved}
        of_total = {key: shares(each, self.total) for key, each in amounts.items()}
        for (call, cost), entry in zip(self.counted, self.entries.values(), strict=True):
            entry.update(of_total[id(call.layer), id(cost), call.times])
            if "seconds" in entry:
                entry.update(shares({"seconds": entry["seconds"]}, self.total))
        self.total.update(shares(self.total, self.total))

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """The counted calls, in order of execution."""
        return tuple(call for call, _ in self.counted)

    @cached_property
    def position(self) -> Mapping[str, int]:
        """The position of each counted call among them, by its name."""
        return {call.name: i for i, (call, _) in enumerate(self.counted)}

    def once(self, key: Hashable, compute: Callable[[], Any]) -> Any:
        """Return what ``compute`` returns, computed once for each key: several values may come from one analysis."""
        if key not in self._known:
            self._known[key] = compute()
        return self._known[key]

    def n_params(self, parameters: Iterable[int]) -> Dim:
        """Return the elements of these parameters, each of them once."""
        return expanded_sum(self.trace.run.parameters[parameter] for parameter in set(parameters))

    def sum(self, calls: Iterable[Call]) -> dict[str, Any]:
        """Return the number of the calls, their summed costs and their shares of the total; a parameter counts once."""
        sums = self._sums(list(calls))
        return {**sums, **shares(sums, self.total)}

    def groups(self, *keys: str) -> dict[Any, list[Call]]:
        """Return the counted calls, grouped by their values for ``keys``, in order of first call.

        A group is identified by a value, or by a tuple of values if there are several keys.

        Raises:
            TypeError: if there is no key, or if a key is not a string.
            ValueError: if a key is unknown.
        """
        if not keys or not all(isinstance(key, str) for key in keys):
            raise TypeError(f"expected one or several keys to group by, of {', '.join(KEYS)} (got {keys!r})")
        if missing := [key for key in keys if key not in KEYS]:
            raise ValueError(unknown("grouping key", missing, KEYS))
        groups: dict[Any, list[Call]] = {}
        for call, _ in self.counted:
            entry = {**self.entries[call.name], "native": call.native}
            group = entry[keys[0]] if len(keys) == 1 else tuple(entry[key] for key in keys)
            groups.setdefault(group, []).append(call)
        return groups

    def by(self, *keys: str) -> dict[Any, dict[str, Any]]:
        """Return the sums of each group of calls, see :meth:`Report.by`."""
        seen: set[int] = set()
        result = {}
        for group, calls in self.groups(*keys).items():
            read = {parameter for call in calls for parameter in call.parameters}
            n_shared = self.n_params(read & seen)
            seen |= read
            values = dict(zip(keys, (group,) if len(keys) == 1 else group, strict=True))
            result[group] = {**values, **self.sum(calls), "n_shared": n_shared}
        return result

    def _sums(self, calls: list[Call]) -> dict[str, Any]:
        entries = [self.entries[call.name] for call in calls]
        sums = {key: expanded_sum(entry[key] for entry in entries) for key in self.sums}
        sums |= {
            "n_layers": len(calls),
            "n_params": self.n_params(parameter for call in calls for parameter in call.parameters),
        }
        measured = [entry["seconds"] for entry in entries if "seconds" in entry]
        return {**sums, "seconds": fsum(measured)} if measured else sums


def _add_memory(entries: Mapping[str, dict[str, Any]], memory: MemoryData) -> None:
    """Add to every entry the bytes alive after the call, the most while it ran, and those it made that are saved."""
    for (name, live, live_peak), saved in zip(memory.live_by_call(), memory.saved_by_call(), strict=True):
        if name in entries:
            entries[name].update(live=live, live_peak=live_peak, saved=saved)


def _amounts(call: Call, cost: Cost, fma_1flop: bool) -> dict[str, Any]:
    """Return the amounts that are equal for all calls with the same layer, cost and repetition count."""
    operations, times = cost.flops, call.times
    by_class = {name: getattr(operations, name) for name in OPERATION_CLASSES if isinstance(operations, Operations)}
    return {
        "flops": multiplied(flops_of(cost, fma_1flop), times),
        "operations": {name: n for name, amount in by_class.items() if (n := multiplied(amount, times)) != 0},
        "macs": multiplied(cost.macs, times),
        "mread": multiplied(cost.mread, times),
        "mwrite": multiplied(cost.mwrite, times),
        "mrw": multiplied(cost.mread + cost.mwrite, times),
        "n_params": call.layer.n_params,
    }


def multiplied(amount: Dim, times: Dim) -> Dim:
    """Return the product; with 1, which is most frequent, sympy would take as long as with any other number."""
    return amount if type(times) is int and times == 1 else amount * times


def _entry(call: Call, cost: Cost, amounts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry of a counted call, without its duration and its shares of the total."""
    layer = call.layer
    tensors = layer.outputs or tuple(layer.inputs.values())
    return {
        "name": call.name,
        "type": call.type,
        "op": layer.op,
        "module": call.module,
        "phase": call.phase,
        **amounts,
        "operations": dict(amounts["operations"]),
        "dtype": tensors[0].dtype if tensors else "",
        "input_shapes": [tensor.shape for tensor in layer.inputs.values()],
        "output_shapes": [tensor.shape for tensor in layer.outputs],
        "params": dict(cost.params),
        "traceback": call.where,
    }


def nodes_by_call(trace: Trace) -> dict[str, dict[str, list[str]]]:
    """Return the keys of entries that name the nodes of a graph and the values that these produce, by call."""
    return {
        trace.records[i].call.name: {"nodes": list(names), "outputs": list(outputs)}
        for i, (names, outputs) in trace.run.nodes.items()
    }


def flops_of(cost: Cost, fma_1flop: bool) -> Dim:
    """Return the FLOPs of one execution.

    A calculator that returns a number instead of :class:`Operations` decides itself how it counts a fused multiply-add.
    """
    return cost.flops.flops(fma_1flop) if isinstance(cost.flops, Operations) else cost.flops


def ignored(record: CallCost) -> dict[str, Any]:
    """Return the entry of a call without a cost, as :attr:`Report.ignored_layers` contains it."""
    call, layer = record.call, record.call.layer
    return {
        "name": call.name,
        "type": call.type,
        "native": call.native,
        "module": call.module,
        "phase": call.phase,
        "reason": record.reason,
        "traceback": call.where,
        "input_shapes": [tensor.shape for tensor in layer.inputs.values()],
        "output_shapes": [tensor.shape for tensor in layer.outputs],
        "mread": layer.read * call.times,
        "mwrite": layer.written * call.times,
    }


def shares(part: Mapping[str, Any], whole: Mapping[str, Any]) -> dict[str, float | None]:
    """Return the percentages ``part`` has of ``whole``, for the amounts that both have.

    A percentage of zero is 0. The percentage of a symbolic amount is None unless it is the same for all values of the
    symbols.
    """
    ratios = {key: share(part[key], whole[key]) for key in SHARES if key in part and key in whole}
    return {f"{key}%": None if ratio is None else 100 * ratio for key, ratio in ratios.items()}


def memory(call: Call, cost: Cost) -> Dim:
    """Return the size of the outputs of a call in bytes; 0 if it writes nothing, because its outputs are views."""
    return 0 if cost.mwrite == 0 else call.layer.written * call.times
