"""How exporters decompose operators: patterns of nodes, what a match must hold besides, and the operator that it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from math import isinf
from typing import Any, NamedTuple, Protocol, TypeAlias

from costcore.numbers.dims import Dim
from costcore.trace import patterns
from costcore.trace.patterns import Misses, Number, Op, Operand, Pattern

from ..reading.exporter_metadata import origin, source_line
from ..values.value import Value
from ..walk.history import RecordedNode
from .exported_program import Program

TOLERANCE = {"float16": 1e-3, "bfloat16": 8e-3}
"""Relative tolerance for a constant, by dtype; 1e-6 for all others."""

Match: TypeAlias = patterns.Match[Value, RecordedNode]
"""A match of a pattern: values by name, and the nodes between these and the root, the root first."""


@dataclass(slots=True)
class NodeGraph:
    """The recorded nodes, as patterns are matched against them; see :class:`costcore.trace.patterns.Graph`.

    Attributes:
        producers: the node that produces each value.
    """

    producers: Mapping[Value, RecordedNode]
    misses: Misses | None = None
    commutative: Collection[str] = ("Add", "Mul")

    def described(self, value: Value) -> tuple[str, str]:
        """Return the name of a value, and a sentence on where it comes from."""
        recorded = self.producers.get(value)
        if recorded is not None:
            pairs = zip(recorded.node.proto.output, recorded.node.outputs, strict=False)
            return next(name for name, made in pairs if made is value), f"a value is computed by {recorded.node.op}"
        name = value.stored.name if value.stored is not None else ""
        if value.data is not None and value.data.size == 1:
            return name, f"a value is the constant {value.data.item()}"
        return name, f"a value is {'stored' if name else 'an input'}"

    def between(self, bound: Value, value: Value, moved: bool) -> tuple[RecordedNode, ...] | None:
        """Return no nodes if both are the same value, or constants of the same number, else None."""
        if bound is value:
            return ()
        is_scalar = bound.role != "data" and bound.data is not None and bound.data.size == 1
        return () if is_scalar and is_number(value, bound.data.item()) else None

    def number(self, value: Value, number: float | None) -> tuple[RecordedNode, ...] | None:
        """Return no nodes for a constant whose elements are this number, else None."""
        return () if is_number(value, number) else None

    def computed(self, value: Value, op: Op) -> tuple[tuple[RecordedNode], list[Value | None]] | str:
        """Return the node that computes a value; its further inputs must be constants."""
        recorded, count = self.producers.get(value), len(op.operands)
        if recorded is None or recorded.node.key != f"ai.onnx::{op.kind}":
            return op.kind
        node = recorded.node
        if op.output >= len(node.outputs) or node.outputs[op.output] is not value:
            return f"output {op.output} of it"
        if len(node.inputs) < count or (
            count and any(x is not None and x.role != "const" for x in node.inputs[count:])
        ):
            return f"{op.kind} of {count}"
        if op.check is not None and not op.check(recorded):
            return f"{op.kind} with other attributes"
        return (recorded,), node.inputs[:count]


def is_number(value: Value, number: float | None) -> bool:
    """Return True for a constant whose elements are this number, up to the rounding of its dtype."""
    if value.role == "data" or value.data is None or not value.data.size:
        return False
    if number is None:
        return bool(value.data.size == 1)
    near = TOLERANCE.get(value.dtype, 1e-6) * abs(number)
    return all(
        isinstance(x, (int, float)) and (x == number if isinf(number) else abs(x - number) <= near)
        for x in value.data.flat
    )


def last_axis(recorded: RecordedNode) -> bool:
    """Return True if the attribute ``axis`` of a layer is its last axis."""
    axis: Any = recorded.call.layer.attrs.get("axis")
    return bool(axis == recorded.call.layer.out.ndim - 1)


Equal: TypeAlias = "tuple[tuple[Dim, Dim], ...]"
"""Pairs of sizes that must be equal."""


class DependsOnSizes(Exception):  # noqa: N818 - no error: it ends the check of one match
    """A match computes the operator for some sizes only.

    Args:
        equal: pairs of sizes that must be equal.
    """

    def __init__(self, equal: Equal) -> None:
        super().__init__(", ".join(f"{a} = {b}" for a, b in equal))
        self.equal = equal


class Group(NamedTuple):
    """A group of nodes that decomposes one operator.

    Attributes:
        op: canonical name of the operator.
        type: its op_type in ONNX.
        operands: its operands by canonical name.
        attrs: its attributes.
        nodes: the nodes, the root first.
        outputs: its outputs; empty for those of the root.
    """

    op: str
    type: str
    operands: Mapping[str, Value]
    attrs: Mapping[str, Any]
    nodes: tuple[RecordedNode, ...]
    outputs: tuple[Value, ...] = ()


class Extension(Protocol):
    """Extends a match by the nodes that produced a value."""

    @property
    def program(self) -> Program:
        """The operations that nodes were written for."""

    def whole(self, value: Value) -> Value:
        """Return the tensor that a value is a slice of, else the value itself."""

    def producer(self, value: Value) -> RecordedNode | None:
        """Return the counted node that produces a value."""

    def readers(self, value: Value) -> list[RecordedNode | None]:
        """Return the nodes that read the elements of a value; None for a reader that is not counted."""

    def is_separate(self, match: Match, outputs: Collection[Value]) -> bool:
        """Return True if nothing outside reads between the nodes of a match, except for these outputs."""

    def __call__(self, match: Match, value: Value, pattern: Pattern, shared: bool = False) -> Match | None:
        """Return the longer match; None if ``pattern`` does not fit, or if other nodes read between its nodes.

        With ``shared``, other nodes may read between them.
        """


class Decomposition(NamedTuple):
    """How exporters decompose one operator.

    Attributes:
        roots: op_types of the last node.
        pattern: the nodes.
        build: returns the group for a match; if the match does not compute the operator, why, or None if its shapes or
            dtypes say so. It may raise :class:`DependsOnSizes`.
        source_call: the call, as a regular expression, that PyTorch itself decomposes before its exporter sees it.
        outputs: names of values of the match that other nodes may read, as further outputs of the operator.
        is_hook: whether these nodes (``NodeProto``) come from a hook of PyTorch, which no line of the program calls.
        needs_origin: whether nodes without any origin are not taken for the operator, as they are often something else.
    """

    roots: tuple[str, ...]
    pattern: Pattern
    build: Callable[[Match, Extension], Group | str | None]
    source_call: str = ""
    outputs: tuple[str, ...] = ()
    is_hook: Callable[[Collection[Any]], bool] | None = None
    needs_origin: bool = False

    def is_written_for(self, nodes: Collection[Any]) -> bool:
        """Return True if the exporter wrote these nodes (``NodeProto``) for one operation, or for one call.

        A node without an origin was written by the exporter's optimizer, in place of others between these.
        """
        origins = {origin(node): node for node in nodes}
        if len(origins) == 1:
            return not self.needs_origin or "" not in origins
        if self.source_call and all(re.search(self.source_call, source_line(p)) for o, p in origins.items() if o):
            return True
        return self.is_hook is not None and self.is_hook(nodes)


X, X0, X1, X2, W, B = (Operand(name) for name in ("x", "x0", "x1", "x2", "w", "b"))
ONE = Number(1.0)
"""Operands of patterns by their names in calculators, and the number one."""
