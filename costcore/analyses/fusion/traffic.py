"""The bytes that fused groups move: values between the calls of a group stay in registers.

Sections go from groups to calls: the traffic of a group, the graph of values (views renamed to their sources, layouts,
concatenations in place), the work of one call, and TorchInductor's rules for layouts, overwritten memory and split
reductions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple, get_args

from costcore.counting import CALCULATOR_ERRORS, is_layout
from costcore.errors import CostError, qualified_name
from costcore.ir import Arrangement, Calculator, Cost, Layer, Layout, Pattern, prod
from costcore.numbers import Dim, ceil_div, expanded_sum, is_negative, is_symbolic, magnitude, maximum, minimum
from costcore.registry import calculators
from costcore.trace.call import Call
from costcore.trace.trace import CallCost, Trace

MOST_LOADS_OF_ROW = 6
"""Every element recomputes the mean and variance of its row if the row takes at most this many loads."""


class CallTraffic(NamedTuple):
    """The bytes of a group that are charged to one of its calls.

    Attributes:
        read: bytes that it reads.
        written: bytes that it writes.
        read_again: the part of ``read`` that a better kernel avoids: rows that are read twice, and operands that are
            read to be copied.
        copied: the part of ``written`` that is copies of operands.
    """

    read: Dim
    written: Dim
    read_again: Dim = 0
    copied: Dim = 0


def traffic(graph: Graph, calls: Sequence[int]) -> list[CallTraffic]:
    """Return the bytes that each call of a group reads and writes; they add up to the bytes of the group.

    A group reads a part of an outside value once, however many of its calls read this part. Different parts of a value
    add up, to at most the whole value. The first call that reads a part is charged with it. A group writes the values
    that calls outside read, that are needed after the run, or that nothing reads.

    Args:
        graph: the values.
        calls: positions of the calls, in order.
    """
    members = set(calls)
    reads = _GroupReads(graph, {result for position in calls for result in graph.nodes[position].results})
    shares = []
    for each in calls:
        node = graph.nodes[each]
        read, again = (_copied(graph, each), 0) if each in graph.placed else reads.add(node)
        shares.append(CallTraffic(read, _written(graph, each, members), again, node.copied))
    return shares


def is_written(graph: Graph, result: int, members: set[int]) -> bool:
    """Return whether a value is needed outside a group, or has no reader."""
    readers = graph.readers.get(result)
    if not readers or result in graph.kept:
        return True
    if graph.nodes[graph.producer[result]].work.pattern in LOOPS:
        return not (members | graph.placed).issuperset(readers)
    return not members.issuperset(readers)


def _copied(graph: Graph, position: int) -> Dim:
    # If several concatenations have the same operand, the first reads it and writes it into all results.
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


class _GroupReads:
    # Parts of values that the group has read so far, by value and view.

    def __init__(self, graph: Graph, inside: set[int]) -> None:
        self._graph = graph
        self._sizes = graph.sizes
        self._inside = inside
        self._parts: dict[int, dict[int, Dim]] = {}

    def add(self, node: Node) -> tuple[Dim, Dim]:
        """Return the bytes that a call adds to the reads of the group, and how many of these are repeated reads."""
        new = [self._new_bytes(operand) for operand in _needed(node, self._inside)]
        again = [node.copied, node.again, *self._bytes_of_first_kernels(node)]
        return sum_of([node.work.more_read, node.unnamed, *new, *again]), sum_of(again)

    def _bytes_of_first_kernels(self, node: Node) -> list[Dim]:
        # A norm of long rows takes several kernels: the first reduce parts of the rows, the last one reads the rows
        # again. If a loop makes the rows and the parts are equal, that loop also reduces them, and the first kernels
        # read nothing.
        work = node.work
        if not work.reads_twice:
            return []
        rows = [operand for operand in node.operands if operand.nbytes == work.reads[0]]
        if work.is_short:
            return _statistics(self._graph, work, rows)
        return [operand.nbytes for operand in rows if not (work.is_even and _comes_from_loop(self._graph, operand))]

    def _new_bytes(self, operand: Operand) -> Dim:
        parts = self._parts.get(operand.value)
        if parts is None:
            self._parts[operand.value] = {operand.view: operand.nbytes}
            return operand.nbytes
        before = self._bytes_of_parts(operand.value, parts)
        known = parts.get(operand.view)
        parts[operand.view] = operand.nbytes if known is None else _larger(known, operand.nbytes)
        after = self._bytes_of_parts(operand.value, parts)
        return 0 if after == before else after - before

    def _bytes_of_parts(self, value: int, parts: dict[int, Dim]) -> Dim:
        if len(parts) < 2:
            return next(iter(parts.values()), 0)
        total = sum_of(list(parts.values()))
        return _smaller(total, self._sizes[value]) if value in self._sizes else total


def _statistics(graph: Graph, work: Work, rows: Sequence[Operand]) -> list[Dim]:
    makers = [graph.nodes[graph.producer[each.value]].work for each in rows if each.value in graph.producer]
    loads = len(rows) + sum(maker.has_bias for maker in makers)
    # With few loads per row, every element computes the statistics again instead of reading them.
    if loads * (work.elements // (work.rows or 1)) <= MOST_LOADS_OF_ROW:
        return []
    return [*(each.nbytes for each in rows), statistics_of(work)]


def _needed(node: Node, inside: set[int]) -> list[Operand]:
    operands = [operand for operand in node.operands if operand.value not in inside]
    left = node.work.unread
    # Bytes that a call does not need are taken off its largest operands first.
    if not operands or (type(left) is int and not left):
        return operands
    if is_symbolic(left):  # a formula cannot be compared with the bytes of an operand
        largest = max(node.operands, key=lambda each: magnitude(each.nbytes))
        return [each._replace(nbytes=each.nbytes - left) if each == largest else each for each in operands]
    reduced = []
    for operand in sorted(operands, key=lambda each: -magnitude(each.nbytes)):
        taken = _smaller(left, operand.nbytes)
        left -= taken
        reduced.append(operand._replace(nbytes=operand.nbytes - taken))
    return reduced


def _written(graph: Graph, position: int, members: set[int]) -> Dim:
    node = graph.nodes[position]
    # Bytes that a call does not write are taken off its first outputs.
    written, left = [node.work.more_written, node.copied], node.work.unwritten
    for result, nbytes in zip_longest(node.results, node.work.writes, fillvalue=0):
        if is_written(graph, result, members):
            taken = _smaller(left, nbytes)
            left -= taken
            written.append(nbytes - taken)
    return sum_of(written)


def sum_of(amounts: Sequence[Dim]) -> Dim:
    """Return the sum, with expressions expanded."""
    total = sum(amounts)  # integers skip the expansion, which would double the time
    return total if type(total) is int else expanded_sum(amounts)


def _larger(a: Dim, b: Dim) -> Dim:
    return a if a == b else maximum(a, b)


def _smaller(a: Dim, b: Dim) -> Dim:
    return a if a == b else minimum(a, b)


# The graph of values: outputs of free calls are other names of their inputs.


MOST_LOADS = 4
"""A result of at most this many loads is computed again in every loop that reads it, as in TorchInductor."""

MOST_JOINED = 8
"""The maximum number of operands of a concatenation in one loop, as in TorchInductor."""


class Operand(NamedTuple):
    """A value as one call reads it.

    Attributes:
        value: the operand id of the value.
        view: the operand id of the part that is read; views of the same part in other shapes have the same id.
        nbytes: bytes of that part.
    """

    value: int
    view: int
    nbytes: Dim


class Node(NamedTuple):
    """A call in the graph of values.

    Attributes:
        work: its work.
        operands: the values that it reads.
        results: operand ids of its outputs; 0 for an output without an id.
        copied: bytes of operands that are copied into another layout first, and of outputs to which a bias is added.
        unnamed: bytes of inputs without an operand id.
        again: bytes of operands that are read again, because the result is written in another layout.
        follows: positions of earlier calls that must run first: producers of its operands, and writers of the same
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
        sizes: bytes of whole values that are read in parts, by operand id.
        home: for each free call, by position, the call that produces the base of its view; -1 if no call produces it.
        placed: positions of concatenations without a kernel: the producers of the operands write into the result.
        copied: the first concatenation in ``placed`` that reads a value, by operand id of the part. It also copies the
            value into later concatenations.
        overwriting: positions of calls that overwrite a part of a value, as ``x[0] = 1``. The new content of ``x`` has
            the id ``-position - 1`` and no producer.
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
        """For a value that a loop computes: how many of its loads are in a permuted layout, and in logical order."""
        self._order: dict[int, Order] = {}
        """The axes of a value in memory order, if it is known to differ from the logical order."""
        self._required_order: dict[int, tuple[int, ...]] = {}
        """The layout that the first product reading a value needs; the producer of the value writes it."""
        self._biased: list[int] = []
        """Positions of products whose bias another kernel adds."""
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
        # A call that reads no bytes needs no value in memory.
        for identity in beside if operands or work.more_read else ():
            value = self._value.get(identity, identity)
            self.readers.setdefault(value, []).append(position)
            values.append(value)
        follows = {producer[value] for value in values if value in producer}
        follows.update(-operand.value - 1 for operand in operands if operand.value < 0)
        unnamed = _unnamed(work, operands)
        copied = self._arrange_product(position, call) if work.pattern == "product" else 0
        for identity in call.outputs:
            if identity:
                producer[identity] = position
        if call.storages:
            follows.update(self._overwrites.note(position, call, self._value))
        self.nodes.append(Node(work, operands, call.outputs, frozenset(follows), unnamed, copied))

    def _in_layout(self, call: Call, work: Work) -> Work:
        if not self._order or work.pattern not in ("map", "reduce"):
            return work
        inputs = list(zip(call.inputs, call.layer.inputs.values(), strict=False))
        shape = call.layer.outputs[0].shape
        same = [each for each, tensor in inputs if tensor.shape == shape]
        known = [order for order in map(self._loop_order, same) if order is not None]
        votes = [self._votes.get(each, (0, 1) if self._loop_order(each) is None else (1, 0)) for each in same]
        moved, plain = sum(vote[0] for vote in votes), sum(vote[1] for vote in votes)
        # The layout of most operands is the layout of the result.
        if known and moved > plain:
            self._order[call.outputs[0]] = known[0]
        if known and work.pattern == "map" and moved + plain <= MOST_LOADS:
            self._votes[call.outputs[0]] = moved, plain
        order = self._order.get(call.inputs[0]) if call.inputs else None
        if work.pattern == "map" or order is None or work.is_short:
            return work
        return work._replace(parts=parts_of_rows(call.layer, work.elements, work.rows, order[-1]))

    def _loop_order(self, identity: int) -> Order | None:
        producer = self.producer.get(identity)
        is_product = producer is not None and self.nodes[producer].work.pattern == "product"
        # Loops do not propagate the layout in which a framework writes a product.
        return None if is_product else self._order.get(identity)

    def _arrange_product(self, position: int, call: Call) -> Dim:
        operands = dict(zip(call.layer.inputs, call.inputs, strict=False))
        for each in operands.values():
            if self._pattern_of(each) == "reduce":
                self._order.pop(each, None)  # frameworks write it in logical order
        found = layout_of(
            call.layer, {name: self._order[each] for name, each in operands.items() if each in self._order}
        )
        if found is None:
            return 0
        copied: Dim = 0
        for name, each in operands.items():
            value, order = self._value.get(each, each), tuple(self._order.get(each, ()))
            if name not in found.copied:
                self._required_order.setdefault(value, order)
            elif not self._is_written_in_layout(value, each, order):
                copied += call.layer[name].nbytes
        if list(found.order) != sorted(found.order):
            self._order[call.outputs[0]] = found.order
        if found.adds_bias:
            self._biased.append(position)
        return copied

    def _pattern_of(self, identity: int) -> Pattern | None:
        producer = self.producer.get(identity)
        return None if producer is None else self.nodes[producer].work.pattern

    def _is_written_in_layout(self, value: int, view: int, order: tuple[int, ...]) -> bool:
        # The first product that reads a value decides its layout. If a norm produces the value, and its rows are not
        # contiguous in that layout, it writes two statistics per row and reads the rows again.
        pattern = self._pattern_of(value)
        is_whole = self._view.get(view, view) == self._view.get(value, value)
        if pattern not in ("map", "reduce") or not order or not is_whole:
            return False
        if self._required_order.setdefault(value, order) != order:
            return False
        if pattern == "reduce":
            position = self.producer[value]
            node = self.nodes[position]
            again = statistics_of(node.work) + node.operands[0].nbytes
            self.nodes[position] = node._replace(again=again)
        return True

    def add_biases(self) -> None:
        """Add a kernel for each bias that is added neither by the product nor by a loop that reads the product."""
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
        # After ``x[0] = 1``, readers of ``x`` read a new value.
        writer = self._overwrites.writer(storage, operand.value)
        if writer is None:
            return operand
        self.overwriting.add(writer)
        self.kept.add(operand.value)
        return Operand(-writer - 1, operand.view, operand.nbytes)

    def _place_operands(self) -> None:
        # A concatenation of few operands without other readers is part of a loop instead.
        for position, node in enumerate(self.nodes):
            if node.work.joins and (len(node.operands) > MOST_JOINED or any(map(self._is_shared, node.operands))):
                self.placed.add(position)
                for operand in node.operands:
                    self.copied.setdefault(operand.view, position)

    def _is_shared(self, operand: Operand) -> bool:
        readers = (self.nodes[each].work for each in self._readers_of_view[operand.view])
        return any(work.pattern in ("map", "reduce", "move", "window") and not work.joins for work in readers)

    def _rename(self, position: int, call: Call, work: Work) -> None:
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
    # Some operands are not inputs of the layer: the lower bound of ``Clip``, the type of ``CastLike``.
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


