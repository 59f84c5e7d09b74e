"""The measured time and the bound of every call, and sums of any group of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import fsum
from typing import NamedTuple

from costcore.analyses.timing.times import Times
from costcore.errors import CostError
from costcore.ir import Cost, Operations
from costcore.messages import unknown
from costcore.trace.call import Call
from costcore.trace.profile import Profile
from costcore.trace.trace import Trace

MOST_ROWS = 8
"""The rows that ``print`` and notebooks show of a table."""

TITLES = {
    "call": "Call",
    "type": "Layer type",
    "op": "Operator",
    "module": "Module",
    "class": "Class",
    "phase": "Phase",
}
"""By what calls are grouped, with the title of the column."""


class MeasuredCall(NamedTuple):
    """One call, with what was measured.

    Attributes:
        call: the call.
        time: nanoseconds that it took: of the device, or of the host in a run without one.
        alone: its part of the span, in nanoseconds.
        host: nanoseconds of the host.
        bound: the least seconds on the device; None if it is unknown.
        flops: its operations, a fused multiply-add as two.
        n_bytes: bytes that it reads and writes.
        limit: the bound, or the seconds in which main memory moves all of these bytes if that is longer. A cache may
            have some of them, so that a call can be faster, but what is slower than this is lost.
    """

    call: Call
    time: int
    alone: int
    host: int
    bound: float | None
    flops: int
    n_bytes: int
    limit: float | None = None

    @property
    def lost(self) -> float:
        """The seconds above the limit."""
        return 0.0 if self.limit is None else max(0.0, self.time / 1e9 - self.limit)


class MeasuredGroup(NamedTuple):
    """Several calls together; times are in seconds, and None is unknown.

    Attributes:
        name: what they have in common.
        n_calls: how many there are.
        seconds: how long they took.
        alone: their part of the span.
        host: how long the host was in them.
        bound: their least time, of those whose bound is known.
        lost: the time above the limit of each call, of the same; see :attr:`MeasuredCall.limit`.
        flops: operations of counted calls, a fused multiply-add as two.
        n_bytes: bytes that counted calls read and write.
        at_limit: the time that is not lost, of calls whose bound is known.
    """

    name: str
    n_calls: int
    seconds: float
    alone: float
    host: float
    bound: float | None
    lost: float | None
    flops: int
    n_bytes: int
    at_limit: float | None = None

    @property
    def of_bound(self) -> float | None:
        """The part of the measured time that is not lost, in percent, of calls whose bound is known."""
        whole = (self.at_limit or 0.0) + (self.lost or 0.0)
        return None if self.at_limit is None or not whole else 100 * self.at_limit / whole


def measured_calls(trace: Trace, profile: Profile, times: Times | None) -> list[MeasuredCall]:
    """Return every call that was measured.

    Raises:
        CostError: if the run has symbolic sizes.
    """
    bounds, limits = bounds_of(times), limits_of(times)
    found = []
    for position, record in enumerate(trace):
        time = profile.calls.get(position)
        if time is None:
            continue
        flops, n_bytes = work_of(record.cost, record.call)
        length = time.device if profile.clock == "device" else time.host
        bound = bounds.get(record.call.name)
        if bound and not length:  # its kernels are not in the file, as of a graph that is captured
            bound = None
        limit = None if bound is None else limits[record.call.name]
        found.append(MeasuredCall(record.call, length, time.alone, time.host, bound, flops, n_bytes, limit))
    return found


def bounds_of(times: Times | None) -> Mapping[str, float]:
    """Return the least seconds of every call whose bound is known, by name."""
    if times is None:
        return {}
    return {group.name: group.bound_seconds for group in times.groups if group.is_bounded and len(group.calls) == 1}


def limits_of(times: Times | None) -> Mapping[str, float | None]:
    """Return what :meth:`Times.limit` says of every call, by name."""
    if times is None:
        return {}
    return {group.name: times.limit(group) for group in times.groups if len(group.calls) == 1}


def work_of(cost: Cost | None, call: Call) -> tuple[int, int]:
    """Return the FLOPs of all executions of a call, a fused multiply-add as two, and the bytes that it moves.

    Raises:
        CostError: if they are symbolic.
    """
    if cost is None:
        return 0, 0
    flops = cost.flops.flops(fma_1flop=False) if isinstance(cost.flops, Operations) else cost.flops
    try:
        return int(flops * call.times), int((cost.mread + cost.mwrite) * call.times)
    except TypeError as error:
        raise CostError(
            "measured needs numbers for the symbolic sizes. Substitute them first: report.subs(…)"
        ) from error


def keys_of(trace: Trace) -> Mapping[str, Callable[[Call], str]]:
    """Return by what calls can be grouped: functions from a call to the name of its group."""
    modules = trace.run.modules

    def module_class(call: Call) -> str:
        module = modules.get(call.module)
        return "" if module is None or not call.module else module.type

    return {
        "call": lambda call: call.name,
        "type": lambda call: call.type,
        "op": lambda call: call.layer.op,
        "module": lambda call: call.module,
        "class": module_class,
        "phase": lambda call: call.phase,
    }


def grouped(calls: Iterable[MeasuredCall], trace: Trace, by: str) -> list[MeasuredGroup]:
    """Return the sums by one of the keys of :func:`keys_of`, the one with most time above its bound first.

    Raises:
        ValueError: for another key; the message lists them.
    """
    keys = keys_of(trace)
    if by not in keys:
        raise ValueError(unknown("key", by, keys))
    members: dict[str, list[MeasuredCall]] = {}
    for each in calls:
        members.setdefault(keys[by](each.call), []).append(each)
    groups = [summed(name, each) for name, each in members.items()]
    return sorted(groups, key=lambda group: -(group.seconds if group.lost is None else group.lost))


def summed(name: str, calls: Iterable[MeasuredCall]) -> MeasuredGroup:
    """Return several calls together."""
    calls = [*calls]
    known = [each for each in calls if each.bound is not None]
    bound = fsum(each.bound or 0.0 for each in known) if known else None
    return MeasuredGroup(
        name,
        len(calls),
        sum(each.time for each in calls) / 1e9,
        sum(each.alone for each in calls) / 1e9,
        sum(each.host for each in calls) / 1e9,
        bound,
        None if bound is None else fsum(each.lost for each in known),
        sum(each.flops for each in calls),
        sum(each.n_bytes for each in calls),
        None if bound is None else fsum(each.time / 1e9 - each.lost for each in known),
    )
