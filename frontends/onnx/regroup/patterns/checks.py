"""Checks of matched values that several patterns share."""

from __future__ import annotations

from typing import Any

from costcore.numbers.dims import Dim, is_symbolic

from ...values.value import FLOATS, Value
from ..matcher import DependsOnSizes, Match


def is_shape(shape: tuple[Dim, ...] | None, expected: tuple[Dim, ...]) -> bool:
    """Return True if two shapes are equal for all sizes, False if they are for none.

    Raises:
        DependsOnSizes: if they are equal for some sizes only.
    """
    if shape is None or len(shape) != len(expected):
        return False
    unequal: list[tuple[Any, Any]] = [pair for pair in zip(shape, expected, strict=True) if pair[0] != pair[1]]
    if any(not (is_symbolic(a) or is_symbolic(b)) or (a - b).is_zero is False for a, b in unequal):
        return False
    if unequal:
        raise DependsOnSizes(tuple(dict.fromkeys(_condition(*pair) for pair in unequal)))
    return True


def _condition(size: Any, expected: Any) -> tuple[Any, Any]:
    """Return the two sizes that must be equal, one that has a name first.

    If ``size`` is the broadcast of ``expected`` and another size, these two are.
    """
    broadcast = size.args if is_symbolic(size) and size.func.__name__ == "Max" else ()
    others = [other for other in broadcast if other != expected]
    found = (others[0], expected) if len(broadcast) == 2 and len(others) == 1 else (size, expected)
    return found if is_symbolic(found[0]) and found[0].is_Symbol else found[::-1]


def is_learned(value: Value | None, *shape: Any) -> bool:
    """Return True for a stored floating-point tensor of this shape; see :func:`is_shape`."""
    if value is None or value.stored is None or value.dtype not in FLOATS:
        return False
    return is_shape(value.shape, shape)


def preserves_x(match: Match) -> bool:
    """Return True if the output of the group has the shape and dtype of ``x``; see :func:`is_shape`."""
    y, x = match.nodes[0].call.layer.out, match.values["x"]
    return x.dtype == y.dtype and is_shape(x.shape, y.shape)


def scalar(value: Value) -> Any:
    """Return the element of a constant of one element."""
    return value.data.ravel()[0]