# The work of a call: its pattern, its size and the bytes of each operand.


LOOPS: frozenset[Pattern] = frozenset(("map", "reduce", "window", "move", "make"))
"""Patterns of calls for which a compiler generates kernels, so that it can place their results."""


class Work(NamedTuple):
    """One execution of a call. Equal layers have equal work.

    Attributes:
        pattern: its pattern.
        elements: the number of elements that it runs over: of the input for a reduction, otherwise of the output.
        rows: the number of rows of a reduction; None for any other pattern, or if it is unknown.
        parts: the number of parts of each row of a reduction, 0 if rows are unrolled; see :func:`parts_of_rows`.
        reads: bytes of every input.
        unread: bytes of the inputs that are not needed, as an embedding needs few rows of its table.
        writes: bytes of every output.
        unwritten: bytes of the outputs that are not written.
        more_read: bytes read beside the inputs.
        more_written: bytes written beside the outputs, as a mask for the backward pass.
        has_bias: whether it is a product to which a bias is added.
        blends: whether it is a linear interpolation, which blends along one axis after the other.
    """

    pattern: Pattern
    elements: Dim
    rows: Dim | None
    reads: tuple[Dim, ...]
    unread: Dim
    writes: tuple[Dim, ...]
    unwritten: Dim
    more_read: Dim
    more_written: Dim
    parts: Dim = 1
    has_bias: bool = False
    blends: bool = False

    @property
    def is_split(self) -> bool:
        """Whether its rows are split, so that other kernels combine the parts."""
        return bool(self.parts not in (0, 1))

    @property
    def is_short(self) -> bool:
        """Whether its rows are unrolled, so that it reads neighbors as a window does."""
        return bool(self.parts == 0)

    @property
    def is_even(self) -> bool:
        """Whether the parts of its rows are equal, so that a loop over their elements can compute them too."""
        return bool(self.elements % ((self.rows or 1) * self.parts) == 0)

    @property
    def ends_loop(self) -> bool:
        """Whether the loop must end before its results can be used."""
        return self.is_split and not self.reads_twice

    @property
    def reads_twice(self) -> bool:
        """Whether it reads its rows again after reducing them: a norm whose rows are split or unrolled."""
        return self.parts != 1 and _has_all_of(self.writes, self.reads[0])

    @property
    def joins(self) -> bool:
        """Whether it puts whole operands side by side, as a concatenation does."""
        return self.pattern == "move" and len(self.reads) > 1 and bool(sum(self.reads) == sum(self.writes))


