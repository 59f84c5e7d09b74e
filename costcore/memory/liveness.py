"""The lifetimes of the values of an inference run: when each is made, when it is read last, what shares its memory."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from costcore.dims import Dim, is_symbolic, maximum
from costcore.errors import ArenaError
from costcore.ir import Layer, Tensor
from costcore.memory.elementwise import VIEWS, overwritable
from costcore.symbolic import expanded
from costcore.trace.call import Call, Uncounted
from costcore.trace.dataflow import Step, Value
from costcore.trace.trace import Trace

KINDS = ("input", "value", "output")
"""What a block holds: an input of the model, a value between two calls, or what the model returns."""


@dataclass(slots=True)
class Block:
    """The memory of a value, and of all values that share it.

    Attributes:
        name: the call that makes it, with the position of the output if that has several; the name of an input.
        nbytes: its size.
        born: index of the step that makes it; 0 for an input.
        dies: index of the last step that needs it.
        kind: one of :data:`KINDS`.
        module: path of the module of that call.
        shape: shape of the first value in it; None if it is not one tensor.
        dtype: dtype of that value.
        is_kept: whether the caller gets it, so that it is needed after the last step too.
    """

    name: str
    nbytes: Dim
    born: int
    dies: int
    kind: str = "value"
    module: str = ""
    shape: tuple[Dim, ...] | None = None
    dtype: str = ""
    is_kept: bool = False


@dataclass(slots=True)
class Moment:
    """One step of a run by the blocks it needs, as indices.

    Attributes:
        name: the call, or what happens between two calls.
        reads: blocks that it reads.
        makes: blocks that exist from then on.
        takes: pairs of a block that it makes and one that it may always continue.
        overwrites: pairs of a block that it makes and one that it may write over if that is allowed.
        after: indices of earlier steps that must come before it.
        is_call: whether it is a call.
    """

    name: str
    reads: list[int] = field(default_factory=list)
    makes: list[int] = field(default_factory=list)
    takes: list[tuple[int, int]] = field(default_factory=list)
    overwrites: list[tuple[int, int]] = field(default_factory=list)
    after: set[int] = field(default_factory=set)
    is_call: bool = True


class Lives(NamedTuple):
    """The values of a run.

    Attributes:
        moments: the steps of the run in order.
        blocks: the memory of every value, in order of birth; weights are not among them.
        spans: first and last step of each loop or branch that data decides, the outermost only.
        weights: bytes of the stored tensors that the run reads, each once.
        notes: what the figures assume.
    """

    moments: list[Moment]
    blocks: list[Block]
    spans: list[tuple[int, int]]
    weights: Dim
    notes: tuple[str, ...]

    def merged(self, inplace: bool, first: int = 0, last: int | None = None) -> list[Block]:
        """Return the blocks after values took over the memory of others.

        Args:
            inplace: whether element-wise results are written over operands too.
            first: only blocks that are born in this step or a later one are joined and returned.
            last: the last such step; default: that of the run.
        """
        return _Merging(self, inplace, first, len(self.moments) - 1 if last is None else last).run()


def lives_of(trace: Trace) -> Lives:
    """Return the values of a run.

    Raises:
        ArenaError: if the run has a backward pass, or if it is unknown what its calls read.
    """
    _check(trace)
    return _Reading(trace).lives()


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


class _Reading:
    """Reads the values of a run: from ids of operands and storages to blocks."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._flow = trace.run.dataflow
        self._parents: dict[int, int] = {}
        self._blocks: dict[int, int] = {}
        self._found: list[Block] = []
        self._made_at: dict[int, int] = {}
        self._written: set[int] = set()
        self._read_ids: set[int] = set()
        self._stored: dict[int, Dim] = {}
        self._inputs: dict[int, Value] = {}
        self._layers: dict[int, _Layer] = {}
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
        moments = [self._moment(i, each) for i, each in enumerate(moved)]
        self._keep_order_of_writes(moments)
        end = max(len(moments) - 1, 0)
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
            block.dies, block.is_kept = end, True
            block.kind = "output" if block.kind == "value" else block.kind
        if self._guessed:
            notes.append(f"{self._guessed} values have an unknown origin: they count from the start")
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
                elif call.layer.op in VIEWS and call.inputs and call.outputs:
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
        moment = Moment(call.name if call is not None else steps[0].name, is_call=call is not None)
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
            if layer.overwritable:
                self._pair(moment.overwrites, [(call.outputs[0], call.inputs[k]) for k in layer.overwritable])
        for step in steps:
            for value in step.makes:
                self._make(moment, i, value.id, value.nbytes, value.name or moment.name)
            self._pair(moment.takes, step.takes)
            self._pair(moment.overwrites, step.overwrites)
        return moment

    def _layer(self, layer: Layer) -> _Layer:
        """Return what calls of a layer share; equal layers are one object."""
        sizes = [tensor.nbytes for tensor in layer.outputs]
        found = self._layers[id(layer)] = _Layer(tuple(layer.inputs.values()), sizes, overwritable(layer))
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
        moment.makes.append(self._add(root, Block(name, nbytes, i, i, "value", module, shape, dtype)))


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
    return [(steps[0], steps[-1]) for steps in found.values() if len(steps) > 1]


