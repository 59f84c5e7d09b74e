"""Patterns of primitives, and matching them against the producers of a value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isclose
from typing import NamedTuple, TypeAlias

from ..capture.recording import Recorded
from ..capture.values import Value

COMMUTATIVE = frozenset(("add", "add_any", "max", "min", "mul"))

MOVING = frozenset(("broadcast_in_dim", "convert_element_type", "copy", "transpose"))
"""Primitives that are looked through: the elements stay, their places or dtype change."""

TOLERANCE = 4e-3
"""Relative tolerance for a constant, which bfloat16 rounds to 8 bits."""


@dataclass(frozen=True)
class Operand:
    """Any value; the same one wherever the name is used."""

    name: str


@dataclass(frozen=True)
class Number:
    """A literal, or a value that is ``number`` everywhere; with None, any number."""

    number: float | None = None
    name: str = ""


@dataclass(frozen=True)
class Named:
    """A value that ``pattern`` matches; the same one wherever the name is used.

    If ``moved``, its axes may be in another order there.
    """

    name: str
    pattern: Pattern
    moved: bool = False


@dataclass(frozen=True)
class Either:
    """Any of several patterns, the first ones preferred."""

    patterns: tuple[Pattern, ...]


@dataclass(frozen=True)
class Op:
    """A primitive with operands; sums, products and extremes commute."""

    primitive: str
    operands: tuple[Pattern, ...]


Pattern: TypeAlias = "Operand | Number | Named | Either | Op"


def op(primitive: str, *operands: Pattern) -> Op:
    """Return the pattern of a primitive."""
    return Op(primitive, operands)


def either(*patterns: Pattern) -> Either:
    """Return the pattern of any of several."""
    return Either(patterns)


def product(*factors: Pattern) -> Either:
    """Return the pattern of a product of two or three factors in any order."""
    if len(factors) == 2:
        return either(op("mul", *factors))
    a, b, c = factors
    return either(*(op("mul", x, op("mul", y, z)) for x, y, z in ((a, b, c), (b, a, c), (c, a, b))))


class Match(NamedTuple):
    """Values and numbers by name, and the positions of the equations between these and the root."""

    values: Mapping[str, Value]
    nodes: frozenset[int]


class Graph(NamedTuple):
    """The equations that produce values.

    Attributes:
        history: the recorded equations.
        producers: position of the equation that produces a value, by its operand id.
    """

    history: Sequence[Recorded]
    producers: Mapping[int, int]

    def producer(self, value: Value) -> int | None:
        """Return the position of the equation that produces a value; None for an input."""
        return self.producers.get(value.identity) if value.identity else None


def matches(pattern: Pattern, value: Value, graph: Graph, found: Match) -> Iterator[Match]:
    """Yield every match of ``pattern`` with the equations that produced ``value``, added to the match ``found``."""
    if isinstance(pattern, Operand):
        bound = found.values.get(pattern.name)
        if bound is None:
            yield found._replace(values={**found.values, pattern.name: value})
        else:
            yield from _again(bound, value, graph, found)
    elif isinstance(pattern, Number):
        yield from _number(pattern, value, graph, found)
    elif isinstance(pattern, Named):
        bound = found.values.get(pattern.name)
        if bound is not None:
            yield from _again(bound, value, graph, found, MOVED if pattern.moved else CAST)
            return
        for match in matches(pattern.pattern, value, graph, found):
            yield match._replace(values={**match.values, pattern.name: value})
    elif isinstance(pattern, Either):
        for alternative in pattern.patterns:
            yield from matches(alternative, value, graph, found)
    else:
        yield from _produced(pattern, value, graph, found)


CAST = ("convert_element_type", "copy")
MOVED = (*CAST, "transpose")


def _again(bound: Value, value: Value, graph: Graph, found: Match, through: tuple[str, ...] = CAST) -> Iterator[Match]:
    """Yield the match if a value is the bound one, or both are made of the same value by these primitives."""
    (source, _), (other, casts) = _before(bound, graph, through), _before(value, graph, through)
    if bound.identity == value.identity:
        yield found
    elif source.identity == other.identity:
        yield found._replace(nodes=found.nodes | casts)


def _before(value: Value, graph: Graph, through: tuple[str, ...]) -> tuple[Value, frozenset[int]]:
    """Return the value before it was cast or moved by these primitives, and the equations that did it."""
    casts: set[int] = set()
    position = graph.producer(value)
    while position is not None and graph.history[position].primitive in through:
        casts.add(position)
        value = graph.history[position].inputs[0]
        position = graph.producer(value)
    return value, frozenset(casts)


def _number(pattern: Number, value: Value, graph: Graph, found: Match) -> Iterator[Match]:
    number = value.number
    if not isinstance(number, (int, float)) or isinstance(number, bool):
        return
    if pattern.number is not None and not isclose(number, pattern.number, rel_tol=TOLERANCE, abs_tol=1e-12):
        return
    nodes, position = set(found.nodes), graph.producer(value)
    while position is not None:  # what makes the number is part of the group
        nodes.add(position)
        inputs = [each for each in graph.history[position].inputs if each.identity]
        position = graph.producer(inputs[0]) if len(inputs) == 1 else None
    values = {**found.values, pattern.name: value} if pattern.name else found.values
    yield Match(values, frozenset(nodes))


def _produced(pattern: Op, value: Value, graph: Graph, found: Match) -> Iterator[Match]:
    position = graph.producer(value)
    if position is None:
        return
    recorded = graph.history[position]
    inside = found._replace(nodes=found.nodes | {position})
    if recorded.primitive == pattern.primitive and len(recorded.inputs) == len(pattern.operands):
        inputs = recorded.inputs
        orders = [inputs, inputs[::-1]] if len(inputs) == 2 and pattern.primitive in COMMUTATIVE else [inputs]
        for order in orders:
            yield from _all(pattern.operands, order, graph, inside)
    elif (source := looked_through(recorded)) is not None:
        yield from _produced(pattern, source, graph, inside)


def looked_through(recorded: Recorded) -> Value | None:
    """Return the input whose elements an equation passes on; None if it computes."""
    if recorded.primitive in MOVING:
        return recorded.inputs[0]
    if recorded.primitive == "select_n" and isinstance(choice := recorded.inputs[0].number, (bool, int)):
        return recorded.inputs[1 + int(choice)]
    return None


def _all(patterns: Sequence[Pattern], values: Sequence[Value], graph: Graph, found: Match) -> Iterator[Match]:
    if not patterns:
        yield found
        return
    for match in matches(patterns[0], values[0], graph, found):
        yield from _all(patterns[1:], values[1:], graph, match)


def vector(value: Value) -> Value:
    """Return a value as one axis."""
    return replace(value, shape=(value.size,))
