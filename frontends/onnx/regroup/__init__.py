"""Regroup the nodes into which an exporter decomposed one operator, by exact patterns. Off by default.

:class:`Search` goes backward from the last nodes, and accepts a group if no other node reads its inner values.
:class:`ProgramValues` then counts constants and conversions as in the user's program.
"""

from __future__ import annotations

import string
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from costcore.ir import Layer
from costcore.trace.call import Call
from costcore.trace.patterns import Misses, NearMisses, Pattern, common_module, matches
from costcore.trace.run import GraphNodes, Regrouping
from costcore.translate import ROLES, Translation

from ..node import Node, joined
from ..reading import origin
from ..values import StoredTensor, Value
from ..walk.recording import Recording
from ..walk.walker import NodeHistory, RecordedNode
from .data_movement import (
    ADAPTIVE_AVG_POOL,
    AS_STRIDED,
    CIRCULAR_PAD,
    GATHER,
    IM2COL,
    INDEX,
    ROLL,
    SLICE,
    TORCHSCRIPT_ROLL,
)
from .elementwise import (
    ADDCDIV,
    ADDCMUL,
    ATAN2,
    BADDBMM,
    BILINEAR,
    ELU,
    EXPM1,
    FLOOR_DIV,
    GELU,
    GELU_TANH,
    GLU,
    GROUP_NORM,
    GRU_CELL,
    HARD_SHRINK,
    HARD_SWISH,
    IDENTITY,
    LAYER_NORM,
    LERP,
    LOG1P,
    LOG2,
    LOG_SIGMOID,
    LSTM_CELL,
    MISH,
    NOT_EQUAL,
    ONE_HOT,
    PLAIN_NORM,
    REMAINDER,
    RMS_NORM,
    RNN,
    RNN_CELL,
    RSQRT,
    SILU,
    SOFT_SHRINK,
    SOFTPLUS,
    THRESHOLD,
    TORCHSCRIPT_ADDCMUL,
    TORCHSCRIPT_BADDBMM,
    TORCHSCRIPT_GELU,
    TORCHSCRIPT_GELU_TANH,
    TORCHSCRIPT_HARD_SHRINK,
    TORCHSCRIPT_SOFT_SHRINK,
    TORCHSCRIPT_SOFTPLUS,
    WEIGHT_NORM,
)
from .layers import (
    ASSIGN,
    ATTENTION,
    CONV,
    COSINE_SIMILARITY,
    FULL,
    LINEAR,
    LINEAR_RESIZE,
    LOSSES,
    PAIRWISE_DISTANCE,
    PAIRWISE_DISTANCES,
    STD,
    TORCHSCRIPT_COSINE_SIMILARITY,
    TORCHSCRIPT_LOSSES,
    TORCHSCRIPT_PAIRWISE_DISTANCE,
    VAR,
)
from .matcher import CREATES, Decomposition, DependsOnSizes, Equal, Group, Match, NodeGraph, Program, operation

ELEMENTS_READ = {"Shape": 0, "Size": 0, "CastLike": 1}
"""The number of leading inputs whose elements are read; of the others, only the shape or dtype is read."""

SLICING = ("Slice", "Split")
"""Operators that return a part of their first input."""


