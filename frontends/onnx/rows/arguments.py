"""Sources of operands and attributes that rows of several families use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from costcore.translate import Arguments

from ..graph.node import NODE, Node
from ..shapes.windows import Windows
from ..values.value import Undetermined, Value

Computed = Callable[[Arguments], Any]
"""A source of an operand or attribute that is computed from all arguments."""

F = TypeVar("F")


def node_of(a: Arguments) -> Node:
    """Return the node whose arguments these are."""
    found: Node = a[NODE]
    return found


def determined(read: Callable[[Node], Any]) -> Computed:
    """Return a source that reads the node; None if the value depends on data."""

    def source(a: Arguments) -> Any:
        try:
            return read(node_of(a))
        except Undetermined:
            return None

    return source


def first_given(*names: str) -> Computed:
    """Return a source for the first argument of these names that is given."""
    return lambda a: node_of(a).get(*names)


def operands(*names: str) -> Computed:
    """Return a source for the inputs of these names that are given, as one list."""
    return lambda a: [a[name] for name in names if isinstance(a.get(name), Value)]


def fact(kind: type[F], read: Callable[[F], Any]) -> Computed:
    """Return a source that reads a fact of the shape rule."""

    def source(a: Arguments) -> Any:
        found = a[NODE].inferred.facts  # as Node.facts, which would be two more calls for each fact of a node
        if not isinstance(found, kind):
            raise Undetermined
        return read(found)

    return source


def optional_fact(kind: type[F], read: Callable[[F], Any]) -> Computed:
    """Return a source that reads a fact of the shape rule; None if the rule could not finish."""

    def source(a: Arguments) -> Any:
        found = a[NODE].inferred.facts
        return read(found) if isinstance(found, kind) else None

    return source


def number(name: str) -> Computed:
    """Return a source for a number that is an attribute or a constant input."""
    return determined(lambda n: n.number(name))


def numbers(name: str) -> Computed:
    """Return a source for numbers that are an attribute or a constant input."""
    return determined(lambda n: n.numbers(name))


def axis(operand: str, name: str = "axis", default: int = 0) -> Computed:
    """Return a source for an axis of ``operand``, counted from the front."""

    def read(n: Node) -> int:
        found = n.axis(len(n.value(operand).known_shape), name)
        return default if found is None else found

    return determined(read)


def flag(name: str) -> Computed:
    """Return a source for an attribute of 0 or 1, as a bool."""
    return lambda a: bool(a.get(name))


def first_outputs(count: int) -> Callable[[Arguments, Any], Any]:
    """Return a choice of outputs: the first ``count``."""
    return lambda a, values: values[:count]


SPATIAL: Mapping[str, Any] = {
    "kernel": fact(Windows, lambda windows: windows.kernel),
    "stride": fact(Windows, lambda windows: windows.stride),
    "padding": fact(Windows, lambda windows: windows.padding),
    "dilation": fact(Windows, lambda windows: windows.dilation),
}


def axes_from(operand: str, default: int) -> Any:
    """Return a source for the axes from ``axis`` to the last."""

    def read(a: Arguments) -> tuple[int, ...]:
        rank = len(node_of(a).value(operand).known_shape)
        return tuple(range(axis(operand, default=default)(a), rank))

    return read


INPUT = first_given("X", "input", "data", "x")
"""The first input, by its name in any schema."""


def nonzero(name: str) -> Any:
    """Return a source for an attribute; None if it is 0."""
    return lambda a: a.get(name) or None


X = {"x": first_given("X", "input", "data")}
"""Operands of an operator with one data input."""
