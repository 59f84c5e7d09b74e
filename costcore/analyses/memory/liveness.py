"""The lifetimes of the values of an inference run: when each is made, when it is read last, what shares its memory."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from costcore.analyses.memory.lives import Block, Lives, Moment
from costcore.errors import ArenaError
from costcore.ir import Layer, Tensor
from costcore.numbers.dims import Dim, is_symbolic, maximum
from costcore.numbers.symbolic import expanded
from costcore.trace.call import Call, Uncounted
from costcore.trace.dataflow import Step, Value
from costcore.trace.overwritable import PRODUCTS, VIEWS, overwritable, overwritten
from costcore.trace.trace import Trace


def lives_of(trace: Trace, returns_copies: bool = False) -> Lives:
    """Return the values of a run.

    Args:
        trace: the captured run.
        returns_copies: whether what the model returns is copied where it is a view of another value.

    Raises:
        ArenaError: if the run has a backward pass, or if it is unknown what its calls read.
    """
    _check(trace)
    return _Reading(trace, returns_copies).lives()


def _check(trace: Trace) -> None:
    phases = {call.phase for call in trace.calls} - {"forward"}
    if phases:
        raise ArenaError(
            f"an arena can be planned for inference only: this run has calls of the phase {', '.join(sorted(phases))}, "
            "and autograd keeps values that no call shows. For training, use estimate(…, memory=True)"
        )
    for call in trace.calls:
        if call.uncounted is Uncounted.OTHER_THREADS:
            raise ArenaError("an arena needs every call of the run, but modules also ran in other threads")
        if len(call.inputs) < len(call.layer.inputs) or len(call.outputs) < len(call.layer.outputs):
            raise ArenaError(f"an arena needs to know which values each call reads, but {call.name} has no operand ids")
    if trace.run.dataflow is not None and trace.run.dataflow.unknown:
        raise ArenaError(f"the lifetimes of some values are unknown: {'; '.join(trace.run.dataflow.unknown)}")


class _Moved(NamedTuple):
    """A step of the run by operand ids: a call, what its dataflow adds, or a moment between two calls."""

    call: Call | None
    steps: Sequence[Step]
    writes: bool = False
    """Whether the call writes elements, as views do not."""


def _ordered(trace: Trace) -> Iterator[_Moved]:
    """Yield the calls in order with the steps that complete them, and the steps between them."""
    flow = trace.run.dataflow
    made = {value.id for step in flow.steps if step.name for value in step.makes} if flow else set()
    free = {record.call.name for record in trace if record.cost is not None and record.cost.mwrite == 0}
    calls = [call for call in trace.calls if not (call.outputs and call.outputs[0] in made)]
    highest, last = [], 0
    for call in calls:
        last = max(last, call.outputs[0] if call.outputs else 0)
        highest.append(last)
    positions = {call.outputs[0]: i for i, call in reversed(list(enumerate(calls))) if call.outputs}
    beside: dict[int, list[Step]] = {}
    before: dict[int, list[Step]] = {}
    for step in flow.steps if flow else ():
        position = positions.get(step.at)
        if position is not None and not step.name:
            beside.setdefault(position, []).append(step)
            continue
        position = bisect_left(highest, step.at)
        if step.name:
            before.setdefault(position, []).append(step)
        else:  # of a node that is part of a larger operator: what it read is read there
            beside.setdefault(min(position, len(calls) - 1), []).append(step._replace(makes=(), overwrites=()))
    for i, call in enumerate(calls):
        for step in sorted(before.get(i, ()), key=lambda step: step.at):
            yield _Moved(None, (step,))
        yield _Moved(call, beside.get(i, ()), call.layer.op not in VIEWS and call.name not in free)
    for step in sorted(before.get(len(calls), ()), key=lambda step: step.at):
        yield _Moved(None, (step,))


class _Layer(NamedTuple):
    """What the calls of a layer share: its operands, the bytes of its outputs, and what it may overwrite."""

    inputs: tuple[Tensor, ...]
    sizes: list[Dim]
    overwritable: list[int]
    overwritten: list[int]


class _Reading:
    """Reads the values of a run: from ids of operands and storages to blocks."""

    def __init__(self, trace: Trace, returns_copies: bool) -> None:
        self._trace = trace
        self._flow = trace.run.dataflow
        self._apart = frozenset(trace.run.returned if returns_copies else ())
        self._parents: dict[int, int] = {}
        self._blocks: dict[int, int] = {}
        self._found: list[Block] = []
        self._made_at: dict[int, int] = {}
        self._written: set[int] = set()
        self._read_ids: set[int] = set()
        self._stored: dict[int, Dim] = {}
        self._inputs: dict[int, Value] = {}
        self._layers: dict[int, _Layer] = {}
        self._unplanned = frozenset(self._flow.unplanned if self._flow else ())
        self._guessed = 0
        self._names: dict[str, int] = {}
        self._touched: set[int] = set()
        """The blocks that the step being read reads or makes."""

    def lives(self) -> Lives:
        """Return the values."""
        flow, run = self._flow, self._trace.run
        moved = list(_ordered(self._trace))
        self._join_memory(moved)
        if flow is not None:
            self._inputs = {value.id: value for value in flow.inputs}
            for value in flow.stored:
                self._stored[self._root(value.id)] = value.nbytes
        for value in self._inputs.values():
            self._external(value.id, value.nbytes, value.name)
        moments = [self._moment(i, each) for i, each in enumerate(moved)] or [Moment("start", False)]
        self._keep_order_of_writes(moments)
        returned = {self._root(identity) for identity in run.returned}
        notes = []
        if not run.returned:
            returned = {
                self._root(identity) for identity in self._made_at.keys() - self._read_ids
            } & self._blocks.keys()
            if returned:
                notes.append("what the run returns is unknown: values without a reader are assumed to be returned")
        for root in returned & self._blocks.keys():
            block = self._found[self._blocks[root]]
            block.dies, block.is_kept = len(moments) - 1, True
            block.kind = "output" if block.kind == "value" else block.kind
        if self._guessed:
            notes.append(f"values of unknown origin, which count from the start: {self._guessed}")
        if any(tensor.dtype == "string" for call in self._trace.calls for tensor in call.layer.outputs):
            notes.append("strings count as 0 bytes: their shape does not determine their size")
        total: Dim = sum(value.nbytes for value in flow.stored) if flow else sum(self._stored.values())
        return Lives(moments, self._found, _spans(flow.spans if flow else (), moved), total, tuple(notes))

    def _join_memory(self, moved: Iterable[_Moved]) -> None:
        """Join the ids of values that share their memory; ids of storages are negative here."""
        for call, steps, _ in moved:
            if call is not None:
                if call.storages:
                    for identity, storage in zip((*call.inputs, *call.outputs), call.storages, strict=True):
                        if identity and storage:
                            self._join(identity, -storage)
                elif call.layer.op in VIEWS and call.inputs and call.outputs and call.outputs[0] not in self._apart:
                    self._join(call.outputs[0], call.inputs[0])
            for step in steps:
                for view, of in step.views:
                    self._join(view, of)
        for view, of in self._flow.views if self._flow else ():
            self._join(view, of)

    def _root(self, identity: int) -> int:
        parents, root = self._parents, identity
        while root in parents:
            root = parents[root]
        while identity != root:
            parents[identity], identity = root, parents[identity]
        return root

    def _join(self, identity: int, other: int) -> None:
        a, b = self._root(identity), self._root(other)
        if a != b:
            self._parents[a] = b

    def _keep_order_of_writes(self, moments: Sequence[Moment]) -> None:
        """Keep the order of all steps that touch a block which is written in place."""
        last: dict[int, int] = {}
        for i, moment in enumerate(moments) if self._written else ():
            for block in (*moment.reads, *moment.makes):
                if block in self._written:
                    if block in last:
                        moment.after.add(last[block])
                    last[block] = i

    def _moment(self, i: int, moved: _Moved) -> Moment:
        call, steps, writes = moved
        self._touched = set()
        moment = Moment(call.name if call is not None else steps[0].name, call is not None)
        if call is not None:
            layer = self._layers.get(id(call.layer)) or self._layer(call.layer)
            for identity, tensor in zip(call.inputs, layer.inputs, strict=True):
                self._read(moment, i, identity, tensor)
        for step in steps:
            for identity in step.reads:
                self._read(moment, i, identity, None)
        if call is not None:
            several = len(call.outputs) > 1
            for k, (identity, tensor) in enumerate(zip(call.outputs, call.layer.outputs, strict=True)):
                name = f"{call.name}:{k}" if several else call.name
                self._make(moment, i, identity, layer.sizes[k], name, call.module, tensor, writes)
            moment.outputs = len(moment.makes)
            moment.is_product = call.layer.op in PRODUCTS
            if layer.overwritable:
                self._pair(moment.overwrites, [(call.outputs[0], call.inputs[k]) for k in layer.overwritable])
            if layer.overwritten and self._unplanned.isdisjoint((call.outputs[0], call.inputs[0])):
                self._pair(moment.activates, [(call.outputs[0], call.inputs[k]) for k in layer.overwritten])
        for step in steps:
            for value in step.makes:
                self._make(moment, i, value.id, value.nbytes, value.name or moment.name)
            self._pair(moment.takes, step.takes)
            self._pair(moment.overwrites, step.overwrites)
        return moment

    def _layer(self, layer: Layer) -> _Layer:
        """Return what calls of a layer share; equal layers are one object."""
        sizes = [tensor.nbytes for tensor in layer.outputs]
        found = self._layers[id(layer)] = _Layer(
            tuple(layer.inputs.values()), sizes, overwritable(layer), overwritten(layer)
        )
        return found

    def _pair(self, pairs: list[tuple[int, int]], ids: Iterable[tuple[int, int]]) -> None:
        for made, other in ids:
            first, second = self._blocks.get(self._root(made)), self._blocks.get(self._root(other))
            if first is not None and second is not None and first != second:
                pairs.append((first, second))

    def _read(self, moment: Moment, i: int, identity: int, tensor: Tensor | None) -> None:
        if not identity:
            return
        root = self._root(identity)
        self._read_ids.add(identity)
        if identity in self._made_at:
            moment.after.add(self._made_at[identity])
        if root in self._stored:
            if self._flow is None and tensor is not None:
                self._stored[root] = maximum(self._stored[root], tensor.nbytes)
            return
        block = self._blocks.get(root)
        if block is None:
            if tensor is None:
                return  # made by nothing that is recorded, such as an omitted condition
            if tensor.role != "data":
                self._stored[root] = tensor.nbytes
                return
            self._guessed += self._flow is not None
            block = self._external(identity, tensor.nbytes, f"input {1 + len(self._inputs)}", tensor)
            self._inputs[identity] = Value(identity, tensor.nbytes)
        found = self._found[block]
        found.dies = max(found.dies, i)
        if found.kind == "input" and tensor is not None:
            found.nbytes = _larger(found.nbytes, tensor.nbytes)
            if found.shape is None:
                found.shape, found.dtype = tensor.shape, tensor.dtype
        if block not in self._touched:
            self._touched.add(block)
            moment.reads.append(block)

    def _external(self, identity: int, nbytes: Dim, name: str, tensor: Tensor | None = None) -> int:
        """Add an input; an input that shares the memory of another one is the same block."""
        root = self._root(identity)
        if root in self._blocks:
            return self._blocks[root]
        shape, dtype = (None, "") if tensor is None else (tensor.shape, tensor.dtype)
        return self._add(root, Block(name, nbytes, 0, 0, "input", "", shape, dtype))

    def _add(self, root: int, block: Block) -> int:
        times = self._names[block.name] = self._names.get(block.name, 0) + 1
        if times > 1:
            block.name = f"{block.name} ({times})"
        index = self._blocks[root] = len(self._found)
        self._found.append(block)
        return index

    def _make(
        self,
        moment: Moment,
        i: int,
        identity: int,
        nbytes: Dim,
        name: str,
        module: str = "",
        tensor: Tensor | None = None,
        writes: bool = False,
    ) -> None:
        if not identity:
            return
        root = self._root(identity)
        self._made_at[identity] = i
        if root in self._stored:
            return
        block = self._blocks.get(root)
        if block is not None:  # a view, or a value that is written in place
            found = self._found[block]
            found.nbytes = _larger(found.nbytes, nbytes)
            found.dies = max(found.dies, i)
            if block not in self._touched:
                self._touched.add(block)
                moment.reads.append(block)
            if writes:
                self._written.add(block)
            return
        shape, dtype = (None, "") if tensor is None else (tensor.shape, tensor.dtype)
        self._touched.add(len(self._found))
        new = Block(name, nbytes, i, i, "value", module, shape, dtype, is_planned=identity not in self._unplanned)
        moment.makes.append(self._add(root, new))


def _larger(a: Dim, b: Dim) -> Dim:
    """Return the larger of two sizes of one block; two forms of one expression are equal."""
    if is_symbolic(a) or is_symbolic(b):
        return a if expanded(a) == expanded(b) else maximum(a, b)
    return max(a, b)


def _spans(spans: Iterable[tuple[int, int]], moved: Sequence[_Moved]) -> list[tuple[int, int]]:
    """Return first and last step of the outermost spans."""
    outermost: list[tuple[int, int]] = []
    for first, last in sorted(spans, key=lambda span: (span[0], -span[1])):
        if not outermost or first > outermost[-1][1]:
            outermost.append((first, last))
    found: dict[int, list[int]] = {}
    starts = [first for first, _ in outermost]
    for i, (call, steps, _) in enumerate(moved) if outermost else ():
        identity = call.outputs[0] if call is not None and call.outputs else steps[0].at if steps else 0
        k = bisect_left(starts, identity + 1) - 1
        if k >= 0 and identity <= outermost[k][1]:
            found.setdefault(k, []).append(i)
    return [(steps[0], steps[-1]) for steps in found.values()]
