"""Count as one operator what an exporter decomposed into several nodes: exact patterns, on request only."""

from __future__ import annotations

import string
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from costcore.ir import Layer
from costcore.trace.call import Call
from costcore.trace.patterns import Misses, NearMisses, Pattern, common_module, matches
from costcore.trace.run import GraphNodes, Regrouping
from costcore.translate import ROLES

from ..graph.messages import joined
from ..graph.node import Node
from ..reading.exporter_metadata import origin
from ..values.value import StoredTensor, Value
from ..walk.history import NodeHistory, RecordedNode
from ..walk.recording import Recording
from .exported_program import Program
from .matcher import Decomposition, DependsOnSizes, Equal, Group, Match, NodeGraph
from .patterns.catalog import PATTERNS, TORCHSCRIPT_PATTERNS
from .program_values import ProgramValues

ELEMENTS_READ = {"Shape": 0, "Size": 0, "CastLike": 1}
"""For operators that read only the shape or dtype of some inputs: how many leading inputs they read the elements of."""

SLICING = ("Slice", "Split")
"""Operators that take a part of their first input."""


def regroup_nodes(
    recording: Recording,
    history: NodeHistory,
    producer: str,
    patterns: bool | Collection[str],
    explained: Collection[str],
) -> list[Regrouping]:
    """Replace the calls of every group of nodes that decomposes one operator by one call.

    All nodes of a group must run equally often, and in the same loop body or branch. Nothing outside the group may read
    a value inside it: no other node, no subgraph, no output of the model.

    If ``patterns`` is True, the exporter must have decomposed the operator. If it writes into the metadata of each node
    which operation of the user's program the node comes from, all nodes must come from the same operation, or from a
    call that PyTorch itself decomposes. If it writes no such metadata, the nodes must be exactly those that it writes
    for the operator.

    Args:
        recording: the run.
        history: the recorded nodes.
        producer: the exporter, as the model names it.
        patterns: True, or names of ``PATTERNS`` (``patterns/catalog.py``), which match hand-written nodes too.
        explained: names of the patterns of which to note why other nodes are not these operators.

    Returns:
        The groups in the order of their nodes.
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
            search.at(recorded, creating if _is_size(recorded.call) else selected)
    if patterns is True:
        ProgramValues(search, recording).restore(nodes)
    recorder.calls[:] = [search.replaced.get(id(call), call) for call in recorder.calls if id(call) not in search.gone]
    search.remove_unread_parameters()
    search.note_undecided()
    for text in search.near_misses.notes() if explained else ():
        recording.note(text)
    return search.found[::-1]


def _is_size(call: Call) -> bool:
    """Return whether a call computes a number that is known before the run, such as a size: it costs nothing."""
    return call.layer.op == "constant" and all(tensor.size == 1 for tensor in call.layer.outputs)


def _selected(
    patterns: bool | Collection[str], overrides: Mapping[str, Pattern | None]
) -> Iterator[tuple[str, Decomposition]]:
    """Yield the patterns of these names, else all, by name and as the exporter writes them."""
    for name, decomposition in PATTERNS.items():
        if not isinstance(patterns, bool):
            if name in patterns:
                yield name, decomposition
            continue
        pattern = overrides.get(name, decomposition.pattern)
        if pattern is not None:
            yield name, decomposition._replace(pattern=pattern)


def _readers(read_outside: Iterable[Value], nodes: Iterable[RecordedNode]) -> dict[Value, set[Node | None]]:
    """Return the nodes that read the elements of each value; None for a reader that is not a recorded node."""
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
        nodes: the nodes that are counted.
        readers: the nodes that read each value, None for any other reader.
        explained: patterns of which to note why nodes do not match them.
        match_hand_written: whether the user's program, too, may have decomposed the operator.

    Attributes:
        found: the groups found so far, the last nodes first.
        taken: nodes of these groups.
        gone: ids of calls that another call replaces.
        replaced: the call of each group, by id of the call of its last node.
        groups: the groups by their last nodes.
        graph: the node that produces each value.
        near_misses: why nodes do not match patterns.
        program: the operations that nodes were written for.
    """

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
        """The last nodes of groups that are one operator for some sizes only, by its pattern and these sizes."""

    def at(self, root: RecordedNode, patterns: Mapping[str, Decomposition]) -> None:
        """Take the first group that ends in ``root``."""
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
        """Return ``""`` if nothing outside reads between these nodes, and one operation was decomposed into them.

        Args:
            nodes: the nodes, the root first.
            decomposition: how exporters decompose the operator.
            outputs: values that may be read outside.
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
            return "others read a value between the nodes"
        if any(value is not None and self._readers.get(value) for value in root.node.outputs[1:]):
            return "others read a further output of the last node"
        if self._match_hand_written or decomposition.is_written_for([node.proto for node in inside]):
            return ""
        return "the exporter wrote the nodes for several operations, and only a pattern that is named matches these"

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
        """Return the name, until the report is made, of the call that stands for ``nodes`` and produces ``outputs``."""
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
        """Remove the parameters that only replaced nodes read, such as the ones and zeros of a normalization."""
        recorder = self._recording.recorder
        read = {identity for call in recorder.calls for identity in call.parameters}
        for stored in self._stored.values():
            if stored.identity in recorder.parameters and stored.identity not in read:
                del recorder.parameters[stored.identity]
                stored.uses = {"configuration"}

    def note_undecided(self) -> None:
        """Note the groups that are one operator for some sizes only."""
        for (pattern, equal), labels in self._undecided.items():
            sizes = " and ".join(f"{a} = {b}" for a, b in equal)
            given = {str(name): b if isinstance(b, int) else str(b) for name, b in equal}
            self._recording.note(
                f"regroup: whether groups of nodes are {pattern} depends on sizes; the nodes were counted one by one. "
                f"They are if {sizes}: give dims={given}. The groups end in {joined([*labels])}"
            )


@dataclass(frozen=True)
class SearchExtension:
    """The search for further nodes of a group, see ``matcher.Extension``."""

    search: Search
    decomposition: Decomposition

    @property
    def program(self) -> Program:
        """The operations that nodes were written for."""
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
        """Return True if nothing outside reads between the nodes of a match, except for these outputs."""
        return not self.search.obstacle(match.nodes, self.decomposition, outputs)

    def __call__(self, match: Match, value: Value, pattern: Pattern, shared: bool = False) -> Match | None:
        """Return ``match`` with the nodes that produced ``value``, if they fit ``pattern``.

        Unless they may be ``shared``, nothing outside may read from them.
        """
        found = matches(pattern, value, self.search.graph, match)
        separate = (longer for longer in found if shared or not self.search.obstacle(longer.nodes, self.decomposition))
        return next(separate, None)
