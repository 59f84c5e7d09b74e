"""The bytes that a group of calls reads and writes, if what passes between its calls stays in registers."""

from __future__ import annotations

from collections.abc import Iterable

from costcore.dims import Dim, maximum, minimum
from costcore.fusion.graph import Graph, Node, Operand
from costcore.symbolic import expanded_sum, magnitude


def bytes_read(graph: Graph, calls: Iterable[int], inside: set[int]) -> Dim:
    """Return the bytes that a group reads: of every value from outside the largest part that a call reads, once.

    Different parts of one value add up, to the whole value at most.

    Args:
        graph: the values.
        calls: positions of the calls.
        inside: operand ids of the values that calls of the group produce.
    """
    parts: dict[int, dict[int, Dim]] = {}
    more: list[Dim] = []
    for position in calls:
        node = graph.nodes[position]
        more.append(node.work.more_read)
        for operand in _needed(node, inside):
            views = parts.setdefault(operand.value, {})
            known = views.get(operand.view)
            views[operand.view] = operand.nbytes if known is None else _larger(known, operand.nbytes)
    return expanded_sum([*more, *(_whole(graph, value, views) for value, views in parts.items())])


def bytes_written(graph: Graph, calls: Iterable[int], members: set[int]) -> Dim:
    """Return the bytes that a group writes: what others read, what is needed after the run, and what nobody reads.

    Args:
        graph: the values.
        calls: positions of the calls.
        members: the same positions.
    """
    written: list[Dim] = []
    for position in calls:
        node = graph.nodes[position]
        written.append(node.work.more_written)
        left = node.work.unwritten
        for result, nbytes in zip(node.results, node.work.writes, strict=False):
            if is_written(graph, result, members):
                taken = _smaller(left, nbytes)
                left -= taken
                written.append(nbytes - taken)
    return expanded_sum(written)


def is_written(graph: Graph, result: int, members: set[int]) -> bool:
    """Return whether somebody outside a group needs a value, or nobody at all reads it."""
    readers = graph.readers.get(result)
    return not readers or result in graph.kept or not members.issuperset(readers)


def _needed(node: Node, inside: set[int]) -> list[Operand]:
    """Return the operands from outside; bytes that are not needed are taken off the largest of them first."""
    operands = [operand for operand in node.operands if operand.value not in inside]
    left = node.work.unread
    if type(left) is int and not left:
        return operands
    reduced = []
    for operand in sorted(operands, key=lambda each: -magnitude(each.nbytes)):
        taken = _smaller(left, operand.nbytes)
        left -= taken
        reduced.append(operand._replace(nbytes=operand.nbytes - taken))
    return reduced


def _whole(graph: Graph, value: int, views: dict[int, Dim]) -> Dim:
    if len(views) == 1:
        return next(iter(views.values()))
    total = expanded_sum(views.values())
    return _smaller(total, graph.sizes[value]) if value in graph.sizes else total


def _larger(a: Dim, b: Dim) -> Dim:
    return a if a == b else maximum(a, b)


def _smaller(a: Dim, b: Dim) -> Dim:
    return a if a == b else minimum(a, b)