def regroup_nodes(
    recording: Recording,
    history: NodeHistory,
    producer: str,
    patterns: bool | Collection[str],
    explained: Collection[str],
) -> list[Regrouping]:
    """Replace each group of nodes that is one decomposed operator by one call.

    All nodes of a group must run equally often, in the same loop body or branch. Nothing outside may read an inner
    value of the group: no other node, no subgraph, no output of the model.

    With ``patterns=True``, only operators that the exporter decomposed are matched, not those that the user wrote as
    several operations. If the metadata of nodes names operations of the user's program, all nodes must come from one
    operation, or from a call that PyTorch itself decomposes. Without such metadata, they must be exactly the nodes that
    this exporter writes for the operator.

    Args:
        recording: the run.
        history: the recorded nodes.
        producer: the producer name of the model, which identifies the exporter.
        patterns: True, or names of :data:`PATTERNS`, which also match hand-written nodes.
        explained: names of patterns; notes explain their near misses.

    Returns:
        The groups, in the order of their nodes.
    """
    recorder = recording.recorder
    counted = set(map(id, recorder.calls))
    history_nodes = history.nodes()
    nodes = [recorded for recorded in history_nodes if id(recorded.call) in counted]
    readers = _readers(history.read_outside, history_nodes)
    search = Search(recording, nodes, readers, explained, match_hand_written=patterns is not True)
    is_torchscript = producer == "pytorch" and not any(origin(recorded.node.proto) for recorded in nodes)
    selected = dict(_selected(patterns, TORCHSCRIPT_PATTERNS if is_torchscript else {}))
    creating = {name: selected[name] for name in ("full",) if name in selected}
    for recorded in reversed(history_nodes):
        if id(recorded.call) in counted and recorded.node not in search.taken:
            search.at(recorded, creating if _is_scalar_constant(recorded.call) else selected)
    if patterns is True:
        ProgramValues(search, recording).restore(nodes)
    recorder.calls[:] = [search.replaced.get(id(call), call) for call in recorder.calls if id(call) not in search.gone]
    search.remove_unread_parameters()
    search.note_undecided()
    for text in search.near_misses.notes() if explained else ():
        recording.note(text)
    return search.found[::-1]


def _is_scalar_constant(call: Call) -> bool:
    # Such a call costs nothing.
    return call.layer.op == "constant" and all(tensor.size == 1 for tensor in call.layer.outputs)


def _selected(
    patterns: bool | Collection[str], overrides: Mapping[str, Pattern | None]
) -> Iterator[tuple[str, Decomposition]]:
    for name, decomposition in PATTERNS.items():
        if not isinstance(patterns, bool):
            if name in patterns:
                yield name, decomposition
            continue
        pattern = overrides.get(name, decomposition.pattern)
        if pattern is not None:
            yield name, decomposition._replace(pattern=pattern)


def _readers(read_outside: Iterable[Value], nodes: Iterable[RecordedNode]) -> dict[Value, set[Node | None]]:
    # None: a reader that is not a recorded node
    readers: dict[Value, set[Node | None]] = {value: {None} for value in read_outside}
    for recorded in nodes:
        for value in recorded.node.inputs[: ELEMENTS_READ.get(recorded.node.op)]:
            if value is not None:
                readers.setdefault(value, set()).add(recorded.node)
    return readers


