"""Patterns of nodes, and matching them against the producers of a value."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from math import isinf
from typing import Any, NamedTuple, Protocol, TypeAlias

from costcore.numbers.dims import Dim

from ..reading.exporter_metadata import origin, source_line
from ..values.value import Value
from ..walk.history import RecordedNode
from .exported_program import Program

TOLERANCE = {"float16": 1e-3, "bfloat16": 8e-3}
"""Relative tolerance for a constant, by dtype; 1e-6 for all others."""


Producers: TypeAlias = Mapping[Value, RecordedNode]
"""The node that produces each value."""


class Match(NamedTuple):
    """A match of a pattern: values by name, and the nodes between these and the root, the root first."""

    values: Mapping[str, Value]
    nodes: tuple[RecordedNode, ...]


NOTHING = Match({}, ())


@dataclass(frozen=True)
class Operand:
    """Any value; the same one wherever the name is used."""

    name: str


@dataclass(frozen=True)
class Number:
    """A constant whose elements all are ``number``; with None, any constant of one element."""

    number: float | None = None


@dataclass(frozen=True)
class Named:
    """A value that ``pattern`` matches; the same one wherever the name is used."""

    name: str
    pattern: Pattern


@dataclass(frozen=True)
class Either:
    """Any of several patterns, the first ones preferred."""

    patterns: tuple[Pattern, ...]


@dataclass(frozen=True, init=False)
class Op:
    """A node of an op_type with operands; its further inputs must be constants. Sums and products commute.

    Args:
        kind: the op_type.
        operands: patterns of its first inputs; without any, its inputs do not matter.
        check: what else holds for the node.
        output: which of its outputs is meant.
    """

    kind: str
    operands: tuple[Pattern, ...]
    check: Callable[[RecordedNode], bool] | None
    output: int

    def __init__(
        self, kind: str, *operands: Pattern, check: Callable[[RecordedNode], bool] | None = None, output: int = 0
    ) -> None:
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "operands", operands)
        object.__setattr__(self, "check", check)
        object.__setattr__(self, "output", output)


Pattern: TypeAlias = "Operand | Number | Named | Either | Op"

COMMUTATIVE = ("Add", "Mul")


def matches(pattern: Pattern, value: Value | None, producers: Producers, found: Match = NOTHING) -> Iterator[Match]:
    """Yield every match of ``pattern`` with the nodes that produced ``value``, added to the match ``found``."""
    if value is None:
        return
    if isinstance(pattern, Operand):
        bound = found.values.get(pattern.name)
        if bound is None or bound is value:
            yield found._replace(values={**found.values, pattern.name: value})
    elif isinstance(pattern, Number):
        if is_number(value, pattern.number):
            yield found
    elif isinstance(pattern, Named):
        bound = found.values.get(pattern.name)
        if bound is value:
            yield found
        elif bound is None:
            for match in matches(pattern.pattern, value, producers, found):
                yield match._replace(values={**match.values, pattern.name: value})
    elif isinstance(pattern, Either):
        for alternative in pattern.patterns:
            yield from matches(alternative, value, producers, found)
    else:
        yield from _produced_by(pattern, value, producers, found)


def _produced_by(pattern: Op, value: Value, producers: Producers, found: Match) -> Iterator[Match]:
    recorded = producers.get(value)
    if recorded is None or recorded.node.key != f"ai.onnx::{pattern.kind}":
        return
    if pattern.output >= len(recorded.node.outputs) or recorded.node.outputs[pattern.output] is not value:
        return
    inputs, count = recorded.node.inputs, len(pattern.operands)
    if len(inputs) < count or (count and any(x is not None and x.role != "const" for x in inputs[count:])):
        return
    if pattern.check is not None and not pattern.check(recorded):
        return
    start = found._replace(nodes=(*found.nodes, recorded))
    orders = [inputs[:count]]
    if count == 2 and pattern.kind in COMMUTATIVE:
        orders.append(inputs[1::-1])
    for order in orders:
        yield from _all(pattern.operands, order, producers, start)


def _all(
    patterns: tuple[Pattern, ...], values: list[Value | None], producers: Producers, found: Match
) -> Iterator[Match]:
    if not patterns:
        yield found
        return
    for match in matches(patterns[0], values[0], producers, found):
        yield from _all(patterns[1:], values[1:], producers, match)


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


def product(*patterns: Pattern) -> Pattern:
    """Return the product of three patterns in any order."""
    a, b, c = patterns
    return Either(tuple(Op("Mul", x, Op("Mul", y, z)) for x, y, z in ((a, b, c), (b, a, c), (c, a, b))))


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
        build: returns the group for a match; None if the match does not compute the operator. It may raise
            :class:`DependsOnSizes`.
        source_call: the call, as a regular expression, that PyTorch itself decomposes before its exporter sees it.
        outputs: names of values of the match that other nodes may read, as further outputs of the operator.
        is_hook: whether these nodes (``NodeProto``) come from a hook of PyTorch, which no line of the program calls.
        needs_origin: whether nodes without any origin are not taken for the operator, as they are often something else.
    """

    roots: tuple[str, ...]
    pattern: Pattern
    build: Callable[[Match, Extension], Group | None]
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
