"""A small language for patterns of nodes, and matching them against values whose producers are known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import isinf
from typing import Any, NamedTuple, Protocol, TypeAlias

from ..values.value import Value
from ..walk.history import RecordedNode
from .exported_program import Program

TOLERANCE = {"float16": 1e-3, "bfloat16": 8e-3}
"""How far a constant may be from the number a definition has: its element type rounds. All others: 1e-6."""


Producers: TypeAlias = Mapping[Value, RecordedNode]
"""The node that produces each value."""


class Match(NamedTuple):
    """What a pattern found: values by name, and the nodes between them and the root, the root first."""

    values: Mapping[str, Value]
    nodes: tuple[RecordedNode, ...]


NOTHING = Match({}, ())


@dataclass(frozen=True)
class Operand:
    """Any value; the same one wherever the name stands."""

    name: str


@dataclass(frozen=True)
class Number:
    """A constant whose elements all are ``number`` (None: a constant of one element, whatever it is)."""

    number: float | None = None


@dataclass(frozen=True)
class Named:
    """What ``pattern`` matches, and the same value wherever the name stands."""

    name: str
    pattern: Pattern


@dataclass(frozen=True)
class Either:
    """The first of several patterns that leads to a match."""

    patterns: tuple[Pattern, ...]


@dataclass(frozen=True, init=False)
class Op:
    """A node of a kind with operands; what it reads behind these must be constants. Sums and products commute."""

    kind: str
    operands: tuple[Pattern, ...]
    check: Callable[[RecordedNode], bool] | None

    def __init__(self, kind: str, *operands: Pattern, check: Callable[[RecordedNode], bool] | None = None) -> None:
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "operands", operands)
        object.__setattr__(self, "check", check)


Pattern: TypeAlias = "Operand | Number | Named | Either | Op"

COMMUTATIVE = ("Add", "Mul")


def matches(pattern: Pattern, value: Value | None, producers: Producers, found: Match = NOTHING) -> Iterator[Match]:
    """Every way in which ``pattern`` describes how ``value`` was made, added to what was ``found`` before."""
    if value is None:
        return
    if isinstance(pattern, Operand):
        known = found.values.get(pattern.name)
        if known is None or known is value:
            yield found._replace(values={**found.values, pattern.name: value})
    elif isinstance(pattern, Number):
        if is_number(value, pattern.number):
            yield found
    elif isinstance(pattern, Named):
        known = found.values.get(pattern.name)
        if known is value:
            yield found
        elif known is None:
            for match in matches(pattern.pattern, value, producers, found):
                yield match._replace(values={**match.values, pattern.name: value})
    elif isinstance(pattern, Either):
        for alternative in pattern.patterns:
            yield from matches(alternative, value, producers, found)
    else:
        yield from _produced_by(pattern, value, producers, found)


def _produced_by(pattern: Op, value: Value, producers: Producers, found: Match) -> Iterator[Match]:
    made = producers.get(value)
    if made is None or made.node.key != f"ai.onnx::{pattern.kind}" or made.node.outputs[0] is not value:
        return
    inputs, count = made.node.inputs, len(pattern.operands)
    if len(inputs) < count or any(x is not None and x.role != "const" for x in inputs[count:]):
        return
    if pattern.check is not None and not pattern.check(made):
        return
    start = found._replace(nodes=(*found.nodes, made))
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
    """Whether a value is a constant whose elements are this number, up to how its element type rounds."""
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
    """The product of three patterns, in whatever order it was taken."""
    a, b, c = patterns
    return Either(tuple(Op("Mul", x, Op("Mul", y, z)) for x, y, z in ((a, b, c), (b, a, c), (c, a, b))))


def last_axis(made: RecordedNode) -> bool:
    """Whether the setting ``axis`` of a layer is its last axis."""
    axis: Any = made.call.layer.attrs.get("axis")
    return bool(axis == made.call.layer.out.ndim - 1)


class Group(NamedTuple):
    """A group of nodes that spells out one operator.

    Attributes:
        op: the neutral operator.
        type: ONNX's own word for it.
        operands: its operands by neutral name.
        attrs: its settings.
        nodes: the nodes, the root first.
    """

    op: str
    type: str
    operands: Mapping[str, Value]
    attrs: Mapping[str, Any]
    nodes: tuple[RecordedNode, ...]


class Extension(Protocol):
    """Add to a match the nodes that made a value, where they fit a pattern."""

    @property
    def program(self) -> Program:
        """The operations that nodes were written for."""

    def whole(self, value: Value) -> Value:
        """The tensor that a value is a part of, the value itself where it is no part."""

    def __call__(self, match: Match, value: Value, pattern: Pattern, shared: bool = False) -> Match | None:
        """The longer match; None where the pattern does not fit, or others read from its nodes and must not."""


class Decomposition(NamedTuple):
    """How exporters spell out one operator.

    Attributes:
        roots: kinds of the last node.
        pattern: the nodes.
        build: the group a match is, or None where it is none after all.
        source_call: the call, as a regular expression, that PyTorch takes apart before its exporter sees it.
    """

    roots: tuple[str, ...]
    pattern: Pattern
    build: Callable[[Match, Extension], Group | None]
    source_call: str = ""