class Search:
    """The search for groups of nodes.

    Args:
        recording: the run.
        nodes: the counted nodes.
        readers: the nodes that read each value; None stands for any other reader.
        explained: names of patterns; notes explain their near misses.
        match_hand_written: whether to also match operators that the user's program decomposed.

    Attributes:
        found: the groups found so far, last nodes first.
        taken: the nodes in these groups.
        gone: ids of calls that are replaced by another call.
        replaced: the new call of each group, by id of the call of its last node.
        groups: the groups by their last nodes.
        graph: the node that produces each value.
        near_misses: reasons why nodes do not match patterns.
        program: the operations of the user's program in node metadata.
    """

    graph: NodeGraph
    near_misses: NearMisses
    program: Program

    def __init__(
        self,
        recording: Recording,
        nodes: Collection[RecordedNode],
        readers: dict[Value, set[Node | None]],
        explained: Collection[str],
        *,
        match_hand_written: bool,
    ) -> None:
        self.graph = NodeGraph({v: recorded for recorded in nodes for v in recorded.node.outputs if v is not None})
        self.near_misses = NearMisses(explained)
        self.program = Program(origin(recorded.node.proto) for recorded in nodes)
        self.found: list[Regrouping] = []
        self.taken: set[Node] = set()
        self.gone: set[int] = set()
        self.replaced: dict[int, Call] = {}
        self.groups: dict[Node, Group] = {}
        self._recording = recording
        self._readers = readers
        self._recorded = {recorded.node: recorded for recorded in nodes}
        self._match_hand_written = match_hand_written
        self._stored: dict[int, StoredTensor] = {}
        self._undecided: dict[tuple[str, Equal], dict[str, None]] = {}
        """The last nodes of groups that only match for some sizes, by pattern and sizes."""

    def at(self, root: RecordedNode, patterns: Mapping[str, Decomposition]) -> None:
        """Look for a group that ends in ``root``."""
        for name, decomposition in patterns.items():
            if root.node.op in decomposition.roots:
                self.graph.misses = Misses() if name in self.near_misses.patterns else None
                group = next(self._groups(name, decomposition, root), None)
                if group is not None:
                    self._take(root, group)
                    return
                self.near_misses.add(name, self.graph.misses, root.node.label)

    def _groups(self, name: str, decomposition: Decomposition, root: RecordedNode) -> Iterator[Group]:
        for match in matches(decomposition.pattern, root.node.outputs[0], self.graph):
            outputs = [match.values[output] for output in decomposition.outputs if output in match.values]
            group: Group | str | None = self.obstacle(match.nodes, decomposition, outputs)
            if not group:
                try:
                    group = decomposition.build(match, SearchExtension(self, decomposition))
                except DependsOnSizes as some:
                    self._undecided.setdefault((name, some.equal), {})[root.node.label] = None
                    group = str(some)
            if isinstance(group, Group) and all(value.shape is not None for value in group.operands.values()):
                yield group
            elif self.graph.misses is not None:
                self.graph.misses.refuse(len(match.nodes), group if isinstance(group, str) else None)

    def obstacle(
        self, nodes: tuple[RecordedNode, ...], decomposition: Decomposition, outputs: Collection[Value] = ()
    ) -> str:
        """Return why these nodes cannot be one operator; ``""`` if they can.

        No other node may read an inner value, and the nodes must come from one operation.

        Args:
            nodes: the nodes, the root first.
            decomposition: how exporters decompose the operator.
            outputs: values that other nodes may read.
        """
        root, inside = nodes[0], {recorded.node for recorded in nodes}
        if inside & self.taken:
            return "some of the nodes are counted as another operator"
        if any(
            recorded.call.times != root.call.times or recorded.call.region != root.call.region for recorded in nodes
        ):
            return "the nodes are in different loops or branches"
        between = (value for node in inside if node is not root.node for value in node.outputs if value not in outputs)
        if any(value is not None and not self._readers.get(value, set()) <= inside for value in between):
            return "other nodes read a value between these nodes"
        if any(value is not None and self._readers.get(value) for value in root.node.outputs[1:]):
            return "other nodes read another output of the last node"
        if self._match_hand_written or decomposition.is_written_for([node.proto for node in inside]):
            return ""
        return "the nodes come from several operations of the program: name the pattern in regroup to match them"

    def _take(self, root: RecordedNode, group: Group) -> None:
        nodes = sorted(
            {recorded.position: recorded for recorded in group.nodes}.values(), key=lambda recorded: recorded.position
        )
        self.taken.update(recorded.node for recorded in nodes)
        self.gone.update(id(recorded.call) for recorded in nodes if recorded is not root)
        for value in (value for recorded in nodes for value in recorded.node.inputs):
            if value is not None and value.stored is not None:
                self._stored[id(value.stored)] = value.stored
        self.groups[root.node] = group
        layer = self.layer_of(group, root)
        inputs = tuple(self._recording.identity(value) for value in group.operands.values())
        self.replaced[id(root.call)] = root.call._replace(
            layer=layer,
            type=group.type,
            native=f"ai.onnx::{group.type}",
            name=self._key_of(nodes, group.outputs or root.node.outputs),
            module=common_module([recorded.call.module for recorded in nodes]),
            inputs=inputs,
            outputs=tuple(map(self._recording.identity, group.outputs)) or root.call.outputs,
            parameters=tuple(i for i, t in zip(inputs, layer.inputs.values(), strict=True) if t.role == "param"),
        )
        self.found.append(Regrouping(group.op, tuple(recorded.node.label for recorded in nodes)))

    def layer_of(self, group: Group, root: RecordedNode) -> Layer:
        """Return the layer of a group that ends in ``root``."""
        tensors = {
            name: value.tensor(ROLES.get(name.rstrip(string.digits), "data")) for name, value in group.operands.items()
        }
        outputs = [value.tensor("data") for value in group.outputs] or root.call.layer.outputs
        return self._recording.recorder.intern(Layer(group.op, tensors, outputs, group.attrs))

    def _key_of(self, nodes: Sequence[RecordedNode], outputs: Collection[Value | None]) -> str:
        recorder, produced = self._recording.recorder, []
        of_nodes = [recorder.nodes[recorded.call.name] for recorded in nodes]
        for recorded, known in zip(nodes, of_nodes, strict=True):
            values = [v for v, name in zip(recorded.node.outputs, recorded.node.proto.output, strict=False) if name]
            produced += [name for value, name in zip(values, known.outputs, strict=False) if value in outputs]
        names = tuple(name for known in of_nodes for name in known.names)
        return recorder.nodes_key(GraphNodes(names, tuple(produced)))

    def readers(self, value: Value) -> list[RecordedNode | None]:
        """Return the nodes that read the elements of a value; None for a reader that is not counted."""
        return [None if node is None else self._recorded.get(node) for node in self._readers.get(value, ())]

    def remove_unread_parameters(self) -> None:
        """Remove parameters that only replaced nodes read, such as ones and zeros of a normalization."""
        recorder = self._recording.recorder
        read = {identity for call in recorder.calls for identity in call.parameters}
        for stored in self._stored.values():
            if stored.identity in recorder.parameters and stored.identity not in read:
                del recorder.parameters[stored.identity]
                stored.uses = {"configuration"}

    def note_undecided(self) -> None:
        """Add notes on groups that only match for some sizes."""
        for (pattern, equal), labels in self._undecided.items():
            sizes = " and ".join(f"{a} = {b}" for a, b in equal)
            given = {str(name): b if isinstance(b, int) else str(b) for name, b in equal}
            self._recording.note(
                f"regroup: whether groups of nodes are {pattern} depends on sizes; the nodes were counted one by one. "
                f"If {sizes}, give dims={given}. The groups end in {joined([*labels])}"
            )


