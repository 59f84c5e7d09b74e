"""The counted calls as entries of a report, sums over groups of calls, and remarks on uncounted ones.

Also the memory of a run as data (peak, blocks alive at it, timeline), and arithmetic intensity.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from math import fsum
from typing import Any, ClassVar, NamedTuple

from costcore.errors import unknown
from costcore.ir import OPERATION_CLASSES, Cost, Operations
from costcore.numbers import Dim, as_text, expanded_sum, is_symbolic, share
from costcore.text.output import escaped, printable
from costcore.trace.call import PHASES, Call, Uncounted, assumptions_as_text
from costcore.trace.interrupts import collector_off
from costcore.trace.run import FLOPS, KINDS, Block, MemoryLedger
from costcore.trace.trace import CallCost, Trace

SUMS = ("flops", "macs", "mread", "mwrite", "mrw")
"""The costs that are summed over calls."""

SENT = "mcomm"
"""The bytes that a process sends to others; only in entries of a run with such calls."""

SHARES = ("flops", "mread", "mwrite", "mrw", "seconds")
"""The amounts with percentages of the total."""

KEYS = ("type", "op", "module", "phase", "dtype", "native")
"""The keys by which calls can be grouped."""


class Ledger:
    """The counted calls of a run: an entry per call, their total, and the sum of any group of calls.

    Attributes:
        trace: the run.
        counted: each call that has a cost, with the cost, in order of execution.
        entries: the entry of each counted call as :attr:`Report.layer_report` contains it, by name of the call.
        total: the sum of all counted calls.
        sums: the costs that are summed over calls.
    """

    counted: list[tuple[Call, Cost]]
    sums: tuple[str, str, str, str, str, str] | tuple[str, str, str, str, str]
    total: dict[str, Any]

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
                # By identity: equal layers and costs are shared objects, and hashing expressions is slow.
                key = id(call.layer), id(cost), call.times
                if key not in amounts:
                    amounts[key] = _amounts(call, cost, run.fma_1flop)
                    if sends:
                        amounts[key][SENT] = multiplied(cost.mcomm, call.times)
                entry = self.entries[call.name] = _entry(call, cost, amounts[key])
                if seconds is not None:
                    entry["seconds"] = seconds
            memory = None if run.memory is None else MemoryData(run.memory, trace.calls)
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
        """The position of each counted call in :attr:`calls`, by name."""
        return {call.name: i for i, (call, _) in enumerate(self.counted)}

    def cached(self, key: Hashable, compute: Callable[[], Any]) -> Any:
        """Return the cached result of ``compute`` for a key: several values may come from one analysis."""
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
    for (name, live, live_peak), saved in zip(memory.live_by_call(), memory.saved_by_call(), strict=True):
        if name in entries:
            entries[name].update(live=live, live_peak=live_peak, saved=saved)


def _amounts(call: Call, cost: Cost, fma_1flop: bool) -> dict[str, Any]:
    # Equal for all calls with the same layer, cost and repetition count: computed once for them.
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
    """Return the product. The frequent case of one execution is fast, because sympy would multiply by 1."""
    return amount if type(times) is int and times == 1 else amount * times


def _entry(call: Call, cost: Cost, amounts: Mapping[str, Any]) -> dict[str, Any]:
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
    """Return for each call, by name, its ``nodes`` (names of graph nodes) and ``outputs`` (names of their outputs)."""
    return {
        trace.records[i].call.name: {"nodes": list(names), "outputs": list(outputs)}
        for i, (names, outputs) in trace.run.nodes.items()
    }


def flops_of(cost: Cost, fma_1flop: bool) -> Dim:
    """Return the FLOPs of one execution.

    A calculator that returns a number instead of :class:`Operations` decides itself how to count a fused multiply-add.
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


# Memory of a run as data.


