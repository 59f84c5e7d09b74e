"""Named dimensions: numbers the caller gave, or symbols."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from costcore.dims import Dim, as_dim, is_symbolic
from costcore.errors import CostError

LONGEST = 200
"""Names of more letters are no formulas."""

SIGNS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}
"""What names of dimensions are computed by."""


class Dimensions:
    """The dimensions of one run by name.

    Args:
        given: numbers (or expressions) for names, as the caller gave them.
        declared: the names of dimensions in the model. Some exporters write sums and products of names,
            ``past_length + 1``: where all of them are declared too, that is what is meant.

    Raises:
        TypeError: where that is no mapping, or a name is given something that is no integer.
        CostError: where a name is given a negative number.
    """

    def __init__(self, given: Mapping[str, Any] | None, declared: Iterable[str] = ()) -> None:
        if given is not None and not (isinstance(given, Mapping) and all(isinstance(name, str) for name in given)):
            raise TypeError(f"dims must give lengths by name, such as {{'batch': 8}}, got {given!r}")
        self._given: dict[str, Dim] = {}
        for name, number in (given or {}).items():
            try:
                self._given[name] = as_dim(number)
            except TypeError as error:
                raise TypeError(f"dims gives {name!r} no length: {error}") from None
            if isinstance(number, int) and number < 0:
                raise CostError(f"dims gives {name!r} the negative length {number}")
        self._declared = frozenset(declared)
        self._known: dict[str, Dim] = {}
        self._said: dict[str, tuple[Dim, str]] = {}

    def __call__(self, name: str) -> Dim:
        """The dimension of that name.

        Raises:
            CostError: where the name is no text.
        """
        if not isinstance(name, str):
            raise CostError(f"a dimension has the name {name!r}, which is no text")
        if name not in self._known:
            self._known[name] = self._given[name] if name in self._given else self._written(name) or _symbol(name)
        return self._known[name]

    def fresh(self, name: str) -> Dim:
        """A dimension that the model has no name for, by a name that it uses for no other."""
        while name in self._declared:
            name += "'"
        return self(name)

    def _written(self, name: str) -> Dim | None:
        """The sum or product of declared dimensions that a name is; None for one that is just a name."""
        if len(name) > LONGEST or not any(sign in name for sign in "+-*/"):
            return None
        try:
            return self._computed(ast.parse(name, mode="eval").body)
        except (SyntaxError, ValueError, KeyError, ZeroDivisionError, TypeError):
            return None

    def _computed(self, part: ast.expr) -> Dim:
        if isinstance(part, ast.BinOp):
            return as_dim(SIGNS[type(part.op)](self._computed(part.left), self._computed(part.right)))
        if isinstance(part, ast.Constant) and type(part.value) is int:
            return part.value
        if isinstance(part, ast.Name) and part.id in self._declared:
            return self(part.id)
        raise ValueError

    def bind(self, name: str, number: Dim, where: str) -> None:
        """Say what a name stands for, from the shape the caller gave an input.

        Raises:
            CostError: where it stands for something else already.
        """
        known = self._known.get(name, self._given.get(name, number))
        if known != number:
            raise CostError(f"{where}: dimension {name!r} is {known} elsewhere, and {number} here")
        self._known[name] = number
        self._said[name] = number, where

    def check(self) -> None:
        """Refuse names that the model does not have, and numbers that contradict each other.

        Raises:
            CostError: naming those it has.
        """
        for name, (number, where) in {**{n: (d, "dims") for n, d in self._given.items()}, **self._said}.items():
            meant = self._written(name)
            if isinstance(meant, int) and isinstance(number, int) and meant != number:
                raise CostError(f"{where}: dimension {name!r} is {meant} by the other inputs, and {number} here")
        for name in self._given:
            if name not in self._known:
                near = get_close_matches(name, self._known, 1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise CostError(f"dims names {name!r}, but the model's dimensions are {sorted(self._known)[:20]}{hint}")


def called(length: Dim) -> str:
    """What a reader is told that a length is which depends on data: the symbol it is, or the number given for it."""
    return f"the symbol {length}" if is_symbolic(length) else f"{length}, as was given"


def _symbol(name: str) -> Dim:
    from sympy import Symbol

    return Symbol(name, integer=True, positive=True)


def declared_names(values: Iterable[Any]) -> set[str]:
    """The names of dimensions of tensors (``ValueInfoProto``)."""
    shapes = (value.type.tensor_type.shape for value in values)
    return {d.dim_param for shape in shapes for d in shape.dim if d.dim_param}