@dataclass(frozen=True)
class SearchExtension:
    """The search for further nodes of a group; see ``matcher.Extension``."""

    search: Search
    decomposition: Decomposition

    @property
    def program(self) -> Program:
        """The operations of the user's program."""
        return self.search.program

    def whole(self, value: Value) -> Value:
        """Return the tensor that a value is a slice of, else the value itself."""
        recorded = self.search.graph.producers.get(value)
        while recorded is not None and recorded.node.op in SLICING and (source := recorded.node.inputs[0]) is not None:
            value, recorded = source, self.search.graph.producers.get(source)
        return value

    def producer(self, value: Value) -> RecordedNode | None:
        """Return the counted node that produces a value."""
        return self.search.graph.producers.get(value)

    def readers(self, value: Value) -> list[RecordedNode | None]:
        """Return the nodes that read the elements of a value; None for a reader that is not counted."""
        return self.search.readers(value)

    def is_separate(self, match: Match, outputs: Collection[Value]) -> bool:
        """Return True if no other node reads the inner values of a match, except for these outputs."""
        return not self.search.obstacle(match.nodes, self.decomposition, outputs)

    def __call__(self, match: Match, value: Value, pattern: Pattern, shared: bool = False) -> Match | None:
        """Extend a match by the nodes that produced ``value``, if they fit ``pattern``.

        Unless ``shared``, no other node may read their results.
        """
        found = matches(pattern, value, self.search.graph, match)
        separate = (longer for longer in found if shared or not self.search.obstacle(longer.nodes, self.decomposition))
        return next(separate, None)


# Patterns by name


