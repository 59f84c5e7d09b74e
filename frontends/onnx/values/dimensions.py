"""Named dimensions: numbers that the user gave, or symbols."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from costcore.errors import CostError
from costcore.messages import did_you_mean
from costcore.numbers.dims import Dim, is_symbolic
from costcore.numbers.expressions import evaluate, size_from, symbol_of


class Dimensions:
    """The dimensions of one run by name.

    Args:
        dims: numbers or expressions by name, as the user gave them. An expression is a text such as ``"past + new"``,
            or one of sympy; its names are those of dimensions.
        declared: the names of dimensions in the model. Some exporters write sums and products of names, such as
            ``past_length + 1``: a name is read as a formula if all names in it are declared too.

    Raises:
        TypeError: if ``dims`` is not a mapping, or a size is not an integer.
        CostError: if a size is negative, or an expression contains the name that it is for.
    """

    def __init__(self, dims: Mapping[str, Any] | None, declared: Iterable[str] = ()) -> None:
        if dims is not None and not (isinstance(dims, Mapping) and all(isinstance(name, str) for name in dims)):
            raise TypeError(f"dims must map names to sizes, such as {{'batch': 8}} (got {dims!r})")
        self._declared = frozenset(declared)
        self._dims: dict[str, Dim] = {}
        self._bound: dict[str, tuple[Dim, str]] = {}
        """Sizes from the shapes of inputs, and the input and axis of each."""
        self._being_read: set[str] = set()
        self._given = dict(dims or {})
        for name, size in self._given.items():
            self._check(name, size)

    def _check(self, name: str, given: Any) -> None:
        """Refuse a size that is neither an integer nor an expression of names."""
        try:
            size = size_from(given, symbol_of)
        except TypeError as error:
            raise TypeError(f"dims: the size of {name!r} is invalid: {error}") from None
        if isinstance(size, int) and size < 0:
            raise CostError(f"dims: the size of {name!r} is negative (got {size})")

    def __call__(self, name: str) -> Dim:
        """Return the dimension of that name.

        Raises:
            CostError: if the name is not valid UTF-8.
        """
        if not isinstance(name, str):
            raise CostError(f"the name of a dimension is not valid UTF-8: {name!r}")
        if name in self._being_read:
            return symbol_of(name)
        if name not in self._dims:
            self._dims[name] = self._as_given(name) if name in self._given else self._formula(name) or symbol_of(name)
        return self._dims[name]

    def size(self, given: Any) -> Dim:
        """Return the size that a user gave as an integer, a name or a formula of sympy.

        Raises:
            TypeError: for anything else.
        """
        return self(given) if isinstance(given, str) else size_from(given, self)

    def _as_given(self, name: str) -> Dim:
        """Return the size that the user gave for a name in ``dims``."""
        given = self._given[name]
        self._being_read.add(name)
        size: Any = self(given) if given in self._declared else size_from(given, self)
        self._being_read.remove(name)
        if isinstance(size, int) and size < 0:
            raise CostError(f"dims: the size of {name!r} is negative (got {given} = {size})")
        own = symbol_of(name)
        if is_symbolic(size) and size != own and size.has(own):
            raise CostError(f"dims: the size of {name!r} contains {name!r} itself (got {given})")
        return size

    def fresh(self, name: str) -> Dim:
        """Return a dimension that the model does not name, under a name that it does not use."""
        while name in self._declared:
            name += "'"
        return self(name)

    def _formula(self, name: str) -> Dim | None:
        """Return the sum or product of declared dimensions that a name is; None for a plain name."""
        if not any(sign in name for sign in "+-*/"):
            return None
        try:
            return evaluate(name, self._declared_size)
        except ValueError:
            return None

    def _declared_size(self, name: str) -> Dim:
        if name not in self._declared:
            raise KeyError(name)
        return self(name)

    def bind(self, name: str, size: Dim, where: str) -> None:
        """Bind a name to a size, from the shape that the user gave for an input.

        Raises:
            CostError: if the name has another size already.
        """
        given = self._given.get(name, size)
        found = self._dims.get(name, given if isinstance(given, int) else size)
        if found != size:
            raise CostError(f"{where}: dimension {name!r} is {found} elsewhere, and {size} here")
        self._dims[name] = size
        self._bound[name] = size, where

    def check(self) -> None:
        """Refuse names that the model does not have, and sizes that contradict each other.

        Raises:
            CostError: naming the dimensions of the model.
        """
        sizes = {name: (self(name), "dims") for name in self._given if name in self._dims} | self._bound
        for name, (size, where) in sizes.items():
            described = self._formula(name), self._as_given(name) if name in self._given else None
            for other, by in zip(described, ("the other inputs", "dims"), strict=True):
                if isinstance(other, int) and isinstance(size, int) and other != size:
                    raise CostError(f"{where}: dimension {name!r} is {other} by {by}, and {size} here")
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


def declared_names(values: Iterable[Any]) -> set[str]:
    """Return the names of dimensions of tensors (``ValueInfoProto``)."""
    shapes = (value.type.tensor_type.shape for value in values)
    return {d.dim_param for shape in shapes for d in shape.dim if d.dim_param}
