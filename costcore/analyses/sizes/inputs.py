"""Inputs whose shapes have names in them: their symbols, and the same inputs at integer sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from costcore.errors import CostError
from costcore.ir import BITS, Tensor
from costcore.numbers.dims import as_dim
from costcore.numbers.expressions import size_from
from costcore.trace.input_shapes import Dim, is_named, is_named_shape


class Axis(NamedTuple):
    """One axis of an input that has a name.

    Attributes:
        size: the size, as it was given.
        axis: its position in the shape.
        rank: the number of axes of the shape.
    """

    size: Any
    axis: int
    rank: int


class NamedInputs:
    """The inputs of a model, of which some sizes have names.

    Args:
        inputs: the inputs in any form that :func:`costcore.estimate` takes, but for shapes with the name of a dtype,
            which :func:`~costcore.trace.input_shapes.with_tensors` makes tensors of; with a text such as
            ``"seq"`` or ``"16*h"``, a :class:`Dim` or an integer expression of sympy in place of a size.

    Attributes:
        axes: every axis with a name.
        symbols: the names of all symbols, in the order of first use.
        ranges: the ranges that were stated with :class:`Dim`.

    Raises:
        TypeError: if a name is not a sum or product of symbols and integers.
        ValueError: if a name is that of a dtype, or has two ranges, or a range is of several names.
    """

    def __init__(self, inputs: Any) -> None:
        self._inputs = inputs
        self.axes: list[Axis] = []
        self.ranges: dict[str, tuple[int | None, int | None]] = {}
        names: dict[str, None] = {}
        self._with_shapes(inputs, self._note)
        for axis in self.axes:
            found = _symbols(axis.size)
            names.update(dict.fromkeys(found))
            if isinstance(axis.size, Dim) and (axis.size.low, axis.size.high) != (None, None):
                if len(found) != 1:
                    raise ValueError(f"{axis.size}: a range needs one symbol (got {', '.join(found) or 'none'})")
                limits = axis.size.low, axis.size.high
                if self.ranges.setdefault(found[0], limits) != limits:
                    raise ValueError(f"{found[0]!r} has two ranges, {self.ranges[found[0]]} and {limits}")
        self.symbols = tuple(names)

    def at(self, values: Mapping[str, int]) -> Any:
        """Return the inputs with a value for every symbol.

        Raises:
            CostError: if a size becomes negative.
        """
        return self._with_shapes(self._inputs, lambda shape: tuple(_size_at(size, values) for size in shape))

    def symbols_of(self, size: Any) -> list[str]:
        """Return the names of the symbols in a size."""
        return _symbols(size)

    def value(self, size: Any, values: Mapping[str, int]) -> int:
        """Return a size with a value for every symbol.

        Raises:
            CostError: if it is negative.
        """
        return _size_at(size, values)

    def _note(self, shape: Any) -> Any:
        self.axes += (Axis(size, i, len(shape)) for i, size in enumerate(shape) if is_named(size))
        return shape

    def _with_shapes(self, value: Any, change: Callable[[Any], Any]) -> Any:
        """Return the inputs with every shape that has names changed."""
        if isinstance(value, Tensor):
            return Tensor(change(value.shape), value.dtype, value.role) if any(map(is_named, value.shape)) else value
        if isinstance(value, Mapping):
            return {key: self._with_shapes(item, change) for key, item in value.items()}
        if is_named_shape(value):
            return change(value)
        if not isinstance(value, (list, tuple)):
            return value
        items = [self._with_shapes(item, change) for item in value]
        return type(value)(items) if type(value) in (list, tuple) else type(value)(*items)


def _symbols(size: Any) -> list[str]:
    """Return the names in a size."""
    names: list[str] = []

    def noted(name: str) -> int:
        names.append(name)
        return 1

    size_from(size.name if isinstance(size, Dim) else size, noted)
    for name in names:
        if name in BITS:
            raise ValueError(
                f"{name!r} in a shape is the name of a dtype. A shape with a dtype is a pair, such as "
                f'(("batch", "seq"), "{name}").'
            )
    return list(dict.fromkeys(names))


def _size_at(size: Any, values: Mapping[str, int]) -> int:
    if not is_named(size):
        return int(size)
    number = size_from(size.name if isinstance(size, Dim) else size, values.__getitem__)
    if not isinstance(number, int) or number < 0:
        at = ", ".join(f"{name}={value}" for name, value in values.items())
        raise CostError(
            f"the size {size} is {number} at {at}; state a range, ranges={{…}}, in which it is not negative"
        )
    return as_dim(number)
