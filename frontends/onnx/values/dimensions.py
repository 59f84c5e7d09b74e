"""Named dimensions: numbers that the user gave, or symbols."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from costcore.dims import Dim, as_dim, is_symbolic
from costcore.errors import CostError
from costcore.messages import did_you_mean

LONGEST_FORMULA = 200
"""Names of more characters are not read as formulas."""

OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}
"""Operators in names that are formulas."""


class Dimensions:
    """The dimensions of one run by name.

    Args:
        dims: numbers (or expressions) by name, as the user gave them.
        declared: the names of dimensions in the model. Some exporters write sums and products of names, such as
            ``past_length + 1``: a name is read as a formula if all names in it are declared too.

    Raises:
        TypeError: if ``dims`` is not a mapping, or a size is not an integer.
        CostError: if a size is negative.
    """

    def __init__(self, dims: Mapping[str, Any] | None, declared: Iterable[str] = ()) -> None:
        if dims is not None and not (isinstance(dims, Mapping) and all(isinstance(name, str) for name in dims)):
            raise TypeError(f"dims must map names to sizes, such as {{'batch': 8}} (got {dims!r})")
        self._given: dict[str, Dim] = {}
        for name, size in (dims or {}).items():
            try:
                self._given[name] = as_dim(size)
            except TypeError as error:
                raise TypeError(f"dims: the size of {name!r} is invalid: {error}") from None
            if isinstance(size, int) and size < 0:
                raise CostError(f"dims: the size of {name!r} is negative (got {size})")
        self._declared = frozenset(declared)
        self._dims: dict[str, Dim] = {}
        self._bound: dict[str, tuple[Dim, str]] = {}
        """Sizes from the shapes of inputs, and the input and axis of each."""

    def __call__(self, name: str) -> Dim:
        """Return the dimension of that name.

        Raises:
            CostError: if the name is not valid UTF-8.
        """
        if not isinstance(name, str):
            raise CostError(f"the name of a dimension is not valid UTF-8: {name!r}")
        if name not in self._dims:
            self._dims[name] = self._given[name] if name in self._given else self._formula(name) or _symbol(name)
        return self._dims[name]

    def fresh(self, name: str) -> Dim:
        """Return a dimension that the model does not name, under a name that it does not use."""
        while name in self._declared:
            name += "'"
        return self(name)

    def _formula(self, name: str) -> Dim | None:
        """Return the sum or product of declared dimensions that a name is; None for a plain name."""
        if len(name) > LONGEST_FORMULA or not any(sign in name for sign in "+-*/"):
            return None
        try:
            return self._evaluated(ast.parse(name, mode="eval").body)
        except (SyntaxError, ValueError, KeyError, ZeroDivisionError, TypeError):
            return None

    def _evaluated(self, part: ast.expr) -> Dim:
        if isinstance(part, ast.BinOp):
            return as_dim(OPERATORS[type(part.op)](self._evaluated(part.left), self._evaluated(part.right)))
        if isinstance(part, ast.Constant) and type(part.value) is int:
            return part.value
        if isinstance(part, ast.Name) and part.id in self._declared:
            return self(part.id)
        raise ValueError

    def bind(self, name: str, size: Dim, where: str) -> None:
        """Bind a name to a size, from the shape that the user gave for an input.

        Raises:
            CostError: if the name has another size already.
        """
        found = self._dims.get(name, self._given.get(name, size))
        if found != size:
            raise CostError(f"{where}: dimension {name!r} is {found} elsewhere, and {size} here")
        self._dims[name] = size
        self._bound[name] = size, where

    def check(self) -> None:
        """Refuse names that the model does not have, and sizes that contradict each other.

        Raises:
            CostError: naming the dimensions of the model.
        """
        for name, (size, where) in {**{n: (d, "dims") for n, d in self._given.items()}, **self._bound}.items():
            formula = self._formula(name)
            if isinstance(formula, int) and isinstance(size, int) and formula != size:
                raise CostError(f"{where}: dimension {name!r} is {formula} by the other inputs, and {size} here")
        for name in self._given:
            if name not in self._dims:
                shown = ", ".join(sorted(self._dims)[:20])
                hint = did_you_mean([name], self._dims)
                raise CostError(f"dims: unknown dimension {name!r} (expected {shown}){hint}")


def may_be_equal(a: Dim, b: Dim) -> bool:
    """Return True if one dimension is a number and the other an expression that may have that value."""
    return is_symbolic(a) != is_symbolic(b)


def describe_size(length: Dim) -> str:
    """Return how a message names a size that depends on data: its symbol, or the number given for it."""
    return f"the symbol {length}" if is_symbolic(length) else f"{length}, as was given"


def _symbol(name: str) -> Dim:
    from sympy import Symbol

    return Symbol(name, integer=True, positive=True)


def declared_names(values: Iterable[Any]) -> set[str]:
    """Return the names of dimensions of tensors (``ValueInfoProto``)."""
    shapes = (value.type.tensor_type.shape for value in values)
    return {d.dim_param for shape in shapes for d in shape.dim if d.dim_param}
