"""The groups of calls that a compiler runs as one kernel, with their bytes."""

from __future__ import annotations

from typing import NamedTuple

from costcore.dims import Dim
from costcore.fusion.graph import Graph
from costcore.fusion.rules import pointwise, with_products
from costcore.fusion.traffic import bytes_read, bytes_written
from costcore.messages import unknown
from costcore.trace.trace import Trace

LEVELS = ("none", "pointwise", "compiler")
"""The levels of fusion, each of which merges groups of the one before."""


class Group(NamedTuple):
    """Calls that run as one kernel.

    Attributes:
        calls: positions of the calls in the trace, in order.
        read: bytes that one execution reads.
        written: bytes that one execution writes.
        times: how often the group runs, as :attr:`costcore.Call.times`.
    """

    calls: tuple[int, ...]
    read: Dim
    written: Dim
    times: Dim = 1


def groups_of(trace: Trace, level: str) -> list[Group]:
    """Return the groups of a run, in the order of their first calls. Every call is in exactly one group.

    A free call (a view) is in the group that produces its operand, and reads and writes nothing.

    Args:
        trace: the run.
        level: ``none`` (every call alone), ``pointwise`` (loops of element-wise calls, reductions and copies, as
            TorchInductor forms them by default) or ``compiler`` (element-wise calls also join the product before them).

    Raises:
        ValueError: if the level is unknown.
        CostError: if a calculator states an invalid pattern.
    """
    if level not in LEVELS:
        raise ValueError(unknown("level of fusion", level, LEVELS))
    if level == "none":
        return [_alone(trace, i) for i in range(len(trace))]
    graph = Graph(trace)
    partition = pointwise(trace, graph)
    if level == "compiler":
        partition = with_products(partition, graph)
    members: dict[int, list[int]] = {}
    for position in range(len(trace)):
        home = graph.home.get(position, -1)
        members.setdefault(id(partition.of[position if home < 0 else home]), []).append(position)
    return [_group(trace, graph, tuple(calls)) for calls in members.values()]


def _alone(trace: Trace, position: int) -> Group:
    call, cost, *_ = trace.records[position]
    return Group((position,), 0 if cost is None else cost.mread, 0 if cost is None else cost.mwrite, call.times)


def _group(trace: Trace, graph: Graph, calls: tuple[int, ...]) -> Group:
    if len(calls) == 1:
        return _alone(trace, calls[0])
    inside = {result for position in calls for result in graph.nodes[position].results}
    read, written = bytes_read(graph, calls, inside), bytes_written(graph, calls, set(calls))
    return Group(calls, read, written, trace.records[calls[0]].call.times)