def _has_all_of(writes: tuple[Dim, ...], nbytes: Dim) -> bool:
    return any(magnitude(each) >= magnitude(nbytes) for each in writes)


NOTHING = Work("free", 0, None, (), 0, (), 0, 0, 0)
"""The work of a call without reads and writes."""


class Works:
    """The work of calls, computed once for equal layers.

    Args:
        is_free_layout: whether operators that only move data are free.
    """

    def __init__(self, is_free_layout: bool) -> None:
        self._is_free_layout = is_free_layout
        self._by_identity: dict[tuple[int, int, Pattern | None], tuple[CallCost, Work]] = {}
        """By ``id`` of layer and cost; storing the record keeps these ids valid."""

    def __call__(self, record: CallCost, pattern: Pattern | None = None) -> Work:
        """Return the work of a call; ``pattern`` replaces the pattern that its calculator states."""
        key = (id(record.call.layer), id(record.cost), pattern)
        found = self._by_identity.get(key)
        if found is None:
            found = self._by_identity[key] = (record, self._work(record, pattern))
        return found[1]

    def _work(self, record: CallCost, pattern: Pattern | None) -> Work:
        layer, cost = record.call.layer, record.cost
        if cost is None:
            return Work("opaque", 0, None, (0,) * len(layer.inputs), 0, (0,) * len(layer.outputs), 0, 0, 0)
        if self._is_free_layout and is_layout(calculators().get(layer.op)):
            return work_of(layer, cost, "free")
        return work_of(layer, cost, pattern or pattern_of(layer))


