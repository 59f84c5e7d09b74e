"""Decompositions of operators by exporters: patterns of nodes, checks of a match, and the resulting operator."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import isinf
from typing import Any, NamedTuple, Protocol, TypeAlias

from costcore.numbers import Dim
from costcore.trace import patterns
from costcore.trace.patterns import Misses, Number, Op, Operand, Pattern

from ..reading import origin, source_line
from ..values import Value
from ..walk.walker import RecordedNode

TOLERANCE = {"float16": 1e-3, "bfloat16": 8e-3}
"""Relative tolerances of constants by dtype; 1e-6 for other dtypes."""

Match: TypeAlias = patterns.Match[Value, RecordedNode]
"""A match of a pattern: values by name, and the matched nodes, root first."""


@dataclass(slots=True)
class NodeGraph:
    """The graph of recorded nodes for pattern matching; see :class:`costcore.trace.patterns.Graph`.

    Attributes:
        producers: the node that produces each value.
    """

    producers: Mapping[Value, RecordedNode]
    misses: Misses | None = None
    commutative: Collection[str] = ("Add", "Mul")

    def described(self, value: Value) -> tuple[str, str]:
        """Return the name of a value, and its origin in words."""
        recorded = self.producers.get(value)
        if recorded is not None:
            pairs = zip(recorded.node.proto.output, recorded.node.outputs, strict=False)
            return next(name for name, made in pairs if made is value), f"a value is computed by {recorded.node.op}"
        name = value.stored.name if value.stored is not None else ""
        if value.data is not None and value.data.size == 1:
            return name, f"a value is the constant {value.data.item()}"
        return name, f"a value is {'stored' if name else 'an input'}"

    def between(self, bound: Value, value: Value, moved: bool) -> tuple[RecordedNode, ...] | None:
        """Return () if both are the same value, or constants of the same number; else None."""
        if bound is value:
            return ()
        is_scalar = bound.role != "data" and bound.data is not None and bound.data.size == 1
        return () if is_scalar and is_number(value, bound.data.item()) else None

    def number(self, value: Value, number: float | None) -> tuple[RecordedNode, ...] | None:
        """Return () for a constant whose elements all are this number; else None."""
        return () if is_number(value, number) else None

    def computed(self, value: Value, op: Op) -> tuple[tuple[RecordedNode], list[Value | None]] | str:
        """Return the node of ``op`` that computes a value, with its operands; else the mismatch as text.

        Inputs beyond the operands of ``op`` must be constants.
        """
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
    """Return True for a constant whose elements all are this number, up to rounding."""
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
    """Return True if the attribute ``axis`` is the last axis."""
    axis: Any = recorded.call.layer.attrs.get("axis")
    return bool(axis == recorded.call.layer.out.ndim - 1)


Equal: TypeAlias = "tuple[tuple[Dim, Dim], ...]"
"""Pairs of sizes that must be equal."""


class DependsOnSizes(Exception):  # noqa: N818 - no error: it ends the check of one match
    """A match is the operator only for some sizes.

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
        outputs: its outputs; empty for the outputs of the root.
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
        """The operations of the user's program."""

    def whole(self, value: Value) -> Value:
        """Return the tensor that a value is a slice of, else the value itself."""

    def producer(self, value: Value) -> RecordedNode | None:
        """Return the counted node that produces a value."""

    def readers(self, value: Value) -> list[RecordedNode | None]:
        """Return the nodes that read the elements of a value; None for a reader that is not counted."""

    def is_separate(self, match: Match, outputs: Collection[Value]) -> bool:
        """Return True if no other node reads the inner values of a match, except for these outputs."""

    def __call__(self, match: Match, value: Value, pattern: Pattern, shared: bool = False) -> Match | None:
        """Return the extended match; None if ``pattern`` does not fit, or if other nodes read its inner values.

        With ``shared``, other nodes may read them.
        """


class Decomposition(NamedTuple):
    """The decomposition of one operator by exporters.

    Attributes:
        roots: the op_types of the last node.
        pattern: the pattern of the nodes.
        build: returns the group of a match. If the match is not the operator, it returns a reason (str), or None if
            shapes or dtypes do not fit; it may raise :class:`DependsOnSizes`.
        source_call: a regular expression for a call that PyTorch decomposes before export.
        outputs: names of matched values that other nodes may read, as further outputs of the operator.
        is_hook: returns whether nodes (``NodeProto``) come from a PyTorch hook, which no line of the program calls.
        needs_origin: whether to reject nodes without metadata on their operation, because they are often something
            else.
    """

    roots: tuple[str, ...]
    pattern: Pattern
    build: Callable[[Match, Extension], Group | str | None]
    source_call: str = ""
    outputs: tuple[str, ...] = ()
    is_hook: Callable[[Collection[Any]], bool] | None = None
    needs_origin: bool = False

    def is_written_for(self, nodes: Collection[Any]) -> bool:
        """Return True if these nodes (``NodeProto``) come from one operation, or from one call.

        A node without metadata was written by the exporter's optimizer, as a replacement of other such nodes.
        """
        origins = {origin(node): node for node in nodes}
        if len(origins) == 1:
            return not self.needs_origin or "" not in origins
        if self.source_call and all(re.search(self.source_call, source_line(p)) for o, p in origins.items() if o):
            return True
        return self.is_hook is not None and self.is_hook(nodes)


