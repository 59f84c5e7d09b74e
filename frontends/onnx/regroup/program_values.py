"""Count values as the user's program has them, where its exporter wrote others: constants, repetitions, conversions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from costcore.ir import Layer
from costcore.trace.call import Call
from costcore.translate import Translation

from ..graph.node import Node
from ..reading.exporter_metadata import origin
from ..values.value import Value
from ..walk.history import RecordedNode
from ..walk.recording import Recording
from .exported_program import CREATES, operation
from .matcher import Group

PROMOTION = "target=torch.ops.prims.convert_element_type."
"""What the metadata of conversions contains that the exporter writes because PyTorch's operator converts by itself."""

CREATED = frozenset(CREATES.values())


class Groups(Protocol):
    """The groups found so far, see ``regroup.Search``."""

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
    """Values that PyTorch computes in every run, or reads in another form than the file has.

    A file has fewer of them than the program: what follows from constants, a tensor that is filled with one number,
    a buffer of one element. Or more: PyTorch's operators convert their operands by themselves.

    Args:
        search: the groups.
        recording: the run.

    Attributes:
        changed: the values whose readers are counted anew.
    """

    search: Groups
    recording: Recording
    changed: set[Value] = field(default_factory=set)

    def restore(self, nodes: Sequence[RecordedNode]) -> None:
        """Count these nodes, given in their order, by the values that the program has."""
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
        """Return the values on which results that are not constants depend, in the calls as they are regrouped."""
        read: set[int] = set()
        for recorded in reversed(nodes):
            node, group = recorded.node, self.search.groups.get(recorded.node)
            if (node not in self.search.taken or group is not None) and self._is_live(node, read):
                read.update(map(_key, node.inputs if group is None else group.operands.values()))
        return read

    def _is_live(self, node: Node, read: set[int]) -> bool:
        """Return True if a result of a node is read, or is not a constant and was never read."""
        if _is_read(node, read):
            return True
        values = [value for value in node.outputs if value is not None]
        readers = [reader for value in values for reader in self.search.readers(value)]
        return any(value.role != "const" for value in values) and (not readers or None in readers)

    def _change(self, node: Node, dtype: str = "", spread: tuple[object, ...] | None = None) -> None:
        """Note that operators read the outputs of a node in full, or in this form."""
        for value in node.outputs:
            if value is not None:
                value.role, value.spread, value.dtype = "data", spread, dtype or value.dtype
                self.changed.add(value)

    def _read_buffers(self, node: Node) -> None:
        """Note that PyTorch reads a buffer of one element from memory, unlike a number of the program."""
        for value in node.inputs:
            if value is not None and value.stored is not None and value.stored.is_in_program and value.size == 1:
                value.role = "data"
                self.changed.add(value)

    def _regroup(self, recorded: RecordedNode, read: set[int]) -> None:
        """Count a group by the values that the program has; what only constants follow from is not computed."""
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
        """Return the operand of a conversion that PyTorch's operator does by itself."""
        node = recorded.node
        if node.op != "Cast" or PROMOTION not in origin(node.proto):
            return None
        readers = [reader for value in node.outputs if value is not None for reader in self.search.readers(value)]
        return None if any(r is None or r.node in self.search.taken for r in readers) else node.inputs[0]

    def _count(self, recorded: RecordedNode) -> bool:
        """Count a node by what it reads in PyTorch; return False if it has no formula, or is counted by another one."""
        translation: Translation = self.recording.on_constants(recorded.node)
        if not translation.has_row or recorded.call.layer.op not in ("constant", translation.layer.op):
            return False
        layer = self.recording.recorder.intern(translation.layer)
        inputs = tuple(map(self.recording.identity, translation.inputs))
        self.search.replaced[id(recorded.call)] = recorded.call._replace(layer=layer, inputs=inputs)
        return True


def _key(value: Value | None) -> int:
    """Return what a value and its copies in groups have in common."""
    return 0 if value is None else value.identity or -id(value)


def _is_read(node: Node, read: set[int]) -> bool:
    return any(value is not None and _key(value) in read for value in node.outputs)


def _is_computed(recorded: RecordedNode) -> bool:
    """Return True for a constant that an operation of the program computes by this node alone."""
    proto = recorded.node.proto
    source = operation(origin(proto))
    if source is None or source.name in CREATES or source.name == "scalar_tensor":
        return False
    return source.result == f"%{proto.output[0]}"


def _repeated(node: Node) -> tuple[object, ...] | None:
    """Return the shape of what ``Expand`` repeats; None for other operators."""
    x, y = node.inputs[0] if node.inputs else None, node.outputs[0]
    if node.op != "Expand" or x is None or x.shape is None or y is None or x.size == y.size:
        return None
    return x.shape