def work_of(layer: Layer, cost: Cost, pattern: Pattern) -> Work:
    """Return the work of a layer with a given pattern."""
    reads = tuple(tensor.nbytes for tensor in layer.inputs.values())
    writes = tuple(tensor.nbytes for tensor in layer.outputs)
    unread, more_read = _missing_and_extra(sum(reads), cost.mread)
    unwritten, more_written = _missing_and_extra(sum(writes), cost.mwrite)
    reduces = pattern == "reduce" and bool(layer.inputs)
    tensors = layer.inputs.values() if reduces else layer.outputs
    elements = max((tensor.size for tensor in tensors), key=magnitude, default=0)
    rows = rows_of(layer) if reduces else None
    parts = parts_of_rows(layer, elements, rows)
    if parts == 0 and rows is not None and not _has_all_of(writes, reads[0]):
        elements = rows
    blends = pattern == "window" and layer.attrs.get("mode") == "linear"
    has_bias = pattern == "product" and "b" in layer
    return Work(
        pattern, elements, rows, reads, unread, writes, unwritten, more_read, more_written, parts, has_bias, blends
    )


def statistics_of(work: Work) -> Dim:
    """Return the bytes of two values per row, such as mean and variance, written and read again."""
    return 4 * (work.rows or 1) * work.reads[0] // work.elements