class _Merging:
    """Joins the blocks of values that are written over, or continue, the memory of others."""

    def __init__(self, lives: Lives, inplace: bool, first: int, last: int) -> None:
        self._lives = lives
        self._inplace = inplace
        self._range = range(first, last + 1)
        self._is_whole = is_whole = first == 0 and last == len(lives.moments) - 1
        made = [block for i in self._range for block in lives.moments[i].makes]
        self._among = range(len(lives.blocks)) if is_whole else frozenset(made)
        self._into: dict[int, int] = {}
        self._dies: dict[int, int] = {}
        self._kept: set[int] = set()

    def run(self) -> list[Block]:
        """Return the joined blocks, in order of birth."""
        for i in self._range:
            moment = self._lives.moments[i]
            self._join_all(i, moment.takes)
        for first, last in self._lives.spans:
            self._hold(first, last)
        if self._inplace:
            for i in self._range:
                if overwrites := self._lives.moments[i].overwrites:
                    self._join_all(i, overwrites)
        return [self._result(block) for block in sorted(self._among) if block not in self._into]

    def _join_all(self, i: int, pairs: Iterable[tuple[int, int]]) -> None:
        """Join the pairs of a step that can be joined, each block that it makes with one other."""
        done: set[int] = set()
        for made, taken in pairs:
            if made not in done and taken in self._among and self._join(i, made, taken):
                done.add(made)

    def _hold(self, first: int, last: int) -> None:
        """Keep what a loop or branch reads from outside until it ends."""
        if self._range.start == first and self._range.stop == last + 1 and not self._is_whole:
            return
        for i in range(first, last + 1):
            for block in self._lives.moments[i].reads:
                if block in self._among and self._lives.blocks[block].born < first + self._is_input(block):
                    current = self._current(block)
                    self._dies[current] = max(self._end_of(current), last)

    def _is_input(self, block: int) -> bool:
        return self._lives.blocks[block].kind == "input"

    def _result(self, index: int) -> Block:
        block = self._lives.blocks[index]
        if index not in self._dies:
            return block
        kept = block.is_kept or index in self._kept
        kind = "output" if kept and block.kind == "value" else block.kind
        return replace(block, dies=self._dies[index], is_kept=kept, kind=kind)

    def _current(self, block: int) -> int:
        while block in self._into:
            block = self._into[block]
        return block

    def _end_of(self, block: int) -> int:
        return self._dies.get(block, self._lives.blocks[block].dies)

    def _join(self, i: int, made: int, taken: int) -> bool:
        """Let a block made at step ``i`` take over the memory of one that dies there; return whether it can."""
        a, b = self._current(made), self._current(taken)
        new, old = self._lives.blocks[a], self._lives.blocks[b]
        if a == b or old.kind == "input" or old.is_kept or b in self._kept or new.born != i:
            return False
        if self._end_of(b) != i or not _equal(new.nbytes, old.nbytes):
            return False
        self._into[a] = b
        self._dies[b] = self._end_of(a)
        if new.is_kept or a in self._kept:
            self._kept.add(b)
        return True


def _equal(a: Dim, b: Dim) -> bool:
    return bool(a == b) or (is_symbolic(a) and bool(expanded(a) == expanded(b)))
