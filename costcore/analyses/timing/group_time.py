"""Groups of calls with the least time of each."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property

from costcore.analyses.devices.device import Device
from costcore.analyses.fusion.groups import Group, groups_of
from costcore.analyses.timing.bound import Bound, bound_of
from costcore.analyses.timing.least_read import least_reads
from costcore.analyses.timing.work import Work, needs_of
from costcore.ir import Cost, Layer
from costcore.trace.call import Call
from costcore.trace.trace import CallCost, Trace

Needs = tuple[Work, frozenset[str]]
"""The work of a call, and what it needs and the device file does not state."""

MEMORY = "memory"
"""What a group is missing if the bandwidth of main memory is unknown."""


class GroupTime:
    """A group of calls on a device.

    Args:
        group: positions of its calls, and the bytes of one execution.
        records: its calls, each with its cost.
        work: the work of each call, and what it needs and the device file does not state.
        least_read: bytes that one execution must read, see :func:`costcore.analyses.timing.least_read.least_reads`.
        device: the device.
        is_observed: whether the bound is the observed one.

    Attributes:
        calls: its calls.
        read, written: bytes of all executions.
        times: how often it runs.
        bound: the least time of one execution, what binds it, and the least time of each engine and memory.
        missing: what it needs and the device file does not state, so that the bound does not include it: dtypes in
            which it computes, and :data:`MEMORY`.
        seconds: the calibrated time of all executions; None if the device was never calibrated.
    """

    def __init__(
        self,
        group: Group,
        records: Sequence[CallCost],
        work: Sequence[Needs],
        least_read: int,
        device: Device,
        is_observed: bool = False,
    ) -> None:
        self.records = tuple(records)
        self.calls: tuple[Call, ...] = tuple(record.call for record in records)
        self.times = int(group.times)
        self.read, self.written = int(group.read) * self.times, int(group.written) * self.times
        self.work = tuple(pipes for pipes, _ in work)
        self.missing = frozenset().union(*(missing for _, missing in work))
        written = float(group.written - group.copied)
        self.bound: Bound = bound_of(Work.sum(self.work), least_read, written, device, is_observed)
        self.seconds: float | None = None

    @property
    def bound_seconds(self) -> float:
        """The least time of all executions, in seconds."""
        return self.bound.seconds * self.times

    @property
    def is_bounded(self) -> bool:
        """Whether the bound says anything: not if all that the group needs is unknown of the device."""
        return self.bound.seconds > 0 or not self.missing

    @property
    def binds(self) -> str:
        """What the bound comes from: ``matrix``, ``vector``, ``special``, ``dram``, ``cache``; empty if it is 0."""
        return self.bound.binds

    @cached_property
    def main(self) -> Call:
        """The call with the most work, by which a group is listed in tables by type; without work, the first."""
        busiest = max(range(len(self.calls)), key=lambda i: max(self.work[i].by_engine().values()))
        return self.calls[busiest]

    @property
    def name(self) -> str:
        """The name of its main call."""
        return self.main.name

    def costs(self) -> Iterator[Cost]:
        """Yield the cost of one execution of each call."""
        for record in self.records:
            if record.cost is not None:
                yield record.cost


def timed(
    trace: Trace, fusion: str, device: Device, tf32: Collection[str], is_observed: bool = False
) -> list[GroupTime]:
    """Return the time of every group of calls; one with a call that is not counted is left out.

    Args:
        trace: the captured run, with numbers for all sizes.
        fusion: the level of fusion.
        device: the device.
        tf32: the operators whose float32 products may be rounded to TF32.
        is_observed: whether bounds are the observed ones.
    """
    known: dict[tuple[int, int], Needs] = {}
    has_memory = device.memory.dram_gbs is not None or "dram" in device.unbounded

    def work(layer: Layer, cost: Cost) -> Needs:
        key = id(layer), id(cost)
        if key not in known:
            memory = [] if has_memory or not cost.mread + cost.mwrite else [MEMORY]
            made, missing = needs_of(layer, cost, device, tf32)
            known[key] = made, frozenset((*missing, *memory))
        return known[key]

    timed_groups = []
    groups = groups_of(trace, fusion)
    for group, least_read in zip(groups, least_reads(trace, groups, fusion), strict=True):
        records = [trace.records[i] for i in group.calls]
        works = [work(record.call.layer, record.cost) for record in records if record.cost is not None]
        if len(works) == len(records):
            timed_groups.append(GroupTime(group, records, works, least_read, device, is_observed))
    return timed_groups
