"""The values that calls exchange, with the outputs of free calls renamed to their inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from costcore.analyses.fusion.layouts import Order, order_of_view
from costcore.analyses.fusion.long_rows import parts_of_rows
from costcore.analyses.fusion.overwrites import Overwrites
from costcore.analyses.fusion.patterns import layout_of
from costcore.analyses.fusion.work import LOOPS, Work, Works, statistics_of
from costcore.ir import Pattern
from costcore.numbers.dims import Dim
from costcore.trace.call import Call
from costcore.trace.trace import Trace

MOST_LOADS = 4
"""The most values from which several loops compute a result again, as in TorchInductor."""

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
        copied: bytes of operands that are copied into another layout first, and of outputs to which a bias is added.
        unnamed: bytes of inputs without an operand id, which nothing is known to produce.
        again: bytes of operands that are read again, because the result is written in another layout.
        follows: positions of earlier calls that must run first: producers of what it reads, and writers of the same
            memory.
    """

    work: Work
    operands: tuple[Operand, ...]
    results: tuple[int, ...]
    follows: frozenset[int]
    unnamed: Dim = 0
    copied: Dim = 0
    again: Dim = 0


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
        overwriting: positions of calls that write over memory which is then read under another name. That value is
            ``-position - 1`` and has no producer.
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
        self._votes: dict[int, tuple[int, int]] = {}
        """How many values in another layout, and in their own, a loop computes a result from."""
        self._order: dict[int, Order] = {}
        """The axes of a value in the order in which they lie in memory, if that is known to be another one."""
        self._written: dict[int, tuple[int, ...]] = {}
        """The layout in which the first product that reads a value needs it, which whoever computes it writes."""
        self._biased: list[int] = []
        """Positions of the products whose bias is added afterwards."""
        self.overwriting: set[int] = set()
        self._overwrites = Overwrites()
        self.kept: set[int] = set()
        patterns = trace.run.patterns
        kept, beside = _read_beside_operands(trace)
        for position, record in enumerate(trace):
            self._add(position, record.call, works(record, patterns.get(position)), beside.get(position, ()))
        self.kept |= {self._value.get(identity, identity) for identity in kept}
        self._place_operands()

    def _add(self, position: int, call: Call, work: Work, beside: Sequence[int]) -> None:
        """Add a call that takes values ``beside`` its operands. One that reads no bytes needs none in memory."""
        if work.pattern == "free":
            self._rename(position, call, work)
            self.nodes.append(Node(work, (), (), frozenset()))
            return
        work = self._in_layout(call, work)
        operands = tuple(self._operands(call, work))
        for operand in operands:
            self.readers.setdefault(operand.value, []).append(position)
            self._readers_of_view.setdefault(operand.view, []).append(position)
        producer = self.producer
        values = [operand.value for operand in operands]
        for identity in beside if operands or work.more_read else ():
            value = self._value.get(identity, identity)
            self.readers.setdefault(value, []).append(position)
            values.append(value)
        follows = {producer[value] for value in values if value in producer}
        follows.update(-operand.value - 1 for operand in operands if operand.value < 0)
        unnamed, copied = _unnamed(work, operands), self._arrange(position, call) if work.pattern == "product" else 0
        for identity in call.outputs:
            if identity:
                producer[identity] = position
        if call.storages:
            follows.update(self._overwrites.note(position, call, self._value))
        self.nodes.append(Node(work, operands, call.outputs, frozenset(follows), unnamed, copied))

    def _in_layout(self, call: Call, work: Work) -> Work:
        """Return the work of a loop over values in their layout, which most of them hand on to its result."""
        if not self._order or work.pattern not in ("map", "reduce"):
            return work
        inputs = list(zip(call.inputs, call.layer.inputs.values(), strict=False))
        shape = call.layer.outputs[0].shape
        same = [each for each, tensor in inputs if tensor.shape == shape]
        known = [order for order in map(self._loop_order, same) if order is not None]
        votes = [self._votes.get(each, (0, 1) if self._loop_order(each) is None else (1, 0)) for each in same]
        moved, plain = sum(vote[0] for vote in votes), sum(vote[1] for vote in votes)
        if known and moved > plain:
            self._order[call.outputs[0]] = known[0]
        if known and work.pattern == "map" and moved + plain <= MOST_LOADS:
            self._votes[call.outputs[0]] = moved, plain
        order = self._order.get(call.inputs[0]) if call.inputs else None
        if work.pattern == "map" or order is None or work.is_short:
            return work
        return work._replace(parts=parts_of_rows(call.layer, work.elements, work.rows, order[-1]))

    def _loop_order(self, identity: int) -> Order | None:
        """Return the layout of a value, unless a product wrote it, whose layout no loop hands on."""
        producer = self.producer.get(identity)
        is_product = producer is not None and self.nodes[producer].work.pattern == "product"
        return None if is_product else self._order.get(identity)

    def _arrange(self, position: int, call: Call) -> Dim:
        """Note the layouts of what a product reads and writes; return the bytes of the operands that it copies."""
        operands = dict(zip(call.layer.inputs, call.inputs, strict=False))
        for each in operands.values():
            if self._pattern_of(each) == "reduce":
                self._order.pop(each, None)  # frameworks write it as it is named
        found = layout_of(
            call.layer, {name: self._order[each] for name, each in operands.items() if each in self._order}
        )
        if found is None:
            return 0
        copied: Dim = 0
        for name, each in operands.items():
            value, order = self._value.get(each, each), tuple(self._order.get(each, ()))
            if name not in found.copied:
                self._written.setdefault(value, order)
            elif not self._is_written_so(value, each, order):
                copied += call.layer[name].nbytes
        if list(found.order) != sorted(found.order):
            self._order[call.outputs[0]] = found.order
        if found.adds_bias:
            self._biased.append(position)
        return copied

    def _pattern_of(self, identity: int) -> Pattern | None:
        producer = self.producer.get(identity)
        return None if producer is None else self.nodes[producer].work.pattern

    def _is_written_so(self, value: int, view: int, order: tuple[int, ...]) -> bool:
        """Return whether the loop that computes a value writes it in the layout that a product needs, the first of all.

        If it is a norm whose rows lie otherwise, it reads them again, after it has written two values of each.
        """
        pattern = self._pattern_of(value)
        is_whole = self._view.get(view, view) == self._view.get(value, value)
        if pattern not in ("map", "reduce") or not order or not is_whole:
            return False
        if self._written.setdefault(value, order) != order:
            return False
        if pattern == "reduce":
            position = self.producer[value]
            node = self.nodes[position]
            again = statistics_of(node.work) + node.operands[0].nbytes
            self.nodes[position] = node._replace(again=again)
        return True

    def add_biases(self) -> None:
        """Let a kernel of its own add a bias, unless a loop that reads the product does, or the product itself."""
        for position in self._biased:
            node = self.nodes[position]
            value = node.results[0]
            patterns = {self.nodes[each].work.pattern for each in self.readers.get(value, ())}
            if value in self.kept or not patterns or not patterns <= LOOPS:
                self.nodes[position] = node._replace(copied=node.copied + node.work.writes[0])

    def _operands(self, call: Call, work: Work) -> list[Operand]:
        value, view = self._value, self._view
        operands = [
            Operand(value.get(each, each), view.get(each, each), nbytes)
            for each, nbytes in zip(call.inputs, work.reads, strict=False)
            if each
        ]
        if self._overwrites.is_empty:
            return operands
        storages = [storage for each, storage in zip(call.inputs, call.storages, strict=False) if each]
        return [self._as_written(*pair) for pair in zip(operands, storages or [0] * len(operands), strict=True)]

    def _as_written(self, operand: Operand, storage: int) -> Operand:
        """Return an operand, as a value of its own if a call wrote over its memory under another name."""
        writer = self._overwrites.writer(storage, operand.value)
        if writer is None:
            return operand
        self.overwriting.add(writer)
        self.kept.add(operand.value)
        return Operand(-writer - 1, operand.view, operand.nbytes)

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
        return any(work.pattern in ("map", "reduce", "move", "window") and not work.joins for work in readers)

    def _rename(self, position: int, call: Call, work: Work) -> None:
        """Make the outputs of a free call names of its first input, or of parts of it."""
        source = call.inputs[0] if call.inputs else 0
        if not source:
            return
        value, view = self._value.get(source, source), self._view.get(source, source)
        whole = work.reads[0]
        order = order_of_view(call.layer, self._order.get(source))
        if order is not None:
            self._order.update(dict.fromkeys(call.outputs, order))
        self.home[position] = self.producer.get(value, -1)
        if value == source:
            self.sizes.setdefault(value, whole)
        for identity, nbytes in zip(call.outputs, work.writes, strict=False):
            if identity and identity != source:
                self._value[identity] = value
                self._view[identity] = view if nbytes == whole else identity


def _unnamed(work: Work, operands: Sequence[Operand]) -> Dim:
    if len(operands) == len(work.reads):
        return 0
    return sum(work.reads) - sum(operand.nbytes for operand in operands) - (0 if operands else work.unread)


def _read_beside_operands(trace: Trace) -> tuple[list[int], dict[int, Sequence[int]]]:
    """Return the ids that are read after the run or between calls, and those that calls read beside their operands.

    The second are by position of the call: such as the lower bound of ``Clip``, or the type that ``CastLike`` takes.
    """
    kept = [*trace.run.returned]
    beside: dict[int, Sequence[int]] = {}
    if trace.run.dataflow is not None and trace.run.dataflow.steps:
        positions = {record.call.outputs[0]: i for i, record in enumerate(trace) if record.call.outputs}
        for step in trace.run.dataflow.steps:
            if not step.name and step.at in positions:
                beside[positions[step.at]] = step.reads
            else:
                kept += step.reads
    return kept, beside