class MemoryData:
    """The memory of one run; :class:`costcore.analyses.memory.live_memory.Memory` adds tables and the allocator.

    Args:
        ledger: every block of the run.
        calls: the calls of the run.
    """

    def __init__(self, ledger: MemoryLedger, calls: Sequence[Call]) -> None:
        self.ledger = ledger
        self._calls = calls

    def __repr__(self) -> str:
        return f"<Memory: peak {self.peak} bytes at {self.at or 'the start'}, base {self.base} bytes>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MemoryData):
            return NotImplemented
        return self.ledger == other.ledger and self._calls == other._calls

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    @property
    def peak(self) -> int:
        """The maximum bytes alive at once."""
        return self._live[self._event]

    @property
    def base(self) -> int:
        """The bytes alive before the run: parameters, buffers, inputs, and optimizer state."""
        return self._live[0]

    @property
    def end(self) -> int:
        """The bytes alive at the end of the run."""
        return self._live[-1]

    @property
    def at(self) -> str:
        """The name of the call during which the peak is reached; empty if it is before the first or after the last."""
        call = self._call_of(self._event)
        return self._calls[call].name if 0 <= call < len(self._calls) else ""

    @property
    def where(self) -> str:
        """Where the peak is, as a phrase: the call with its phase and module, or before or after all calls."""
        call = self._call_of(self._event)
        if not 0 <= call < len(self._calls):
            return "before the first call" if call < 0 else "after the last call"
        found = self._calls[call]
        return f"at {found.name} ({', '.join(filter(None, (found.phase, found.module)))})"

    @property
    def by_kind(self) -> dict[str, int]:
        """The bytes alive at the peak by kind; see :data:`~costcore.trace.run.KINDS`."""
        sums = dict.fromkeys(KINDS, 0)
        for block in self._alive:
            sums[block.kind] += block.nbytes
        return {kind: nbytes for kind, nbytes in sums.items() if nbytes}

    @property
    def by_device(self) -> dict[str, int]:
        """The peak bytes of each device, the largest first."""
        peaks = {device: max(self.ledger.on(device).live()) for device in self.ledger.devices}
        return dict(sorted(peaks.items(), key=lambda item: -item[1]))

    def by_module(self, depth: int | None = None) -> dict[str, int]:
        """Return the bytes alive at the peak by the path of the module that made or owns them.

        Args:
            depth: the maximum number of names in a path; default: all.

        Raises:
            TypeError, ValueError: if it is not a number from 0.
        """
        check_depth(depth)
        sums: dict[str, int] = {}
        for block in self._alive:
            names = self._module_of(block).split(".")
            path = ".".join(names if depth is None else names[:depth])
            sums[path] = sums.get(path, 0) + block.nbytes
        return dict(sorted(sums.items(), key=lambda item: -item[1]))

    def blocks(self, top: int | None = None) -> list[dict[str, Any]]:
        """Return the blocks alive at the peak, the largest first.

        Each is a dict with ``nbytes``, ``kind``, ``name`` (of a parameter, buffer or input), ``module``, ``call`` (the
        name of the call that made it) and ``phase`` (of that call), ``shape``, ``dtype``, ``device``, ``born`` and
        ``dies`` (names of the calls that ran when it was allocated and freed; empty for the start and the end of the
        run).

        Args:
            top: the maximum number of blocks; default: all.

        Raises:
            TypeError, ValueError: if it is not a number from 1.
        """
        check_top(top)
        ordered = sorted(self._alive, key=lambda block: (-block.nbytes, block.born, block.id))
        return [self._entry(block) for block in ordered[:top]]

    @property
    def timeline(self) -> list[tuple[int, int, dict[str, int]]]:
        """For every call its index, the maximum bytes alive while it ran, and these by kind."""
        highest = self.highest_events
        by_kind = {kind: self.ledger.live(kind) for kind in KINDS}
        used = {kind: live for kind, live in by_kind.items() if any(live)}
        return [
            (i, self._live[event], {kind: live[event] for kind, live in used.items() if live[event]})
            for i, event in enumerate(highest)
        ]

    @property
    def phases(self) -> dict[str, int]:
        """The maximum bytes alive in each phase."""
        found: dict[str, int] = {}
        for call, event in zip(self._calls, self.highest_events, strict=True):
            found[call.phase] = max(found.get(call.phase, 0), self._live[event])
        return {phase: found[phase] for phase in PHASES if phase in found}

    @property
    def saved(self) -> int:
        """The bytes that autograd keeps for the backward pass when the forward pass ends."""
        return max(self.ledger.live("saved"))

    @property
    def notes(self) -> list[str]:
        """Remarks on the figures, and on estimated parts."""
        return [*self.ledger.notes, *(f"approximate: {text}" for text in self.ledger.approximations)]

    @property
    def is_exact(self) -> bool:
        """Whether every block was observed; otherwise :attr:`notes` lists the estimated parts."""
        return not self.ledger.approximations

    def live_by_call(self) -> list[tuple[str, int, int]]:
        """Return for every call its name, the bytes alive after it, and the maximum while it ran."""
        pairs = zip(self._calls, self.highest_events, strict=True)
        after = [self._live[bisect_right(self.ledger.calls, i)] for i in range(len(self._calls))]
        return [(call.name, after[i], self._live[event]) for i, (call, event) in enumerate(pairs)]

    def left_behind(self, calls: Sequence[int]) -> int:
        """Return the bytes that calls of the forward pass made and that are alive after the last of these calls.

        Args:
            calls: indices of calls; others than of the forward pass are ignored.
        """
        forward = {call for call in calls if self._calls[call].phase == "forward"}
        if not forward:
            return 0
        end = bisect_right(self.ledger.calls, max(forward))
        made = (block for call in forward for block in self._blocks_by_call.get(call, ()))
        return sum(b.nbytes for b in made if b.born <= end and (b.died is None or b.died > end))

    def saved_by_call(self) -> list[int]:
        """Return for every call the bytes that it made and that autograd keeps."""
        sums = [0] * len(self._calls)
        for block in self.ledger.blocks:
            if block.kind == "saved" and 0 <= block.call < len(sums):
                sums[block.call] += block.nbytes
        return sums

    @cached_property
    def _live(self) -> list[int]:
        return self.ledger.live()

    @cached_property
    def _event(self) -> int:
        return self._live.index(max(self._live))

    @cached_property
    def _alive(self) -> list[Block]:
        return self.ledger.alive(self._event)

    @cached_property
    def _blocks_by_call(self) -> dict[int, list[Block]]:
        found: dict[int, list[Block]] = {}
        for block in self.ledger.blocks:
            found.setdefault(block.call, []).append(block)
        return found

    @cached_property
    def highest_events(self) -> list[int]:
        """The event of each call after which the most bytes are alive; see :meth:`MemoryLedger.live`."""
        calls, live = self.ledger.calls, self._live
        highest = []
        at = 0
        for call in range(len(self._calls)):
            # A call without an event keeps the state before it.
            best = at
            if at < len(calls) and calls[at] == call:
                best = at + 1
            while at < len(calls) and calls[at] <= call:
                at += 1
                if live[at] > live[best]:
                    best = at
            highest.append(best)
        return highest

    def _call_of(self, event: int) -> int:
        return self.ledger.calls[event - 1] if event else -1

    def _name_of(self, call: int) -> str:
        return self._calls[call].name if 0 <= call < len(self._calls) else ""

    def _module_of(self, block: Block) -> str:
        if block.kind in ("parameter", "buffer", "gradient", "optimizer") and block.name:
            return block.name.rpartition(".")[0]
        return self._calls[block.call].module if 0 <= block.call < len(self._calls) else ""

    def _entry(self, block: Block) -> dict[str, Any]:
        return {
            "nbytes": block.nbytes,
            "kind": block.kind,
            "name": block.name,
            "module": self._module_of(block),
            "call": self._name_of(block.call),
            "phase": self._calls[block.call].phase if 0 <= block.call < len(self._calls) else "",
            "shape": block.shape,
            "dtype": block.dtype,
            "device": block.device,
            "born": self._name_of(self._call_of(block.born)),
            "dies": "" if block.died is None else self._name_of(self._call_of(block.died)),
        }


