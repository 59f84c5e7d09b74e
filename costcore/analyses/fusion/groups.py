"""The groups of calls that a compiler runs as one kernel, with their bytes."""

from __future__ import annotations

from typing import NamedTuple

from costcore.analyses.fusion.graph import Graph
from costcore.analyses.fusion.inlining import compute_late, inline
from costcore.analyses.fusion.rules import place_of, pointwise, with_products
from costcore.analyses.fusion.traffic import Share, sum_of, traffic
from costcore.messages import unknown
from costcore.numbers.dims import Dim
from costcore.trace.gc_paused import collector_off
from costcore.trace.run import LEVELS
from costcore.trace.trace import Trace


class Group(NamedTuple):
    """Calls that run as one kernel.

    Attributes:
        calls: positions of the calls in the trace, in order.
        read: bytes that one execution reads.
        written: bytes that one execution writes.
        times: how often the group runs, as :attr:`costcore.trace.call.Call.times`.
        read_again, copied: the parts of the bytes read and written that a better kernel would not move, see
            :class:`costcore.analyses.fusion.traffic.Share`.
    """

    calls: tuple[int, ...]
    read: Dim
    written: Dim
    times: Dim
    read_again: Dim
    copied: Dim


def groups_of(trace: Trace, level: str) -> list[Group]:
    """Return the groups of a run, in the order of their first calls. Every call is in exactly one group.

    A free call (a view) is in the group that produces its operand, and reads and writes nothing. A call without a cost
    is alone.

    Args:
        trace: the run.
        level: ``none`` (every call alone), ``pointwise`` (loops of element-wise calls, reductions and copies, as
            TorchInductor forms them by default) or ``compiler`` (element-wise calls also join the product before them).

    Raises:
        ValueError: if the level is unknown.
        CostError: if a calculator states an invalid pattern.
    """
    groups = []
    for calls, shares in _groups(trace, level):
        read, written, again, copied = (sum_of(amounts) for amounts in zip(*shares, strict=True))
        groups.append(Group(calls, read, written, trace.records[calls[0]].call.times, again, copied))
    return groups


def traffic_of_calls(trace: Trace, level: str) -> tuple[list[tuple[int, ...]], list[tuple[Dim, Dim]]]:
    """Return the positions of the calls of each group, and the bytes that every call of the run reads and writes.

    The bytes of a group are those of its calls. Arguments and exceptions are those of :func:`groups_of`.
    """
    amounts: list[tuple[Dim, Dim]] = [(0, 0)] * len(trace)
    groups = []
    for calls, shares in _groups(trace, level):
        groups.append(calls)
        for position, share in zip(calls, shares, strict=True):
            amounts[position] = share.read, share.written
    return groups, amounts


def _groups(trace: Trace, level: str) -> list[tuple[tuple[int, ...], list[Share]]]:
    """Return the calls of every group, and the bytes that each of them reads and writes in one execution."""
    if level not in LEVELS:
        raise ValueError(unknown("level of fusion", level, LEVELS))
    if level == "none":
        return [((i,), [_alone(trace, i)]) for i in range(len(trace))]
    with collector_off():
        graph = Graph(trace)
        if level == "pointwise":
            graph.add_biases()
        places = [place_of(record) for record in trace]
        inline(graph, places)
        partition = pointwise(trace, graph)
        if compute_late(graph, partition, places):
            partition = pointwise(trace, graph)
        if level == "compiler":
            with_products(partition, graph)
        members: dict[int, list[int]] = {}
        for position in range(len(trace)):
            home = graph.home.get(position, -1)
            members.setdefault(id(partition.of[position if home < 0 else home]), []).append(position)
        return [(tuple(calls), traffic(graph, calls)) for calls in members.values()]


def _alone(trace: Trace, position: int) -> Share:
    cost = trace.records[position].cost
    return Share(0, 0) if cost is None else Share(cost.mread, cost.mwrite)