PATTERNS: Mapping[str, Decomposition] = {
    "attention": ATTENTION,
    "linear": LINEAR,
    "conv": CONV,
    "layer_norm": LAYER_NORM,
    "rms_norm": RMS_NORM,
    "weight_norm": WEIGHT_NORM,
    "group_norm": GROUP_NORM,
    "plain_norm": PLAIN_NORM,
    **LOSSES,
    "gelu": GELU,
    "gelu_tanh": GELU_TANH,
    "silu": SILU,
    "elu": ELU,
    "softplus": SOFTPLUS,
    "mish": MISH,
    "hard_shrink": HARD_SHRINK,
    "soft_shrink": SOFT_SHRINK,
    "threshold": THRESHOLD,
    "log_sigmoid": LOG_SIGMOID,
    "hard_swish": HARD_SWISH,
    "glu": GLU,
    "addcmul": ADDCMUL,
    "addcdiv": ADDCDIV,
    "lerp": LERP,
    "expm1": EXPM1,
    "log1p": LOG1P,
    "log2": LOG2,
    "floor_div": FLOOR_DIV,
    "remainder": REMAINDER,
    "atan2": ATAN2,
    "std": STD,
    "var": VAR,
    "cosine_similarity": COSINE_SIMILARITY,
    "pairwise_distances": PAIRWISE_DISTANCES,
    "pairwise_distance": PAIRWISE_DISTANCE,
    "one_hot": ONE_HOT,
    "linear_resize": LINEAR_RESIZE,
    "im2col": IM2COL,
    "circular_pad": CIRCULAR_PAD,
    "not_equal": NOT_EQUAL,
    "rsqrt": RSQRT,
    "full": FULL,
    "assign": ASSIGN,
    "identity": IDENTITY,
    "slice": SLICE,
    "roll": ROLL,
    "gather": GATHER,
    "index": INDEX,
    "as_strided": AS_STRIDED,
    "adaptive_avg_pool": ADAPTIVE_AVG_POOL,
    "baddbmm": BADDBMM,
    "bilinear": BILINEAR,
    "rnn": RNN,
    "rnn_cell": RNN_CELL,
    "lstm_cell": LSTM_CELL,
    "gru_cell": GRU_CELL,
}
"""The patterns that ``regroup=True`` looks for, by name."""

TORCHSCRIPT_PATTERNS: Mapping[str, Pattern | None] = {
    "gelu": TORCHSCRIPT_GELU,
    "gelu_tanh": TORCHSCRIPT_GELU_TANH,
    "rms_norm": None,
    "roll": TORCHSCRIPT_ROLL,
    "softplus": TORCHSCRIPT_SOFTPLUS,
    "addcmul": TORCHSCRIPT_ADDCMUL,
    "baddbmm": TORCHSCRIPT_BADDBMM,
    "hard_shrink": TORCHSCRIPT_HARD_SHRINK,
    "soft_shrink": TORCHSCRIPT_SOFT_SHRINK,
    "cosine_similarity": TORCHSCRIPT_COSINE_SIMILARITY,
    "pairwise_distance": TORCHSCRIPT_PAIRWISE_DISTANCE,
    **TORCHSCRIPT_LOSSES,
}
"""Patterns of PyTorch's TorchScript-based exporter, if they differ; None for an operator that it never decomposes.

It writes no operations into metadata. It cannot export ``rms_norm``, so equivalent nodes come from several operations
of the user's program.
"""


# Values as in the user's program: constants, repetitions, conversions


PROMOTION = "target=torch.ops.prims.convert_element_type."
"""The metadata of a conversion that PyTorch's operator does itself; the exporter writes it as a node."""

CREATED = frozenset(CREATES.values())


class Groups(Protocol):
    """The groups found so far; see :class:`Search`."""

    taken: set[Node]
    gone: set[int]
    replaced: dict[int, Call]
    groups: dict[Node, Group]

    def readers(self, value: Value) -> list[RecordedNode | None]:
        """Return the nodes that read the elements of a value; None for a reader that is not counted."""

    def layer_of(self, group: Group, root: RecordedNode) -> Layer:
        """Return the layer of a group that ends in ``root``."""