# Arithmetic intensity: FLOPs per byte read and written.
#
# A multiply-add is two FLOPs here even if a report counts one, because peaks of devices count two, and intensities are
# compared with them in a roofline. Reports under the convention of another tool keep the numbers of that tool.


MULTIPLY_ADD = "a multiply-add is two FLOPs"
"""The remark on every axis and figure of intensities."""


def intensity(flops: Dim, nbytes: Dim) -> Fraction | None:
    """Return operations per byte; None without bytes, and if an amount is symbolic."""
    return None if is_symbolic(flops) or is_symbolic(nbytes) or not nbytes else Fraction(int(flops), int(nbytes))


def peak_flops(call: Call, cost: Cost) -> Dim:
    """Return the FLOPs of all executions of a call as peaks count them: a multiply-add is two."""
    return multiplied(flops_of(cost, False), call.times)


def total_peak_flops(ledger: Ledger) -> Dim:
    """Return the sum over all counted calls."""
    return expanded_sum(peak_flops(call, cost) for call, cost in ledger.counted)


def multiply_add(unit: str) -> str:
    """Return :data:`MULTIPLY_ADD` in parentheses; empty for another convention."""
    return f" ({MULTIPLY_ADD})" if unit == FLOPS else ""


# Checks of the arguments ``top`` and ``depth``.


