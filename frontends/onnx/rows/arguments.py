"""Functions of a node's arguments that rows of several families use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from costcore.translate import Arguments

from ..graph.node import NODE, Node
from ..shapes.windows import Windows
from ..values.value import Undetermined, Value

Setting = Callable[[Arguments], Any]

F = TypeVar("F")


def node_of(a: Arguments) -> Node:
    """The node whose arguments these are."""
    found: Node = a[NODE]
    return found


def told(read: Callable[[Node], Any]) -> Setting:
    """A setting as ``read`` finds it, None where only data tells it."""

    def setting(a: Arguments) -> Any:
        try:
            return read(node_of(a))
        except Undetermined:
            return None

    return setting


def first(*names: str) -> Setting:
    """The argument of the first of these names that is given."""
    return lambda a: node_of(a).get(*names)


def given(*names: str) -> Setting:
    """The values of these names that are given, for operands of equal standing."""
    return lambda a: [a[name] for name in names if isinstance(a.get(name), Value)]


def fact(kind: type[F], read: Callable[[F], Any]) -> Setting:
    """A fact that the shape rule found."""
    return lambda a: read(node_of(a).facts(kind))


def optional_fact(kind: type[F], read: Callable[[F], Any]) -> Setting:
    """A fact that the shape rule found; None if it could not finish."""

    def setting(a: Arguments) -> Any:
        found = node_of(a).inferred.facts
        return read(found) if isinstance(found, kind) else None

    return setting


def number(name: str) -> Setting:
    """A number that is an attribute or a constant input."""
    return told(lambda n: n.number(name))


def numbers(name: str) -> Setting:
    """Numbers that are an attribute or a constant input."""
    return told(lambda n: n.numbers(name))


def axis(operand: str, name: str = "axis", default: int = 0) -> Setting:
    """An axis of ``operand``, counted from the front."""

    def read(n: Node) -> int:
        found = n.axis(len(n.value(operand).known), name)
        return default if found is None else found

    return told(read)


def flag(name: str) -> Setting:
    """An attribute of 0 or 1 as a bool."""
    return lambda a: bool(a.get(name))


def outputs(count: int) -> Callable[[Arguments, Any], Any]:
    """Only the first outputs count."""
    return lambda a, values: values[:count]


SPATIAL: Mapping[str, Any] = {
    "kernel": fact(Windows, lambda windows: windows.kernel),
    "stride": fact(Windows, lambda windows: windows.stride),
    "padding": fact(Windows, lambda windows: windows.padding),
    "dilation": fact(Windows, lambda windows: windows.dilation),
}


def axes_from(operand: str, default: int) -> Any:
    """The axes from ``axis`` to the last."""

    def read(a: Arguments) -> tuple[int, ...]:
        rank = len(node_of(a).value(operand).known)
        return tuple(range(axis(operand, default=default)(a), rank))

    return read


INPUT = first("X", "input", "data", "x")


def nonzero(name: str) -> Any:
    """A setting that stands for nothing where it is 0."""
    return lambda a: a.get(name) or None


X = {"x": first("X", "input", "data")}
