"""Lifetimes of the values of an inference run: the step that makes each, its last reader, and aliases in its memory.

:func:`lifetimes_of` turns the operand and storage ids of a trace into blocks and steps. These can be reordered, merged
where a result takes over the memory of an operand, or planned as ONNX Runtime does.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from costcore.errors import ArenaError
from costcore.ir import Layer, Tensor
from costcore.numbers import Dim, expanded, is_symbolic, maximum
from costcore.trace.call import Call, Uncounted
from costcore.trace.run import Step, Value
from costcore.trace.trace import PRODUCTS, VIEWS, Trace, overwritable, overwritten


def lifetimes_of(trace: Trace, returns_copies: bool = False) -> Lifetimes:
    """Return the values of a run.

    Args:
        trace: the captured run.
        returns_copies: whether outputs of the model that are views are copied.

    Raises:
        ArenaError: if the run has a backward pass, or if the operands of its calls are unknown.
    """
    _check(trace)
    return _BlockReader(trace, returns_copies).lifetimes()


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


# One step: a call with the steps of its dataflow, or dataflow between two calls.
class _OrderedStep(NamedTuple):
    call: Call | None
    steps: Sequence[Step]
    writes: bool = False
    """Whether the call writes elements; views do not."""


def _ordered_steps(trace: Trace) -> Iterator[_OrderedStep]:
    flow = trace.run.dataflow
    made = {value.id for step in flow.steps if step.name for value in step.makes} if flow else set()
    free = {record.call.name for record in trace if record.cost is not None and record.cost.mwrite == 0}
    # If a named step of the dataflow makes the output of a call, the step replaces the call.
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
        else:  # a node inside a larger operator, whose call reads its operands
            beside.setdefault(min(position, len(calls) - 1), []).append(step._replace(makes=(), overwrites=()))
    for i, call in enumerate(calls):
        for step in sorted(before.get(i, ()), key=lambda step: step.at):
            yield _OrderedStep(None, (step,))
        yield _OrderedStep(call, beside.get(i, ()), call.layer.op not in VIEWS and call.name not in free)
    for step in sorted(before.get(len(calls), ()), key=lambda step: step.at):
        yield _OrderedStep(None, (step,))


# Shared by all calls of one layer object.
class _Layer(NamedTuple):
    inputs: tuple[Tensor, ...]
    sizes: list[Dim]
    overwritable: list[int]
    overwritten: list[int]


class _BlockReader:
    # Reads the blocks of a run from ids of operands and storages.

    def __init__(self, trace: Trace, returns_copies: bool) -> None:
        self._trace = trace
        self._flow = trace.run.dataflow
        self._copied = frozenset(trace.run.returned if returns_copies else ())
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

    def lifetimes(self) -> Lifetimes:
        """Return the values."""
        flow, run = self._flow, self._trace.run
        ordered = list(_ordered_steps(self._trace))
        self._join_memory(ordered)
        if flow is not None:
            self._inputs = {value.id: value for value in flow.inputs}
            for value in flow.stored:
                self._stored[self._root(value.id)] = value.nbytes
        for value in self._inputs.values():
            self._external(value.id, value.nbytes, value.name)
        steps = [self._step(i, each) for i, each in enumerate(ordered)] or [ArenaStep("start", False)]
        self._keep_order_of_writes(steps)
        returned = {self._root(identity) for identity in run.returned}
        notes = []
        if not run.returned:
            returned = {
                self._root(identity) for identity in self._made_at.keys() - self._read_ids
            } & self._blocks.keys()
            if returned:
                notes.append("the outputs of the run are unknown: assuming that values without a reader are returned")
        for root in returned & self._blocks.keys():
            block = self._found[self._blocks[root]]
            block.last_use, block.is_kept = len(steps) - 1, True
            block.kind = "output" if block.kind == "value" else block.kind
        if self._guessed:
            notes.append(f"values of unknown origin, assumed alive from the start: {self._guessed}")
        if any(tensor.dtype == "string" for call in self._trace.calls for tensor in call.layer.outputs):
            notes.append("strings count as 0 bytes: their shape does not determine their size")
        total: Dim = sum(value.nbytes for value in flow.stored) if flow else sum(self._stored.values())
        return Lifetimes(steps, self._found, _spans(flow.spans if flow else (), ordered), total, tuple(notes))

    def _join_memory(self, ordered: Iterable[_OrderedStep]) -> None:
        # Union-find over operand ids; ids of storages are negative.
        for call, steps, _ in ordered:
            if call is not None:
                if call.storages:
                    for identity, storage in zip((*call.inputs, *call.outputs), call.storages, strict=True):
                        if identity and storage:
                            self._join(identity, -storage)
                elif call.layer.op in VIEWS and call.inputs and call.outputs and call.outputs[0] not in self._copied:
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

    def _keep_order_of_writes(self, steps: Sequence[ArenaStep]) -> None:
        # Steps that touch a block written in place keep their order.
        last: dict[int, int] = {}
        for i, arena_step in enumerate(steps) if self._written else ():
            for block in (*arena_step.reads, *arena_step.makes):
                if block in self._written:
                    if block in last:
                        arena_step.after.add(last[block])
                    last[block] = i

    def _step(self, i: int, ordered: _OrderedStep) -> ArenaStep:
        call, steps, writes = ordered
        self._touched = set()
        arena_step = ArenaStep(call.name if call is not None else steps[0].name, call is not None)
        if call is not None:
            layer = self._layers.get(id(call.layer)) or self._layer(call.layer)
            for identity, tensor in zip(call.inputs, layer.inputs, strict=True):
                self._read(arena_step, i, identity, tensor)
        for step in steps:
            for identity in step.reads:
                self._read(arena_step, i, identity, None)
        if call is not None:
            several = len(call.outputs) > 1
            for k, (identity, tensor) in enumerate(zip(call.outputs, call.layer.outputs, strict=True)):
                name = f"{call.name}:{k}" if several else call.name
                self._make(arena_step, i, identity, layer.sizes[k], name, call.module, tensor, writes)
            arena_step.outputs = len(arena_step.makes)
            arena_step.is_product = call.layer.op in PRODUCTS
            if layer.overwritable:
                self._pair(arena_step.overwrites, [(call.outputs[0], call.inputs[k]) for k in layer.overwritable])
            if layer.overwritten and self._unplanned.isdisjoint((call.outputs[0], call.inputs[0])):
                self._pair(arena_step.activates, [(call.outputs[0], call.inputs[k]) for k in layer.overwritten])
        for step in steps:
            for value in step.makes:
                self._make(arena_step, i, value.id, value.nbytes, value.name or arena_step.name)
            self._pair(arena_step.takes, step.takes)
            self._pair(arena_step.overwrites, step.overwrites)
        return arena_step

    def _layer(self, layer: Layer) -> _Layer:
        # Equal layers are one object.
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

    def _read(self, arena_step: ArenaStep, i: int, identity: int, tensor: Tensor | None) -> None:
        if not identity:
            return
        root = self._root(identity)
        self._read_ids.add(identity)
        if identity in self._made_at:
            arena_step.after.add(self._made_at[identity])
        if root in self._stored:
            if self._flow is None and tensor is not None:
                self._stored[root] = maximum(self._stored[root], tensor.nbytes)
            return
        block = self._blocks.get(root)
        if block is None:
            if tensor is None:
                return  # no recorded step makes it, such as an omitted condition
            if tensor.role != "data":
                self._stored[root] = tensor.nbytes
                return
            self._guessed += self._flow is not None
            block = self._external(identity, tensor.nbytes, f"input {1 + len(self._inputs)}", tensor)
            self._inputs[identity] = Value(identity, tensor.nbytes)
        found = self._found[block]
        found.last_use = max(found.last_use, i)
        if found.kind == "input" and tensor is not None:
            found.nbytes = _larger(found.nbytes, tensor.nbytes)
            if found.shape is None:
                found.shape, found.dtype = tensor.shape, tensor.dtype
        if block not in self._touched:
            self._touched.add(block)
            arena_step.reads.append(block)

    def _external(self, identity: int, nbytes: Dim, name: str, tensor: Tensor | None = None) -> int:
        # An input that shares the memory of another one is the same block.
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
        step: ArenaStep,
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
            found.last_use = max(found.last_use, i)
            if block not in self._touched:
                self._touched.add(block)
                step.reads.append(block)
            if writes:
                self._written.add(block)
            return
        shape, dtype = (None, "") if tensor is None else (tensor.shape, tensor.dtype)
        self._touched.add(len(self._found))
        new = Block(name, nbytes, i, i, "value", module, shape, dtype, is_planned=identity not in self._unplanned)
        step.makes.append(self._add(root, new))


def _larger(a: Dim, b: Dim) -> Dim:
    if is_symbolic(a) or is_symbolic(b):
        return a if expanded(a) == expanded(b) else maximum(a, b)
    return max(a, b)


def _spans(spans: Iterable[tuple[int, int]], ordered: Sequence[_OrderedStep]) -> list[tuple[int, int]]:
    outermost: list[tuple[int, int]] = []
    for first, last in sorted(spans, key=lambda span: (span[0], -span[1])):
        if not outermost or first > outermost[-1][1]:
            outermost.append((first, last))
    found: dict[int, list[int]] = {}
    starts = [first for first, _ in outermost]
    for i, (call, steps, _) in enumerate(ordered) if outermost else ():
        identity = call.outputs[0] if call is not None and call.outputs else steps[0].at if steps else 0
        k = bisect_left(starts, identity + 1) - 1
        if k >= 0 and identity <= outermost[k][1]:
            found.setdefault(k, []).append(i)
    return [(steps[0], steps[-1]) for steps in found.values()]


# Data: blocks, steps and lifetimes.


KINDS = ("input", "value", "output")
"""The content of a block: an input of the model, a value between two calls, or an output of the model."""


@dataclass(slots=True)
class Block:
    """The memory of a value, and of all values that share it.

    Attributes:
        name: the call that makes it, with the position of the output if that has several; the name of an input.
        nbytes: its size.
        born: index of the step that makes it; 0 for an input.
        last_use: index of the last step that needs it.
        kind: one of :data:`KINDS`.
        module: path of the module of that call.
        shape: shape of the first value in it; None if it is not one tensor.
        dtype: dtype of that value.
        is_kept: whether the run returns it, so that it outlives the last step.
        is_planned: whether its shape is known before the run.
        is_unread: whether no step reads it, so that ONNX Runtime does not free it.
    """

    name: str
    nbytes: Dim
    born: int
    last_use: int
    kind: str = "value"
    module: str = ""
    shape: tuple[Dim, ...] | None = None
    dtype: str = ""
    is_kept: bool = False
    is_planned: bool = True
    is_unread: bool = False


@dataclass(slots=True)
class ArenaStep:
    """One step of a run by the blocks it needs, as indices.

    Attributes:
        name: the call, or the dataflow between two calls, such as ``loop.body: start``.
        is_call: whether it is a call.
        reads: blocks that it reads.
        makes: blocks that it makes.
        outputs: the number of outputs of the layer, which are the first of ``makes``.
        takes: pairs of a new block and an old one whose memory it may always take over.
        overwrites: pairs of a new block and an old one that it may overwrite with ``inplace``.
        activates: pairs of a new block and an old one that ONNX Runtime may overwrite.
        is_product: whether ONNX Runtime allocates an intermediate of the size of its result.
        after: indices of earlier steps that must come before it.
    """

    name: str
    is_call: bool
    reads: list[int] = field(default_factory=list)
    makes: list[int] = field(default_factory=list)
    outputs: int = 0
    takes: list[tuple[int, int]] = field(default_factory=list)
    overwrites: list[tuple[int, int]] = field(default_factory=list)
    activates: list[tuple[int, int]] = field(default_factory=list)
    is_product: bool = False
    after: set[int] = field(default_factory=set)


class Lifetimes(NamedTuple):
    """The values of a run.

    Attributes:
        steps: the steps of the run in order; for a run without calls, one empty step.
        blocks: the memory of every value, in the order in which values are made; weights are not among them.
        spans: first and last step of each outermost data-dependent loop or branch.
        weights: bytes of the stored tensors that the run reads, each once.
        notes: the assumptions behind the figures.
    """

    steps: list[ArenaStep]
    blocks: list[Block]
    spans: list[tuple[int, int]]
    weights: Dim
    notes: tuple[str, ...]


def steps_in_order(lifetimes: Lifetimes, order: Sequence[int]) -> Lifetimes:
    """Return the same run with its steps in another order.

    Args:
        lifetimes: the values of the run.
        order: the indices of all steps; each follows the steps that make the blocks it reads; loops stay together.
    """
    now = {index: position for position, index in enumerate(order)}
    ordered = [lifetimes.steps[each] for each in order]
    steps = [replace(step, after={now[each] for each in step.after}) for step in ordered]
    born, last_use = [0] * len(lifetimes.blocks), [0] * len(lifetimes.blocks)
    for position, step in enumerate(steps):
        for index in step.makes:
            born[index] = position
        for index in (*step.makes, *step.reads):
            last_use[index] = position
    blocks = [
        replace(block, born=born[i], last_use=len(steps) - 1 if block.is_kept else last_use[i])
        for i, block in enumerate(lifetimes.blocks)
    ]
    spans = []
    for first, last in lifetimes.spans:
        positions = [now[i] for i in range(first, last + 1)]
        spans.append((min(positions), max(positions)))
    return lifetimes._replace(steps=steps, blocks=blocks, spans=sorted(spans))


# Merging: results that take over the memory of operands.


def merged(lifetimes: Lifetimes, inplace: bool, first: int = 0, last: int | None = None) -> list[Block]:
    """Return the blocks after values took over the memory of others.

    Args:
        lifetimes: the values of a run.
        inplace: whether element-wise results are written over operands too.
        first: only blocks that are born in this step or a later one are joined and returned.
        last: the last such step; default: the last step of the run.
    """
    return _BlockMerger(lifetimes, inplace, first, len(lifetimes.steps) - 1 if last is None else last).run()


class _BlockMerger:
    def __init__(self, lifetimes: Lifetimes, inplace: bool, first: int, last: int) -> None:
        self._lifetimes = lifetimes
        self._inplace = inplace
        self._range = range(first, last + 1)
        is_whole = first == 0 and last == len(lifetimes.steps) - 1
        made = [block for i in self._range for block in lifetimes.steps[i].makes]
        self._among = range(len(lifetimes.blocks)) if is_whole else frozenset(made)
        self._into: dict[int, int] = {}
        self._last_use: dict[int, int] = {}
        self._kept: set[int] = set()

    def run(self) -> list[Block]:
        """Return the joined blocks, in the order in which they are made."""
        for i in self._range:
            step = self._lifetimes.steps[i]
            self._join_all(i, step.takes)
        for first, last in self._lifetimes.spans:
            self._extend_over_span(first, last)
        if self._inplace:
            for i in self._range:
                if overwrites := self._lifetimes.steps[i].overwrites:
                    self._join_all(i, overwrites)
        return [self._result(block) for block in sorted(self._among) if block not in self._into]

    def _join_all(self, i: int, pairs: Iterable[tuple[int, int]]) -> None:
        # Each block takes over at most one other.
        done: set[int] = set()
        for made, taken in pairs:
            if made not in done and taken in self._among and self._join(i, made, taken):
                done.add(made)

    def _extend_over_span(self, first: int, last: int) -> None:
        # A loop may run its body again: blocks that it reads from outside live until it ends.
        for i in range(first, last + 1):
            for block in self._lifetimes.steps[i].reads:
                if block in self._among and self._lifetimes.blocks[block].born < first + self._is_input(block):
                    current = self._current(block)
                    self._last_use[current] = max(self._end_of(current), last)

    def _is_input(self, block: int) -> bool:
        return self._lifetimes.blocks[block].kind == "input"

    def _result(self, index: int) -> Block:
        block = self._lifetimes.blocks[index]
        if index not in self._last_use:
            return block
        kept = block.is_kept or index in self._kept
        kind = "output" if kept and block.kind == "value" else block.kind
        return replace(block, last_use=self._last_use[index], is_kept=kept, kind=kind)

    def _current(self, block: int) -> int:
        while block in self._into:
            block = self._into[block]
        return block

    def _end_of(self, block: int) -> int:
        return self._last_use.get(block, self._lifetimes.blocks[block].last_use)

    def _join(self, i: int, made: int, taken: int) -> bool:
        a, b = self._current(made), self._current(taken)
        # Only a block of the same size can be taken over, at its last use, and never an input or a result.
        new, old = self._lifetimes.blocks[a], self._lifetimes.blocks[b]
        if a == b or old.kind == "input" or old.is_kept or b in self._kept or new.born != i:
            return False
        if self._end_of(b) != i or not _equal(new.nbytes, old.nbytes):
            return False
        self._into[a] = b
        self._last_use[b] = self._end_of(a)
        if new.is_kept or a in self._kept:
            self._kept.add(b)
        return True


def _equal(a: Dim, b: Dim) -> bool:
    return bool(a == b) or (is_symbolic(a) and bool(expanded(a) == expanded(b)))


# ONNX Runtime: its order, and its reuse of buffers of equal shape.


def in_onnx_runtime(lifetimes: Lifetimes) -> Lifetimes:
    """Return the values of a run of ONNX Runtime on a CPU, in its order.

    Some kernels overwrite their first operand; no other kernel takes over memory. Inputs live until the run ends: the
    caller owns them. Outputs of the model have memory of their own. An output without a reader is never freed.
    """
    lifetimes = steps_in_order(lifetimes, _depth_first(lifetimes))
    last = len(lifetimes.steps) - 1
    read = {block for step in lifetimes.steps for block in step.reads}
    steps = [
        replace(each, overwrites=[(made, over) for made, over in each.activates if not lifetimes.blocks[made].is_kept])
        for each in lifetimes.steps
    ]
    outputs = {block for step in steps if step.is_call for block in step.makes[: step.outputs]} - read
    blocks = [
        replace(
            each, last_use=last if each.kind == "input" else each.last_use, is_unread=i in outputs and not each.is_kept
        )
        for i, each in enumerate(lifetimes.blocks)
    ]
    made = ((i, blocks[each.makes[0]]) for i, each in enumerate(steps) if each.is_product and each.makes)
    parts = [
        replace(block, name=f"{block.name}: factor", kind="value", is_kept=False, is_unread=False, last_use=i)
        for i, block in made
    ]
    return lifetimes._replace(steps=steps, blocks=[*blocks, *parts])


def _depth_first(lifetimes: Lifetimes) -> list[int]:
    """Return the order of the steps in ONNX Runtime: depth first, from the last step without a reader.

    Among the predecessors of a step, the last one in the file runs first, after its own predecessors. A loop or branch
    is one node.

    Source: ``ReverseDFSFrom`` of ``onnxruntime/core/graph/graph.cc``, which gives the default order.
    """
    ends, node_of, nodes = dict(lifetimes.spans), [], list[list[int]]()
    end = 0
    for i in range(len(lifetimes.steps)):
        if i >= end:
            end = ends.get(i, i) + 1
            nodes.append([])
        nodes[-1].append(i)
        node_of.append(len(nodes) - 1)
    before = [
        sorted({node_of[step] for i in steps for step in lifetimes.steps[i].after} - {number})
        for number, steps in enumerate(nodes)
    ]
    inner = {number for each in before for number in each}
    stack = [(number, False) for number in range(len(nodes)) if number not in inner]
    visited: set[int] = set()
    order: list[int] = []
    while stack:
        number, is_ready = stack.pop()
        if is_ready:
            order += nodes[number]
        elif number not in visited:
            visited.add(number)
            stack.append((number, True))
            stack += [(other, False) for other in before[number] if other not in visited]
    return order


def reused(blocks: Iterable[Block], last: int) -> list[Block]:
    """Return the buffers of a runtime that plans before sizes are known.

    A value takes the most recently freed buffer of its shape and size. Without one it gets a buffer of its own, as do
    scalars, outputs of the model, and values whose shape is unknown before the run. A buffer is held until the last use
    of its last value, also between two values.

    Source: ``FindReusableTensor`` of ``onnxruntime/core/framework/allocation_planner.cc``.

    Args:
        blocks: the values, after merging values that overwrite their operands.
        last: index of the last step.
    """
    buffers: list[Block] = []
    held: list[Block] = []
    waiting: list[Block] = []
    for block in sorted(blocks, key=lambda each: each.born):
        ended = sorted((buffer for buffer in held if buffer.last_use < block.born), key=lambda each: each.last_use)
        waiting = [*reversed(ended), *waiting]
        held = [buffer for buffer in held if buffer.last_use >= block.born]
        taken = next((i for i, buffer in enumerate(waiting) if _can_take(block, buffer)), None)
        if taken is None:
            buffers.append(replace(block))
            held.append(buffers[-1])
        else:
            held.append(waiting.pop(taken))
            held[-1].last_use, held[-1].is_unread = block.last_use, block.is_unread
    for buffer in buffers:
        if buffer.is_unread:
            buffer.last_use = last
    return buffers


def _can_take(block: Block, buffer: Block) -> bool:
    is_known = block.shape and block.is_planned and buffer.is_planned and buffer.kind == "value" and not block.is_kept
    return bool(is_known) and (block.shape, block.nbytes) == (buffer.shape, buffer.nbytes)
