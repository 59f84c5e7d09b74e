"""The bytes that a group of calls reads and writes, if what passes between its calls stays in registers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

from costcore.analyses.fusion.graph import Graph, Node, Operand
from costcore.analyses.fusion.work import LOOPS, Work, statistics_of
from costcore.numbers.dims import Dim, is_symbolic, maximum, minimum
from costcore.numbers.symbolic import expanded_sum, magnitude

MOST_LOADS_OF_ROW = 6
"""The most values from which every element of a short row computes the sums of the row again."""


class Share(NamedTuple):
    """The part of a call in the bytes of its group.

    Attributes:
        read: bytes that it reads.
        written: bytes that it writes.
        read_again: the part of ``read`` that a compiler reads but a better kernel would not: rows that it reads twice,
            and operands that it copies first.
        copied: the part of ``written`` that are copies of operands.
    """

    read: Dim
    written: Dim
    read_again: Dim = 0
    copied: Dim = 0


def traffic(graph: Graph, calls: Sequence[int]) -> list[Share]:
    """Return the bytes that each call of a group reads and writes; their sums are those of the group.

    A group reads of every value from outside the largest part that one of its calls reads, once; different parts of a
    value add up, to the whole value at most. The first call that reads a part is charged with it. A group writes what
    calls outside read, what is needed after the run, and what nobody reads.

    Args:
        graph: the values.
        calls: positions of the calls, in order.
    """
    members = set(calls)
    reads = _Reads(graph, {result for position in calls for result in graph.nodes[position].results})
    shares = []
    for each in calls:
        node = graph.nodes[each]
        read, again = (_copied(graph, each), 0) if each in graph.placed else reads.add(node)
        shares.append(Share(read, _written(graph, each, members), again, node.copied))
    return shares


def is_written(graph: Graph, result: int, members: set[int]) -> bool:
    """Return whether somebody outside a group needs a value, or nobody at all reads it."""
    readers = graph.readers.get(result)
    if not readers or result in graph.kept:
        return True
    if graph.nodes[graph.producer[result]].work.pattern in LOOPS:
        return not (members | graph.placed).issuperset(readers)
    return not members.issuperset(readers)


def _copied(graph: Graph, position: int) -> Dim:
    """Return the bytes that a placed concatenation reads: operands that no loop writes into the result.

    The first concatenation of an operand reads it and copies it into the others.
    """
    return sum_of(
        [
            operand.nbytes
            for operand in graph.nodes[position].operands
            if graph.copied[operand.view] == position and not _comes_from_loop(graph, operand)
        ]
    )


def _comes_from_loop(graph: Graph, operand: Operand) -> bool:
    producer = graph.producer.get(operand.value)
    return producer is not None and graph.nodes[producer].work.pattern in LOOPS


class _Reads:
    """What the calls of a group have read so far.

    Args:
        graph: the values.
        inside: operand ids of the values that calls of the group produce.
    """

    def __init__(self, graph: Graph, inside: set[int]) -> None:
        self._graph = graph
        self._sizes = graph.sizes
        self._inside = inside
        self._parts: dict[int, dict[int, Dim]] = {}

    def add(self, node: Node) -> tuple[Dim, Dim]:
        """Return the bytes that a call reads and no call before it, and the part of them that it reads again."""
        new = [self._new(operand) for operand in _needed(node, self._inside)]
        again = [node.copied, node.again, *self._before(node)]
        return sum_of([node.work.more_read, node.unnamed, *new, *again]), sum_of(again)

    def _before(self, node: Node) -> list[Dim]:
        """Return the bytes that the kernels before the last read, if they reduce parts of rows.

        The loop that produces the rows reduces them too, if their parts are equal.
        """
        work = node.work
        if not work.reads_twice:
            return []
        rows = [operand for operand in node.operands if operand.nbytes == work.reads[0]]
        if work.is_short:
            return _statistics(self._graph, work, rows)
        return [operand.nbytes for operand in rows if not (work.is_even and _comes_from_loop(self._graph, operand))]

    def _new(self, operand: Operand) -> Dim:
        parts = self._parts.get(operand.value)
        if parts is None:
            self._parts[operand.value] = {operand.view: operand.nbytes}
            return operand.nbytes
        before = self._whole(operand.value, parts)
        known = parts.get(operand.view)
        parts[operand.view] = operand.nbytes if known is None else _larger(known, operand.nbytes)
        after = self._whole(operand.value, parts)
        return 0 if after == before else after - before

    def _whole(self, value: int, parts: dict[int, Dim]) -> Dim:
        if len(parts) < 2:
            return next(iter(parts.values()), 0)
        total = sum_of(list(parts.values()))
        return _smaller(total, self._sizes[value]) if value in self._sizes else total


def _statistics(graph: Graph, work: Work, rows: Sequence[Operand]) -> list[Dim]:
    """Return the bytes of a kernel that keeps two values of each short row, and of reading these, if it is worth it."""
    makers = [graph.nodes[graph.producer[each.value]].work for each in rows if each.value in graph.producer]
    loads = len(rows) + sum(maker.has_bias for maker in makers)
    if loads * (work.elements // (work.rows or 1)) <= MOST_LOADS_OF_ROW:
        return []
    return [*(each.nbytes for each in rows), statistics_of(work)]


def _needed(node: Node, inside: set[int]) -> list[Operand]:
    """Return the operands from outside; bytes that are not needed are taken off the largest of them first.

    If these bytes are an expression, they are taken off the largest operand of the call, if that comes from outside.
    """
    operands = [operand for operand in node.operands if operand.value not in inside]
    left = node.work.unread
    if not operands or (type(left) is int and not left):
        return operands
    if is_symbolic(left):  # which cannot be compared with the bytes of an operand
        largest = max(node.operands, key=lambda each: magnitude(each.nbytes))
        return [each._replace(nbytes=each.nbytes - left) if each == largest else each for each in operands]
    reduced = []
    for operand in sorted(operands, key=lambda each: -magnitude(each.nbytes)):
        taken = _smaller(left, operand.nbytes)
        left -= taken
        reduced.append(operand._replace(nbytes=operand.nbytes - taken))
    return reduced


def _written(graph: Graph, position: int, members: set[int]) -> Dim:
    """Return the bytes that a call writes to memory; what it leaves unwritten is taken off its first outputs."""
    node = graph.nodes[position]
    written, left = [node.work.more_written, node.copied], node.work.unwritten
    for result, nbytes in zip_longest(node.results, node.work.writes, fillvalue=0):
        if is_written(graph, result, members):
            taken = _smaller(left, nbytes)
            left -= taken
            written.append(nbytes - taken)
    return sum_of(written)


def sum_of(amounts: Sequence[Dim]) -> Dim:
    """Return the sum; expressions are expanded, which takes as long as everything else if all are integers."""
    total = sum(amounts)
    return total if type(total) is int else expanded_sum(amounts)


def _larger(a: Dim, b: Dim) -> Dim:
    return a if a == b else maximum(a, b)


def _smaller(a: Dim, b: Dim) -> Dim:
    return a if a == b else minimum(a, b)
