"""Rows of matrix products: ``dot_general`` with any dimension numbers."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters
from typing import Any, NamedTuple

from costcore.ir import prod
from costcore.numbers import Dim
from costcore.translate import Arguments, Row

from ..capture.values import Value
from .arguments import XS, operand, row


class Axes(NamedTuple):
    """The axes of one operand of a product.

    Attributes:
        batch: those that both operands and the output share.
        contracted: those that are summed over.
        free: all others.
    """

    batch: tuple[int, ...]
    contracted: tuple[int, ...]
    free: tuple[int, ...]


def axes_of(a: Arguments) -> tuple[Axes, Axes]:
    """Return the axes of both operands of ``dot_general``."""
    contracted, batch = a["dimension_numbers"]
    return tuple(  # type: ignore[return-value]
        _axes(value.ndim, tuple(map(int, batch[i])), tuple(map(int, contracted[i])))
        for i, value in enumerate(a["inputs"][:2])
    )


def _axes(rank: int, batch: tuple[int, ...], contracted: tuple[int, ...]) -> Axes:
    return Axes(batch, contracted, tuple(i for i in range(rank) if i not in batch and i not in contracted))


def weight_position(a: Arguments) -> int | None:
    """Return which operand is the weight of a linear layer; None if the product is not a linear layer.

    The other operand is data, no axis is a batch axis of both, and something is summed over.
    """
    left, right = a["inputs"][:2]
    axes = axes_of(a)[0]
    if axes.batch or not axes.contracted or left.is_weight == right.is_weight:
        return None
    return 0 if left.is_weight else 1


def _data(a: Arguments) -> Value:
    """Return the data of a linear layer, the features as its last axis."""
    position = 1 - (weight_position(a) or 0)
    value, axes = a["inputs"][position], axes_of(a)[position]
    if axes.contracted == (value.ndim - 1,):
        return _value(value)
    return _value(value).viewed(*_sizes(value, axes.free), prod(_sizes(value, axes.contracted)))


def _weight(a: Arguments) -> Value:
    """Return the weight of a linear layer as ``[F_out, F_in]``."""
    position = weight_position(a) or 0
    value, axes = a["inputs"][position], axes_of(a)[position]
    return _value(value).viewed(prod(_sizes(value, axes.free)), prod(_sizes(value, axes.contracted)))


def _value(value: Any) -> Value:
    found: Value = value
    return found


def _sizes(value: Value, axes: Sequence[int]) -> list[Dim]:
    return [value.shape[axis] for axis in axes]


def is_matmul(a: Arguments) -> bool:
    """Return whether the operands are stacks of matrices [..., M, K] and [..., K, N] as ``numpy.matmul`` has them."""
    left, right = axes_of(a)
    batch = tuple(range(len(left.batch)))
    return (
        (left.batch, right.batch) == (batch, batch)
        and left.contracted == (a["inputs"][0].ndim - 1,)
        and right.contracted == (len(batch),)
        and len(right.free) == 1
        and (len(left.free) == 1 or not batch)
    )


def equation(a: Arguments) -> str:
    """Return a product as an equation of ``einsum``: batch axes first, then the free axes of both operands."""
    left, right = axes_of(a)
    letters = iter(ascii_letters)
    of_left = {axis: next(letters) for axis in range(a["inputs"][0].ndim)}
    of_right = {axis: of_left[other] for axis, other in zip(right.batch, left.batch, strict=True)}
    of_right |= {axis: of_left[other] for axis, other in zip(right.contracted, left.contracted, strict=True)}
    of_right |= {axis: next(letters) for axis in right.free}
    result = [of_left[i] for i in (*left.batch, *left.free)] + [of_right[i] for i in right.free]
    terms = ("".join(labels[i] for i in sorted(labels)) for labels in (of_left, of_right))
    return f"{','.join(terms)}->{''.join(result)}"


def _numbers(value: Any) -> Any:
    """Return nested lists of axes as tuples of ints."""
    return tuple(map(_numbers, value)) if isinstance(value, (tuple, list)) else int(value)


def _rows(a: Arguments) -> Value:
    """Return the left operand of a ragged product as ``[M, K]``."""
    value, (contracted, _) = a["inputs"][0], _ragged_axes(a)
    free = [i for i in range(value.ndim) if i not in contracted]
    return _value(value).viewed(prod(_sizes(value, free)), prod(_sizes(value, contracted)))


def _matrices(a: Arguments) -> Value:
    """Return the right operand of a ragged product as ``[G, K, N]``, or ``[K, N]`` if the groups are along K."""
    value, (_, contracted) = a["inputs"][1], _ragged_axes(a)
    groups = [*map(int, a["ragged_dot_dimension_numbers"].rhs_group_dimensions)]
    free = [i for i in range(value.ndim) if i not in contracted and i not in groups]
    inner = (prod(_sizes(value, contracted)), prod(_sizes(value, free)))
    return _value(value).viewed(*_sizes(value, groups), *inner)


def _ragged_axes(a: Arguments) -> Any:
    """Return the contracted axes of both operands of a ragged product."""
    return _numbers(a["ragged_dot_dimension_numbers"].dot_dimension_numbers[0])


ROWS: tuple[Row, ...] = (
    Row("jax::dot_general", "linear", {"x": _data, "w": _weight}, when=lambda a: weight_position(a) is not None),
    Row("jax::dot_general", "matmul", XS, when=is_matmul),
    row("dot_general", "einsum", XS, equation=equation),
    row("ragged_dot_general", "grouped_matmul", {"x0": _rows, "x1": _matrices, "offsets": operand(2)}),
    row("scaled_dot", "jax::scaled_dot", XS, dimension_numbers=lambda a: _numbers(a["dimension_numbers"])),
    row("symmetric_product", "jax::symmetric_product", {"x": operand(0), "x1": operand(1)}),
    row("cholesky_update", "jax::cholesky_update", {"x": operand(0), "x1": operand(1)}),
)
