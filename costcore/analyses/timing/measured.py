"""Groups of calls with their measured time, and the time of calls by name."""

from __future__ import annotations

from collections.abc import Iterable
from math import fsum
from statistics import median
from typing import Any, NamedTuple

from costcore.analyses.timing.families import site_of
from costcore.analyses.timing.group_time import GroupTime
from costcore.trace.call import Call
from costcore.trace.trace import Trace

CallKey = tuple[str, tuple[Any, ...]]
"""What must be equal in both reports: the name of a call, its operator and the shapes and dtypes of its outputs."""


class TimedGroup(NamedTuple):
    """A group of calls that was measured.

    Attributes:
        name: name of its main call.
        type: type of its main call.
        family: the kind of kernel, as calibrations name it.
        module: path of the module of its main call.
        measured: measured seconds of its calls.
        predicted: calibrated seconds; None if the device was never calibrated.
        bound: the least seconds; None if the device file states nothing of what the calls need.
        n_groups: of how many groups this is the sum.
    """

    name: str
    type: str
    family: str
    module: str
    measured: float
    predicted: float | None
    bound: float | None
    n_groups: int = 1

    @property
    def is_below_bound(self) -> bool:
        """Whether it took less than the bound says: then the bound, the device or the clock is wrong."""
        return self.measured < (self.bound or 0.0)

    @property
    def error(self) -> float:
        """How many seconds the prediction is off; without one, how much longer than the bound it took."""
        return abs(((self.bound or 0.0) if self.predicted is None else self.predicted) - self.measured)


def key_of(call: Call) -> CallKey:
    """Return by what a call is found in another report."""
    return call.name, (call.layer.op, *((tensor.shape, tensor.dtype) for tensor in call.layer.outputs))


def seconds_by_call(measured: Iterable[Trace]) -> dict[CallKey, float]:
    """Return the median of the measured seconds of every call."""
    found: dict[CallKey, list[float]] = {}
    for trace in measured:
        for record in trace:
            if record.seconds is not None:
                found.setdefault(key_of(record.call), []).append(record.seconds)
    return {key: median(each) for key, each in found.items()}


def timed_group(group: GroupTime, measured: float) -> TimedGroup:
    """Return a group with the measured seconds of its calls."""
    main = group.main
    cost = next(record.cost for record in group.records if record.call is main)
    assert cost is not None  # a group has calls with a cost only
    family = site_of(main, cost).family
    bound = group.bound_seconds if group.is_bounded else None
    return TimedGroup(group.name, main.type, family, main.module, measured, group.seconds, bound)


def sum_of(name: str, groups: Iterable[TimedGroup]) -> TimedGroup:
    """Return the sum of groups under a name; without a prediction if one of them has none."""
    groups = list(groups)
    predicted = [group.predicted for group in groups if group.predicted is not None]
    bounds = [group.bound for group in groups if group.bound is not None]
    return TimedGroup(
        name,
        name,
        name,
        "",
        fsum(group.measured for group in groups),
        fsum(predicted) if len(predicted) == len(groups) else None,
        fsum(bounds) if bounds else None,
        len(groups),
    )