@dataclass
class ProgramValues:
    """Restores values of the user's program that the exporter changed.

    The exporter folds values that PyTorch computes or reads in every run: results of constants, tensors filled with one
    number, buffers of one element. It also writes conversions that PyTorch's operators do themselves.

    Args:
        search: the groups.
        recording: the run.

    Attributes:
        changed: the restored values; their readers are counted again.
    """

    search: Groups
    recording: Recording
    changed: set[Value] = field(default_factory=set)

    def restore(self, nodes: Sequence[RecordedNode]) -> None:
        """Count nodes again, in order, with the values of the program."""
        read, computed = self._read(nodes), 0
        for recorded in nodes:
            node = recorded.node
            self._read_buffers(node)
            if node in self.search.taken:
                self._regroup(recorded, read)
            elif (promoted := self._promoted(recorded)) is not None:
                self._change(node, promoted.dtype, promoted.spread)
                self.search.gone.add(id(recorded.call))
            elif recorded.call.layer.op == "constant":
                if _is_computed(recorded) and _is_read(node, read):
                    self._change(node, spread=_repeated(node))
                    computed += self._count(recorded)
            elif not self.changed.isdisjoint(node.inputs):
                if node.op != "Expand" and node.outputs[0] is not None and node.outputs[0].spread is not None:
                    self._change(node)
                self._count(recorded)
        if computed:
            self.recording.note(f"regroup: PyTorch computes {computed} constants in every run; they are counted")

    def _read(self, nodes: Sequence[RecordedNode]) -> set[int]:
        # A node whose results are constants does not count as a reader.
        read: set[int] = set()
        for recorded in reversed(nodes):
            node, group = recorded.node, self.search.groups.get(recorded.node)
            if (node not in self.search.taken or group is not None) and self._is_live(node, read):
                read.update(map(_key, node.inputs if group is None else group.operands.values()))
        return read

    def _is_live(self, node: Node, read: set[int]) -> bool:
        # An unused result counts if it is not a constant.
        if _is_read(node, read):
            return True
        values = [value for value in node.outputs if value is not None]
        readers = [reader for value in values for reader in self.search.readers(value)]
        return any(value.role != "const" for value in values) and (not readers or None in readers)

    def _change(self, node: Node, dtype: str = "", spread: tuple[object, ...] | None = None) -> None:
        for value in node.outputs:
            if value is not None:
                value.role, value.spread, value.dtype = "data", spread, dtype or value.dtype
                self.changed.add(value)

    def _read_buffers(self, node: Node) -> None:
        # PyTorch reads a buffer of one element from memory; a number in the program is not read.
        for value in node.inputs:
            if value is not None and value.stored is not None and value.stored.is_in_program and value.size == 1:
                value.role = "data"
                self.changed.add(value)

    def _regroup(self, recorded: RecordedNode, read: set[int]) -> None:
        # Unused tensors that the program creates are not counted.
        group, call = self.search.groups.get(recorded.node), self.search.replaced.get(id(recorded.call))
        if group is None or call is None:
            return
        if group.op in CREATED:
            if not _is_read(recorded.node, read):
                del self.search.replaced[id(recorded.call)]
                return
            group = group._replace(outputs=tuple(filter(None, recorded.node.outputs)))
            self._change(recorded.node)
        if group.op in CREATED or not self.changed.isdisjoint(group.operands.values()):
            self.search.replaced[id(recorded.call)] = call._replace(layer=self.search.layer_of(group, recorded))

    def _promoted(self, recorded: RecordedNode) -> Value | None:
        # The operand of a conversion that PyTorch's operator does itself; None for other nodes.
        node = recorded.node
        if node.op != "Cast" or PROMOTION not in origin(node.proto):
            return None
        readers = [reader for value in node.outputs if value is not None for reader in self.search.readers(value)]
        return None if any(r is None or r.node in self.search.taken for r in readers) else node.inputs[0]

    def _count(self, recorded: RecordedNode) -> bool:
        # Returns False if the node has no formula, or is counted by another node.
        translation: Translation = self.recording.on_constants(recorded.node)
        if not translation.has_row or recorded.call.layer.op not in ("constant", translation.layer.op):
            return False
        layer = self.recording.recorder.intern(translation.layer)
        inputs = tuple(map(self.recording.identity, translation.inputs))
        self.search.replaced[id(recorded.call)] = recorded.call._replace(layer=layer, inputs=inputs)
        return True


def _key(value: Value | None) -> int:
    # Copies of a value in groups have the same identity.
    return 0 if value is None else value.identity or -id(value)


def _is_read(node: Node, read: set[int]) -> bool:
    return any(value is not None and _key(value) in read for value in node.outputs)


def _is_computed(recorded: RecordedNode) -> bool:
    # Several nodes may come from one operation; only the node with its result counts.
    proto = recorded.node.proto
    source = operation(origin(proto))
    if source is None or source.name in CREATES or source.name == "scalar_tensor":
        return False
    return source.result == f"%{proto.output[0]}"


def _repeated(node: Node) -> tuple[object, ...] | None:
    x, y = node.inputs[0] if node.inputs else None, node.outputs[0]
    if node.op != "Expand" or x is None or x.shape is None or y is None or x.size == y.size:
        return None
    return x.shape