def check_top(top: object) -> int | None:
    """Check that ``top`` is None or a number of rows, and return it.

    Raises:
        TypeError: if it is not None and not an integer.
        ValueError: if it is less than 1.
    """
    if top is None:
        return None
    if not isinstance(top, int) or isinstance(top, bool):
        raise TypeError(f"top must be a number of rows, or None for all (got {top!r})")
    if top < 1:
        raise ValueError(f"top must be at least 1 (got {top})")
    return top


def check_depth(depth: object) -> None:
    """Check that ``depth`` is None or a number of levels.

    Raises:
        TypeError: if it is not None and not an integer.
        ValueError: if it is negative.
    """
    if depth is not None and (not isinstance(depth, int) or isinstance(depth, bool)):
        raise TypeError(f"depth must be a number of levels, or None for all (got {depth!r})")
    if depth is not None and depth < 0:
        raise ValueError(f"depth must be at least 0, which shows the model only (got {depth})")


# Uncounted operators, modes and assumptions in words.


MAX_LINES = 12
"""The maximum number of remarks of one kind; a further line counts the omitted ones."""

MAX_NAMES = 5
"""The maximum number of operators that the line on partial reports names."""

MODES_WITH_REMARKS = ("md", "table", "color")
"""The modes with remarks below a table; other modes are for programs."""

LABELS: Mapping[Uncounted, str] = {
    Uncounted.NO_CALCULATOR: "unsupported",
    Uncounted.NO_SHAPES: "without shapes",
    Uncounted.CALCULATOR_FAILED: "calculator failed",
}
"""Reasons for uncounted calls in remarks."""

IN_OTHER_THREADS = "calls in other threads"
"""The text for unrecorded calls in other threads; their number is unknown."""

TRAIN, EVALUATION = "train", "evaluation"
"""The modes of a model."""

COSTS_MORE = f"{TRAIN} mode, in which batch norms and dropouts cost more"
"""The remark on an inference in train mode."""

COSTS_LESS = f"{EVALUATION} mode, in which batch norms and dropouts cost less than in train mode"
"""The remark on a training step in evaluation mode."""

_FRAME = r'File "(?P<file>.+?)", line (?P<line>\d+), in (?P<function>.+)'


class UncountedOperator(NamedTuple):
    """An uncounted operator.

    Attributes:
        native: the framework's own operator name.
        uncounted: why its cost could not be computed.
        calls: number of its calls.
        mread, mwrite: size of all their inputs and outputs in bytes.
        module: path of the module of the first call.
        where: line of the user's code with the first call; empty if it was not recorded.
    """

    native: str
    uncounted: Uncounted
    calls: int
    mread: Dim
    mwrite: Dim
    module: str
    where: str

    def __str__(self) -> str:
        if self.uncounted is Uncounted.OTHER_THREADS:
            return IN_OTHER_THREADS
        plural = "s" * (self.calls != 1)
        locations = [f"module {self.module!r}" if self.module else "", self.where]
        location = f"; first in {', '.join(filter(None, locations))}" if any(locations) else ""
        read, written = (f"{size:,}" if isinstance(size, int) else as_text(size) for size in (self.mread, self.mwrite))
        traffic = "" if self.mread == self.mwrite == 0 else f", reads {read} B, writes {written} B"
        return f"{self.native}: {self.calls:,} call{plural}{traffic}{location}"


def uncounted_operators(trace: Trace) -> list[UncountedOperator]:
    """Return every operator without a cost, once for each reason, in order of first call."""
    found: dict[tuple[str, Uncounted], UncountedOperator] = {}
    for call, _, uncounted, *_ in trace:
        if uncounted is not None:
            name = call.native or call.type
            new = UncountedOperator(name, uncounted, 0, 0, 0, call.module, call_site(call.where))
            before = found.get((name, uncounted), new)
            read, written = call.layer.read * call.times, call.layer.written * call.times
            found[name, uncounted] = before._replace(
                calls=before.calls + 1, mread=before.mread + read, mwrite=before.mwrite + written
            )
    return list(found.values())