def _missing_and_extra(whole: Dim, counted: Dim) -> tuple[Dim, Dim]:
    if whole == counted:
        return 0, 0
    rest = whole - counted
    return (0, -rest) if is_negative(rest) else (rest, 0)


# Patterns, as calculators declare them.


PATTERNS: tuple[Pattern, ...] = get_args(Pattern)


def pattern_of(layer: Layer) -> Pattern:
    """Return the pattern of a layer; ``opaque`` if its calculator states none, or if it has no calculator.

    A layer without outputs is opaque too: it returns a value to the program, as ``torch.equal`` does, or only changes
    its operands. :func:`costcore.ir.pattern` describes the patterns.

    Raises:
        CostError: if the calculator states something else, or if its function raises an exception.
    """
    return stated_pattern(calculators().get(layer.op), layer)


def stated_pattern(calculator: Calculator | None, layer: Layer) -> Pattern:
    """Return the pattern that a calculator states for a layer; see :func:`pattern_of`."""
    if not layer.outputs:
        return "opaque"
    stated = getattr(calculator, "pattern_by_op", {}).get(layer.op) or getattr(calculator, "pattern", "opaque")
    if callable(stated):
        try:
            stated = stated(layer)
        except CALCULATOR_ERRORS as error:
            raise CostError(f"{_named(calculator, layer)} raised {type(error).__name__}: {error}") from error
    if stated not in PATTERNS:
        raise CostError(f"{_named(calculator, layer)} is {stated!r} (expected one of {', '.join(PATTERNS)})")
    return stated  # type: ignore[no-any-return]


