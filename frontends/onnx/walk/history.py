"""The recorded nodes of a walk, which the pattern matching of ``frontends/onnx/regroup`` reads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from costcore.trace.call import Call

from ..graph.node import Node
from ..values.value import Value


class RecordedNode(NamedTuple):
    """A recorded node, its call, and its position among all recorded nodes."""

    node: Node
    call: Call
    position: int


class NodeHistory:
    """Every recorded node with its call, in order.

    Attributes:
        read_outside: values that something other than a recorded node reads: a graph output, a subgraph.
    """

    def __init__(self) -> None:
        self.read_outside: list[Value] = []
        self._nodes: list[tuple[Node, Call]] = []
        self._replaced: dict[int, tuple[Call, Call]] = {}

    def add(self, node: Node, call: Call) -> None:
        """Append a recorded node."""
        self._nodes.append((node, call))

    def mark_read(self, values: Iterable[Value | None]) -> None:
        """Note that something other than a recorded node reads these values."""
        self.read_outside += [value for value in values if value is not None]

    def replace(self, old: Call, new: Call) -> None:
        """Note that ``new`` replaces ``old`` in the run."""
        self._replaced[id(old)] = old, new  # with the old call, so that its id stays its own

    def nodes(self) -> list[RecordedNode]:
        """Return the recorded nodes, each with the call that stands for it in the run."""
        return [RecordedNode(node, self._current(call), i) for i, (node, call) in enumerate(self._nodes)]

    def _current(self, call: Call) -> Call:
        while id(call) in self._replaced:
            call = self._replaced[id(call)][1]
        return call
