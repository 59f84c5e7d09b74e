"""Values of unknown rank: each gets a symbol for the number of its elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from costcore.numbers.dims import Dim

from ..values.dimensions import Dimensions
from ..values.value import Container, Value


class Unranked(NamedTuple):
    """A value of unknown rank: its full name, how many elements it has, and the node where it was first seen."""

    name: str
    size: Dim
    node: str


class UnrankedValues:
    """The values of unknown rank of a model.

    Args:
        dims: named dimensions.
        identity: returns the operand id of a value.
    """

    def __init__(self, dims: Dimensions, identity: Callable[[Value], int]) -> None:
        self._dims = dims
        self._identity = identity
        self._found: dict[int, Unranked] = {}
        self._count: dict[str, int] = {}
        """How many values have the same name, as in the iterations of a loop."""

    def __getitem__(self, value: Value) -> Unranked:
        return self._found[self._identity(value)]

    def add(self, value: Value, name: str, node: str) -> None:
        """Give a value a symbol of its own, unless it has one."""
        identity = self._identity(value)
        if identity not in self._found:
            self._count[name] = count = self._count.get(name, 0) + 1
            symbol = f"{name}_elements" if count == 1 else f"{name}_elements_{count}"
            self._found[identity] = Unranked(name, self._dims.fresh(symbol), node)

    @property
    def names(self) -> list[str]:
        """Full names of the values, in order."""
        return [value.name for value in self._found.values()]


def is_unranked(value: Value | None) -> bool:
    """Return True for a tensor whose rank is unknown."""
    return value is not None and value.shape is None and not isinstance(value, Container)


def shapes_argument(name: str) -> str:
    """Return an example of the argument that gives the shape of a value."""
    return f"shapes={{{name!r}: ('N', 8)}}"