def rows_of(layer: Layer) -> Dim | None:
    """Return the number of rows that a reduction computes independently; None if it is unknown.

    Raises:
        CostError: if the function that the calculator states raises an exception.
    """
    calculator = calculators().get(layer.op)
    stated = getattr(calculator, "rows", None)
    if stated is None:
        return _rows_of_shapes(layer)
    try:
        return stated(layer)
    except CALCULATOR_ERRORS as error:
        raise CostError(f"{_named(calculator, layer, 'rows')} raised {type(error).__name__}: {error}") from error


def reduced_axes(layer: Layer) -> tuple[int, ...] | None:
    """Return the axes that a reduction names; None if its calculator states the rows, or if it reduces all axes."""
    axis = layer.attrs.get("axis")
    if axis is None or getattr(calculators().get(layer.op), "rows", None) is not None:
        return None
    return axis if isinstance(axis, tuple) else (axis,)


def layout_of(layer: Layer, orders: Mapping[str, Sequence[int]]) -> Arrangement | None:
    """Return the layouts that a product needs of its operands; None if the calculator states none.

    Raises:
        CostError: if the function that the calculator states raises an exception.
    """
    calculator = calculators().get(layer.op)
    stated: Layout | None = getattr(calculator, "layout", None)
    try:
        return None if stated is None else stated(layer, orders)
    except CALCULATOR_ERRORS as error:
        raise CostError(f"{_named(calculator, layer, 'layout')} raised {type(error).__name__}: {error}") from error


def _rows_of_shapes(layer: Layer) -> Dim | None:
    shape, axes = next(iter(layer.inputs.values())).shape, reduced_axes(layer)
    if layer.out.size != prod(shape):
        return layer.out.size
    return None if axes is None else prod(size for i, size in enumerate(shape) if i not in axes)


def _named(calculator: Calculator | None, layer: Layer, what: str = "pattern") -> str:
    return f"the {what} that calculator {qualified_name(calculator)} states for {layer.op!r}"


# Memory layouts of views.


Order = Sequence[int]
"""Axes in order of memory, the contiguous one last."""


def order_of_view(layer: Layer, order: Order | None) -> Order | None:
    """Return the memory order of the axes of a view; None if it is the logical order, or unknown.

    Args:
        layer: the view.
        order: the memory order of the axes of its base; None if it is the logical order, or unknown.
    """
    before, after = next(iter(layer.inputs.values())).shape, layer.outputs[0].shape
    axes, axis = layer.attrs.get("axes"), layer.attrs.get("axis")
    if order is not None and len(order) != len(before):  # the file states another shape where it is read
        order = None
    if isinstance(axes, tuple) and sorted(axes) == list(range(len(before))):
        return [axes.index(each) for each in order or range(len(axes))]
    if order is None:
        return None
    if len(before) == len(after) and sum(a != b for a, b in zip(before, after, strict=True)) == 1:
        return order
    if isinstance(axis, int) and after == before[:axis] + before[axis + 1 :]:
        return [each - (each > axis) for each in order if each != axis]
    return _reshaped_order(before, after, order)