def not_counted(trace: Trace) -> str:
    """Return number, reasons and operators of uncounted calls in words; empty if every call is counted.

    For example ``2 calls of 1 unsupported operator (Wave) and 3 calls without known shapes (Relu)``.
    """
    operators = uncounted_operators(trace)
    by_reason = {
        uncounted: [each for each in operators if each.uncounted is uncounted]
        for uncounted in (*LABELS, Uncounted.OTHER_THREADS)
    }
    clauses = [_clause(uncounted, found) for uncounted, found in by_reason.items() if found]
    return " and ".join(filter(None, [", ".join(clauses[:-1]), *clauses[-1:]]))


def _clause(uncounted: Uncounted, operators: Sequence[UncountedOperator]) -> str:
    if uncounted is Uncounted.OTHER_THREADS:
        return IN_OTHER_THREADS
    n_calls, n_operators = sum(each.calls for each in operators), len(operators)
    calls = f"{n_calls:,} call{'s' * (n_calls > 1)}"
    if uncounted is Uncounted.NO_SHAPES:
        reason = "without known shapes"
    elif uncounted is Uncounted.CALCULATOR_FAILED:
        reason = "whose calculator failed"
    else:
        reason = f"of {n_operators:,} unsupported operator{'s' * (n_operators > 1)}"
    return f"{calls} {reason} ({_names(operators)})"


def _names(operators: Sequence[UncountedOperator]) -> str:
    names = [*dict.fromkeys(each.native.rpartition("::")[2] for each in operators)]
    further = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return f"{', '.join(names[:MAX_NAMES])}{further}"


def call_site(where: str) -> str:
    """Return the innermost frame of a formatted traceback, ``model.py:12 in forward``; other text on one line."""
    frames = list(re.finditer(_FRAME, where))
    if not frames:
        return " ".join(where.split())
    return f"{frames[-1]['file']}:{frames[-1]['line']} in {frames[-1]['function']}"


def mode_of(trace: Trace) -> str:
    """Return the mode in which batch norms and dropouts of the forward pass ran; empty if the model has neither.

    If any of them ran in train mode, the model did. Batch norms without running statistics, and dropouts with rate 0,
    do not count: they compute the same in both modes.
    """
    forward = (call.layer for call in trace.calls if call.phase == "forward" and "training" in call.layer.attrs)
    found = {bool(layer.attrs["training"]) for layer in forward if "mean" in layer or layer.attrs.get("rate")}
    return TRAIN if True in found else EVALUATION if found else ""


def remarks_on_mode(trace: Trace) -> list[str]:
    """Return a remark if an inference ran in train mode, or a training step in evaluation mode."""
    unexpected = {(TRAIN, False): [COSTS_MORE], (EVALUATION, True): [COSTS_LESS]}
    return unexpected.get((mode_of(trace), trace.has_backward), [])


def remarks(trace: Trace) -> list[str]:
    """Return the lines below a table: uncounted operators with reasons, the mode, then assumptions."""
    operators = uncounted_operators(trace)
    lines = []
    if operators:
        lines.append(f"partial: the totals do not include {not_counted(trace)}")
        named = [f"{LABELS[each.uncounted]}: {each}" for each in operators if each.uncounted in LABELS]
        lines += _limited(named, "operators that are not counted")
    lines += remarks_on_mode(trace)
    if trace.run.fusion is not None:
        level, unfused = trace.run.fusion.level, as_text(trace.run.fusion.unfused)
        lines.append(f"bytes are after fusion at level {level}; without fusion {unfused} B are read and written")
    if trace.run.rank is not None:
        lines.append(f"costs are for {trace.run.rank}")
    if trace.run.assumptions:
        lines.append(f"assumed: the totals depend on {n_assumptions(trace)}")
        made = assumptions_as_text(trace.run.assumptions)
        lines += _limited([f"assumption: {each}" for each in made], "assumptions")
    return lines


def n_assumptions(trace: Trace) -> str:
    """Return the number of assumptions as text, ``2 assumptions about data``."""
    n = len(trace.run.assumptions)
    return f"{n} assumption{'s' * (n != 1)} about data"


def footer(lines: Sequence[str], mode: str) -> str:
    """Return the lines as text below a table in ``mode``; empty for modes that are read by programs."""
    if not lines or mode not in MODES_WITH_REMARKS:
        return ""
    if mode == "md":
        return "\n" + "".join(f"- {escaped(line)}\n" for line in lines)
    return "".join(printable(line) + "\n" for line in lines)


def _limited(lines: list[str], kind: str) -> list[str]:
    if len(lines) <= MAX_LINES:
        return lines
    return [*lines[:MAX_LINES], f"and {len(lines) - MAX_LINES} more {kind}"]
