"""The shapes of inputs: sizes with names, and shapes with the name of a dtype, ``((2, 128), "int64")``.

Values are marked as such: the list ``[64, 64]`` may be a shape as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, NamedTuple

from costcore.ir import BITS, Tensor
from costcore.messages import unknown
from costcore.numbers.dims import is_symbolic


class Dim(NamedTuple):
    """A size with a name and, optionally, its range: ``Dim("height", 64, 512)``.

    Attributes:
        name: the symbol, or a sum or product of symbols and integers (``"16*h"``, ``"seq+1"``).
        low: the smallest value of the symbol; None if no range is stated.
        high: the largest value of the symbol; None if no range is stated.
    """

    name: str
    low: int | None = None
    high: int | None = None


@dataclass(frozen=True, slots=True)
class Value:
    """An argument that the model gets as it is: ``Value([64, 64])`` is a list of two integers, and not a shape.

    Attributes:
        value: the argument; tensors in it are treated as outside of it.
    """

    value: Any


def without_marks(inputs: Any) -> Any:
    """Return inputs with a list or number in place of each :class:`Value`."""
    if isinstance(inputs, Value):
        return [*inputs.value] if isinstance(inputs.value, tuple) else inputs.value
    if type(inputs) is dict:
        return {name: without_marks(value) for name, value in inputs.items()}
    if type(inputs) in (list, tuple):
        return type(inputs)(map(without_marks, inputs))
    return inputs


def has_names(inputs: Any) -> bool:
    """Return whether some shape among the inputs has a name in it."""
    return any(True for _ in _named_shapes(inputs))


def _named_shapes(value: Any) -> Iterator[Any]:
    if isinstance(value, Tensor):
        if any(map(is_named, value.shape)):
            yield value.shape
    elif is_named_shape(value):
        yield value
    elif isinstance(value, (Mapping, list, tuple)):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _named_shapes(item)


def is_named_shape(value: Any) -> bool:
    """Return whether a value is a list or tuple of sizes, some of which have names. A list of texts is not."""
    if isinstance(value, Dim) or not isinstance(value, (list, tuple)):
        return False
    if isinstance(value, list) and all(isinstance(size, str) for size in value):
        return False
    return any(map(is_named, value)) and all(is_named(size) or is_integer(size) for size in value)


def is_named(size: Any) -> bool:
    """Return whether a size of a shape has a name."""
    return isinstance(size, (str, Dim)) or is_symbolic(size)


def is_integer(size: Any) -> bool:
    """Return whether a size of a shape is an integer of any type."""
    return hasattr(size, "__index__") and not isinstance(size, bool) and getattr(size, "ndim", 0) == 0


def with_tensors(inputs: Any) -> Any:
    """Return inputs with a :class:`Tensor` for every pair of a shape and the name of a dtype; the rest is the same.

    Raises:
        ValueError: if a text beside a shape is almost the name of a dtype.
    """
    if _is_typed_shape(inputs):
        return Tensor(tuple(inputs[0]), inputs[1])
    if type(inputs) is dict:
        return {name: with_tensors(value) for name, value in inputs.items()}
    if type(inputs) in (list, tuple):
        return type(inputs)(map(with_tensors, inputs))
    return inputs


def _is_typed_shape(value: Any) -> bool:
    if type(value) is not tuple or len(value) != 2 or not isinstance(value[1], str):
        return False
    shape, dtype = value
    if type(shape) not in (list, tuple) or not shape or not all(is_named(size) or is_integer(size) for size in shape):
        return False
    if dtype not in BITS and get_close_matches(dtype, BITS, cutoff=0.75):  # another text is an argument of the model
        raise ValueError(f"shape {tuple(shape)} with a dtype: {unknown('dtype', dtype, BITS)}")
    return dtype in BITS