def _reshaped_order(before: Sequence[Dim], after: Sequence[Dim], order: Order) -> Order | None:
    # Each new axis must be part of one old axis, or made of several that are neighbors in memory.
    ones = [axis for axis, size in enumerate(after) if size == 1]
    left = [axis for axis, size in enumerate(before) if size != 1]
    right = [axis for axis, size in enumerate(after) if size != 1]
    parts: dict[int, list[int]] = {}
    runs: dict[int, list[int]] = {}
    while left and right:
        old, new = [left.pop(0)], [right.pop(0)]
        while (a := prod(before[i] for i in old)) != (b := prod(after[i] for i in new)):
            shorter, rest = (old, left) if magnitude(a) < magnitude(b) else (new, right)
            if not rest:
                return None
            shorter.append(rest.pop(0))
        parts[old[0]], runs[old[0]] = new, old
    memory = [axis for axis in order if before[axis] != 1]
    found = list(ones)
    while memory:
        run = runs.get(memory[0], [])
        if not run or memory[: len(run)] != run:
            return None
        found += parts[run[0]]
        del memory[: len(run)]
    return found


# Calls that overwrite a part of a value through a view, as ``buffer[0] = x`` does.


class Overwrites:
    """The memory that calls have overwritten so far, by storage id: its last writer, and the value that was written.

    After ``x.add_(1)``, later calls read the output of that call. After ``x[0].add_(1)``, they read ``x``, which is not
    an output of that call: its new content needs an id of its own.
    """

    def __init__(self) -> None:
        self._known: set[int] = set()
        self._last: dict[int, tuple[int, int]] = {}

    @property
    def is_empty(self) -> bool:
        """Whether no call wrote over anything."""
        return not self._last

    def writer(self, storage: int, value: int) -> int | None:
        """Return the position of the call that overwrote a value after it was produced; None without one."""
        last = self._last.get(storage)
        return None if last is None or last[1] == value else last[0]

    def note(self, position: int, call: Call, values: Mapping[int, int]) -> list[int]:
        """Record the reads and overwrites of a call; return the earlier calls that overwrote the same memory.

        Args:
            position: the position of the call.
            call: the call; its outputs have memory of their own unless it overwrites an operand.
            values: maps the operand id of an alias to its value.
        """
        count, before = len(call.inputs), []
        self._known.update(call.storages[:count])
        for identity, storage in zip(call.outputs, call.storages[count:], strict=False):
            if storage in self._known and storage:
                before += [self._last[storage][0]] if storage in self._last else []
                self._last[storage] = position, values.get(identity, identity)
        self._known.update(call.storages[count:])
        return before


# Split reductions: several blocks share few long rows; short rows are unrolled, one per thread.


MULTIPROCESSORS = 132
"""Multiprocessors of the target device, here an H100; TorchInductor's rule depends on it."""

INNER, OUTER = (2, 8192), (64, 128)
"""Rows are not split if there are at least this many per multiprocessor, or if they have at most this length.

``INNER`` is for rows that are contiguous in memory, ``OUTER`` for strided ones. Source: TorchInductor
(``InductorChoices.reduction_split_factor`` of PyTorch 2.13, for compute capabilities below 10).
"""

SHORT = 8
"""The minimum row length of a loop, as in TorchInductor. Shorter rows are unrolled, one per thread."""


def parts_of_rows(
    layer: Layer, elements: Dim, rows: Dim | None, last: int | None = None, multiprocessors: int = MULTIPROCESSORS
) -> Dim:
    """Return the number of parts into which each row of a reduction is split.

    It is 1 unless rows are provably few and long, and 0 if they are so short that they are unrolled.

    Args:
        layer: the reduction.
        elements: the number of elements that it reads.
        rows: the number of its rows.
        last: the axis with contiguous elements; None for the last axis.
        multiprocessors: the number of multiprocessors of the device.
    """
    if rows is None or rows == 0:
        return 1
    enough, longest = INNER if _is_contiguous_row(layer, last) else OUTER
    length = elements // rows
    if is_negative(length - SHORT):
        return 0
    if is_negative(rows - enough * multiprocessors) and is_negative(longest - length):
        return ceil_div(length, longest)
    return 1


def _is_contiguous_row(layer: Layer, last: int | None) -> bool:
    shape, axes = next(iter(layer.inputs.values())).shape, reduced_axes(layer)
    kept = [axis for axis, size in enumerate(shape) if size != 1]
    return axes is None or not kept or (kept[-1] if last is None else last) in axes
