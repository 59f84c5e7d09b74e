"""The values that calls exchange, with the outputs of free calls renamed to their inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from costcore.dims import Dim
from costcore.fusion.work import Work, Works
from costcore.trace.call import Call
from costcore.trace.trace import Trace

MOST_JOINED = 8
"""The most operands of a concatenation that is computed in one loop, as in TorchInductor."""


class Operand(NamedTuple):
    """A value as one call reads it.

    Attributes:
        value: the operand id of the value.
        view: the operand id of the part of the value that is read, in whichever shape.
        nbytes: bytes of that part.
    """

    value: int
    view: int
    nbytes: Dim


class Node(NamedTuple):
    """A call in the graph of values.

    Attributes:
        work: what it does.
        operands: what it reads.
        results: operand ids of what it produces; 0 stands for none.
        follows: positions of earlier calls that must run first: producers of what it reads, and writers of the same
            memory.
    """

    work: Work
    operands: tuple[Operand, ...]
    results: tuple[int, ...]
    follows: frozenset[int]


class Graph:
    """The calls of a trace with the values that they exchange.

    Args:
        trace: the run.

    Attributes:
        nodes: one for every call.
        producer: the position of the call that produces a value, by operand id.
        readers: positions of the calls that read a value, by operand id.
        kept: operand ids of values that are needed after the run, or by control flow between calls.
        sizes: bytes of whole values of which parts are read, by operand id.
        home: the position of the call whose value a free call renames, by position; -1 if no call produces it.
        placed: positions of concatenations whose operands are written into the result by whoever produces them.
        copied: the first of these that reads a value, or a part of it, by operand id of the part. The value is copied
            into the others at the same time.
    """

    def __init__(self, trace: Trace) -> None:
        works = Works(trace.run.layout == "free")
        self.nodes: list[Node] = []
        self.producer: dict[int, int] = {}
        self.readers: dict[int, list[int]] = {}
        self.sizes: dict[int, Dim] = {}
        self.home: dict[int, int] = {}
        self.placed: set[int] = set()
        self.copied: dict[int, int] = {}
        self._readers_of_view: dict[int, list[int]] = {}
        self._value: dict[int, int] = {}
        self._view: dict[int, int] = {}
        self._writer: dict[int, int] = {}
        for position, record in enumerate(trace):
            self._add(position, record.call, works(record))
        self.kept = {self._value.get(identity, identity) for identity in _kept(trace)}
        self._place_operands()

    def _add(self, position: int, call: Call, work: Work) -> None:
        if work.pattern == "free":
            self._rename(position, call, work)
            self.nodes.append(Node(work, (), (), frozenset()))
            return
        value, view = self._value, self._view
        operands = tuple(
            [
                Operand(value.get(each, each), view.get(each, each), nbytes)
                for each, nbytes in zip(call.inputs, work.reads, strict=False)
                if each
            ]
        )
        for operand in operands:
            self.readers.setdefault(operand.value, []).append(position)
            self._readers_of_view.setdefault(operand.view, []).append(position)
        producer = self.producer
        follows = {producer[operand.value] for operand in operands if operand.value in producer}
        follows.update(self._writers(position, call))
        for identity in call.outputs:
            if identity:
                producer[identity] = position
        self.nodes.append(Node(work, operands, call.outputs, frozenset(follows)))

    def _place_operands(self) -> None:
        """Find the concatenations whose operands are written into the result by whoever produces them.

        A concatenation of few operands that nothing else computes with is part of a loop instead.
        """
        for position, node in enumerate(self.nodes):
            if node.work.joins and (len(node.operands) > MOST_JOINED or any(map(self._is_shared, node.operands))):
                self.placed.add(position)
                for operand in node.operands:
                    self.copied.setdefault(operand.view, position)

    def _is_shared(self, operand: Operand) -> bool:
        """Return whether a loop reads an operand, besides concatenations."""
        readers = (self.nodes[each].work for each in self._readers_of_view[operand.view])
        return any(work.pattern in ("map", "reduce", "move") and not work.joins for work in readers)

    def _rename(self, position: int, call: Call, work: Work) -> None:
        """Make the outputs of a free call names of its first input, or of parts of it."""
        source = call.inputs[0] if call.inputs else 0
        if not source:
            return
        value, view = self._value.get(source, source), self._view.get(source, source)
        whole = work.reads[0]
        self.home[position] = self.producer.get(value, -1)
        if value == source:
            self.sizes.setdefault(value, whole)
        for identity, nbytes in zip(call.outputs, work.writes, strict=False):
            if identity and identity != source:
                self._value[identity] = value
                self._view[identity] = view if nbytes == whole else identity

    def _writers(self, position: int, call: Call) -> Iterator[int]:
        """Yield the last call that wrote over memory which this one reads; note where this one does."""
        writer = self._writer
        if not call.storages:
            return
        count = len(call.inputs)
        read, written = call.storages[:count], call.storages[count:]
        for storage in read:
            if storage in writer:
                yield writer[storage]
        for storage in written:
            if storage and storage in read:
                writer[storage] = position


def _kept(trace: Trace) -> Iterable[int]:
    yield from trace.run.returned
    if trace.run.dataflow is not None:
        for step in trace.run.dataflow.steps:
            yield from step.reads
