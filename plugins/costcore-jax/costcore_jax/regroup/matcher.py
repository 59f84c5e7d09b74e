"""The recorded equations, as patterns of primitives are matched against them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isclose
from typing import TypeAlias

from costcore.trace import patterns
from costcore.trace.patterns import Either, Misses, Op, Pattern

from ..capture.recording import Recorded
from ..capture.values import Value

COMMUTATIVE = frozenset(("add", "add_any", "max", "min", "mul"))

MOVING = frozenset(("broadcast_in_dim", "convert_element_type", "copy", "transpose"))
"""Primitives that are looked through: the elements stay, their places or dtype change."""

CAST = ("convert_element_type", "copy")
MOVED = (*CAST, "transpose")

TOLERANCE = 4e-3
"""Relative tolerance for a constant, which bfloat16 rounds to 8 bits."""

Match: TypeAlias = patterns.Match[Value, int]
"""Values and numbers by name, and the positions of the equations between these and the root."""


def op(primitive: str, *operands: Pattern) -> Op:
    """Return the pattern of a primitive."""
    return Op(primitive, *operands)


def either(*alternatives: Pattern) -> Either:
    """Return the pattern of any of several."""
    return Either(alternatives)


def product(*factors: Pattern) -> Either:
    """Return the pattern of a product of two or three factors in any order."""
    return patterns.product(*factors, kind="mul")


@dataclass(slots=True)
class Graph:
    """The equations that produce values; see :class:`costcore.trace.patterns.Graph`.

    Attributes:
        history: the recorded equations.
        producers: position of the equation that produces a value, by its operand id.
    """

    history: Sequence[Recorded]
    producers: Mapping[int, int]
    misses: Misses | None = None
    commutative: Collection[str] = COMMUTATIVE

    def producer(self, value: Value) -> int | None:
        """Return the position of the equation that produces a value; None for an input."""
        return self.producers.get(value.identity) if value.identity else None

    def described(self, value: Value) -> tuple[str, str]:
        """Return the dtype and shape of a value, and a sentence on where it comes from."""
        name = f"{value.dtype}{list(value.shape)}"
        if value.number is not None:
            return name, f"a value is the constant {value.number}"
        position = self.producer(value)
        what = "an input" if position is None else f"computed by {self.history[position].primitive}"
        return name, f"a value is {what}"

    def between(self, bound: Value, value: Value, moved: bool) -> tuple[int, ...] | None:
        """Return the equations that cast one value to another, or move its axes too; None if others do."""
        if bound.identity == value.identity:
            return ()
        through = MOVED if moved else CAST
        (source, _), (other, casts) = self._before(bound, through), self._before(value, through)
        return casts if source.identity == other.identity else None

    def number(self, value: Value, number: float | None) -> tuple[int, ...] | None:
        """Return the equations that make this number, which are part of the group; None if it is another one."""
        found = value.number
        if not isinstance(found, (int, float)) or isinstance(found, bool):
            return None
        if number is not None and not isclose(found, number, rel_tol=TOLERANCE, abs_tol=1e-12):
            return None
        return tuple(self._makes(value))

    def computed(self, value: Value, op: Op) -> tuple[tuple[int, ...], Sequence[Value]] | str:
        """Return the equation that computes a value, and those that move it after that; its inputs."""
        nodes: list[int] = []
        source: Value | None = value
        while source is not None and (position := self.producer(source)) is not None:
            recorded = self.history[position]
            nodes.append(position)
            if recorded.primitive == op.kind and len(recorded.inputs) == len(op.operands):
                return tuple(nodes), recorded.inputs
            source = looked_through(recorded)
        return op.kind

    def _before(self, value: Value, through: Collection[str]) -> tuple[Value, tuple[int, ...]]:
        """Return the value before it was cast or moved by these primitives, and the equations that did it."""
        casts: list[int] = []
        while (position := self.producer(value)) is not None and self.history[position].primitive in through:
            casts.append(position)
            value = self.history[position].inputs[0]
        return value, tuple(casts)

    def _makes(self, value: Value) -> Iterator[int]:
        position = self.producer(value)
        while position is not None:
            yield position
            inputs = [each for each in self.history[position].inputs if each.identity]
            position = self.producer(inputs[0]) if len(inputs) == 1 else None


def looked_through(recorded: Recorded) -> Value | None:
    """Return the input whose elements an equation passes on; None if it computes."""
    if recorded.primitive in MOVING:
        return recorded.inputs[0]
    if recorded.primitive == "select_n" and isinstance(choice := recorded.inputs[0].number, (bool, int)):
        return recorded.inputs[1 + int(choice)]
    return None


def vector(value: Value) -> Value:
    """Return a value as one axis."""
    return replace(value, shape=(value.size,))