X, X0, X1, X2, W, B = (Operand(name) for name in ("x", "x0", "x1", "x2", "w", "b"))

ONE = Number(1.0)
"""Operands of patterns, named as in calculators, and the number one."""


# The user's program, from the operations in node metadata


DEEPEST = 16
"""The maximum number of nested slices."""

_CALL = re.compile(
    r"%(\w+) : \[[^\]]*\] = call_function\[target=torch\.ops\.aten\.(\w+)\.\w+\]\(args = \((.*)\), kwargs = "
)

OVERWRITES = {"slice_scatter": "slice", "select_scatter": "select"}
"""Operations that replace a part of a tensor, and the operation that returns this part."""

WRITES = ("copy", "fill")

CREATES = {
    **{f"{new}{name}": "full" for new in ("", "new_") for name in ("zeros", "ones", "full")},
    **{f"{name}_like": "full" for name in ("zeros", "ones", "full")},
    "arange": "arange",
    "fill": "full",
}
"""Operations that create a tensor, and their operators."""

_COPY = re.compile(r"%copy(_\d+)?")
"""Results of copies. An exporter may write no node for a copy, but still name it as operand."""

TensorPart: TypeAlias = "tuple[str, tuple[tuple[str, ...], ...]]"
"""A tensor, and a chain of slices of it."""


class Operation(NamedTuple):
    """An operation of the program as text: result (``%slice_1``), name (``slice``) and arguments."""

    result: str
    name: str
    args: tuple[str, ...]


def operation(origin: str) -> Operation | None:
    """Parse the operation in the metadata of a node; None if it has another form."""
    found = _CALL.match(origin)
    return None if found is None else Operation(f"%{found[1]}", found[2], tuple(found[3].split(", ")))


class Program:
    """The operations of the user's program by result.

    The exporter rewrites an assignment to a part of a tensor: it slices the part, copies into it or fills it, and
    scatters the result into the tensor at the same place. Only an assignment is exported like this. An in-place update
    (``x[1:] += y``) has another operation instead of the copy. It is ambiguous: a program that calls ``slice_scatter``
    may be exported in the same way.

    Args:
        origins: the operations in the metadata of all nodes.
    """

    def __init__(self, origins: Iterable[str]) -> None:
        self._operations: dict[str, Operation | None] = {}
        for found in filter(None, map(operation, dict.fromkeys(origins))):
            self._operations[found.result] = None if found.result in self._operations else found

    def is_assigned(self, result: str, *, updates: bool = False) -> bool:
        """Return True if an operation that overwrites a part of a tensor was an assignment to this part.

        With ``updates``, it may also have been an in-place update of the part, or an operation that reads it.
        """
        target: TensorPart | None = None
        for _ in range(DEEPEST):
            step = self._operations.get(result)
            if step is None:
                is_left_out = result not in self._operations and _COPY.fullmatch(result) is not None
                return is_left_out and target is not None
            if step.name in WRITES or (updates and step.name not in OVERWRITES):
                return self._part(step.args[0]) == target
            if step.name not in OVERWRITES or len(step.args) < 2:
                break
            base, parts = self._part(step.args[0])
            if target not in (None, (base, parts)):
                break
            target = base, (*parts, (OVERWRITES[step.name], *step.args[2:]))
            result = step.args[1]
        return False

    @cached_property
    def assigned_to(self) -> frozenset[str]:
        """The tensors with parts that the program assigns to."""
        overwrites = (step for step in self._operations.values() if step is not None and step.name in OVERWRITES)
        return frozenset(step.args[0] for step in overwrites if self.is_assigned(step.result))

    def _part(self, result: str) -> TensorPart:
        parts: list[tuple[str, ...]] = []
        step = self._operations.get(result)
        while step is not None and step.name in OVERWRITES.values() and len(parts) < DEEPEST:
            parts.append((step.name, *step.args[1:]))
            result = step.args[0]
            step = self._operations.get(result)
        return result, tuple(reversed(parts))
