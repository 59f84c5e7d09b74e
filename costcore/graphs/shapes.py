"""Dynamic dimensions of files, and inference of symbolic shapes.

Sizes come from the user, from defaults, or are symbols. Rules take and return integers or symbols; frontends translate
attributes of operators (axes, strides) into their arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from costcore.errors import CostError, did_you_mean, unknown
from costcore.graphs.graph import given_shapes
from costcore.ir import prod
from costcore.numbers import (
    Dim,
    as_dim,
    ceil_div,
    floor_div,
    is_symbolic,
    maximum,
    minimum,
    size_from,
    symbol_of,
)

Shape = tuple[Dim, ...]

MOST_ELEMENTS = 1024
"""The maximum number of elements of a value that is computed from sizes."""


class OpenSizes:
    """The sizes that a file leaves open: numbers or formulas of the user, else symbols.

    Args:
        dims: sizes by the name of the symbol, ``{"x_0": 8}``; a size may be a formula, ``"16*h"``.
        defaults: fallback sizes of dimensions that the user does not set.

    Attributes:
        assumed: the names whose default was used.

    Raises:
        TypeError: if a size is neither an integer nor a formula.
        CostError: if a size is negative.
    """

    def __init__(self, dims: Mapping[str, Any] | None = None, defaults: Mapping[str, int] | None = None) -> None:
        self._given, self._defaults = dict(dims or {}), dict(defaults or {})
        self.assumed: set[str] = set()
        self._known: dict[str, Dim] = {}
        for name, size in self._given.items():
            self._from_user(size, f"the size of {name!r}")

    def _from_user(self, given: Any, where: str) -> Dim:
        try:
            size = symbol_of(given) if isinstance(given, str) and given.isidentifier() else size_from(given, symbol_of)
        except TypeError as error:
            raise TypeError(f"{where}: {error}") from None
        if isinstance(size, int) and size < 0:
            raise CostError(f"{where} must be 0 or more (got {size})")
        return size

    def __call__(self, name: str) -> Dim:
        """Return the size of that name; invalid characters are replaced by ``_``."""
        name = "".join(c if c.isalnum() else "_" for c in name)
        if name not in self._known:
            if name in self._given:
                self._known[name] = self._from_user(self._given[name], f"the size of {name!r}")
            elif name in self._defaults:
                self._known[name] = self._defaults[name]
                self.assumed.add(name)
            else:
                self._known[name] = symbol_of(name)
        return self._known[name]

    def bind(
        self, inputs: Sequence[tuple[str, Sequence[int | None]]], given: Any, name: Callable[[str, int], str]
    ) -> list[Shape]:
        """Return the shapes of the inputs of a file.

        Args:
            inputs: names and sizes of the inputs; None is an open size.
            given: shapes that the user gives for open sizes, in order or by name, or None.
            name: returns the name of an open size, from the name of the input and the axis.

        Raises:
            CostError: if a shape does not fit the file.
            TypeError: if one of them is not a shape.
        """
        shapes = given_shapes([label for label, _ in inputs], given)
        found: dict[int, Shape] = {}
        for position, stated in shapes.items():
            label, sizes = inputs[position]
            where = f"input {label!r}"
            bound = tuple(self._from_user(size, f"a size of {where}") for size in stated)
            if len(bound) != len(sizes) or any(a not in (None, b) for a, b in zip(sizes, bound, strict=True)):
                shown = ", ".join("?" if size is None else str(size) for size in sizes)
                raise CostError(f"{where} has the shape ({shown}) in the file (got {tuple(stated)})")
            for i, size in enumerate(sizes):
                if size is None:
                    self._known.setdefault("".join(c if c.isalnum() else "_" for c in name(label, i)), bound[i])
            found[position] = bound
        for position, (label, sizes) in enumerate(inputs):
            if position not in found:  # after the others: a size may have the name of one that was given
                found[position] = tuple(self(name(label, i)) if s is None else s for i, s in enumerate(sizes))
        return [found[position] for position in range(len(inputs))]

    def check(self) -> None:
        """Refuse sizes of names that the file does not have.

        Raises:
            CostError: naming the sizes that it leaves open.
        """
        if extra := [name for name in self._given if name not in self._known]:
            if not self._known:
                raise CostError("the file leaves no dimension open, so that dims cannot be given")
            raise CostError(unknown("dimension", extra, sorted(self._known)[:20]) + did_you_mean(extra, self._known))


# Shapes of results.


def broadcast(*shapes: Sequence[Dim]) -> Shape:
    """Return the broadcast shape. Of sizes that are not 1, a number wins, else the first; they are not compared."""
    rank = max(map(len, shapes), default=0)
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    found = []
    for axis in zip(*padded, strict=True):
        sizes = [size for size in axis if is_symbolic(size) or size != 1]
        found.append(next((size for size in sizes if not is_symbolic(size)), sizes[0] if sizes else 1))
    return tuple(found)


def window(
    size: Dim, kernel: Dim, step: int = 1, dilation: int = 1, padding: Dim = 0, divide: Callable[..., Dim] = floor_div
) -> Dim:
    """Return the number of windows. ``padding`` is the total of both sides, ``divide`` floor or ceil division."""
    return divide(size + padding - dilation * (kernel - 1) - 1, max(step, 1)) + 1


def same_padding(size: Dim, kernel: Dim, step: int = 1, dilation: int = 1) -> Dim:
    """Return the total padding with which an axis has ``ceil(size / step)`` windows."""
    total: Dim = (ceil_div(size, max(step, 1)) - 1) * step + dilation * (kernel - 1) + 1 - size
    return max(total, 0) if isinstance(total, int) else maximum(total, 0) if step > 1 else total


def matmul(x: Sequence[Dim], y: Sequence[Dim], turn_x: bool = False, turn_y: bool = False) -> Shape:
    """Return the shape of a product; 1-d operands are handled as by ``torch.matmul``."""
    rows = () if len(x) == 1 else (x[-1] if turn_x else x[-2],)
    columns = () if len(y) == 1 else (y[-2] if turn_y else y[-1],)
    return (*broadcast(x[:-2], y[:-2]), *rows, *columns)


def reduced(x: Sequence[Dim], axes: Iterable[int] | None, keeps: bool) -> Shape:
    """Return the shape after a reduction over axes, all of them for None."""
    over = set(range(len(x))) if axes is None else {axis % max(len(x), 1) for axis in axes}
    return tuple(1 if i in over else size for i, size in enumerate(x) if keeps or i not in over)


def reshaped(x: Sequence[Dim], wanted: Sequence[Dim], zero_copies: bool = True) -> Shape:
    """Return a wanted shape: -1 is what remains, 0 the size of the same axis if ``zero_copies``."""
    sizes = [x[i] if zero_copies and _is(size, 0) and i < len(x) else size for i, size in enumerate(wanted)]
    unknown_axes = [i for i, size in enumerate(sizes) if _is(size, -1)]
    if len(unknown_axes) == 1:
        rest = prod(size for i, size in enumerate(sizes) if i not in unknown_axes)
        sizes[unknown_axes[0]] = _quotient(prod(x), rest)
    return tuple(sizes)


def _is(size: Dim, number: int) -> bool:
    return bool(size == number)


def _quotient(a: Dim, b: Dim) -> Dim:
    """Return a quotient, exact where symbols cancel."""
    if not is_symbolic(a) and not is_symbolic(b):
        return a // b if b else 0
    if _is(b, 0):
        return 0
    ratio = _rational(a, b) / _rational(b, a)
    return as_dim(ratio) if ratio.is_integer else floor_div(a, b)


def joined(shapes: Sequence[Sequence[Dim]], axis: int) -> Shape:
    """Return the shape of arrays joined along an axis."""
    first = shapes[0]
    axis %= max(len(first), 1)
    others = broadcast(*([*shape[:axis], 1, *shape[axis + 1 :]] for shape in shapes))
    return tuple(sum(shape[i] for shape in shapes) if i == axis else size for i, size in enumerate(others))


def expanded(x: Sequence[Dim], axes: Sequence[int]) -> Shape:
    """Return a shape with further axes of size 1, at these places of the result."""
    shape, rank = list(x), len(x) + len(axes)
    for axis in sorted(axis % rank for axis in axes):
        shape.insert(axis, 1)
    return tuple(shape)


def squeezed(x: Sequence[Dim], axes: Iterable[int] | None) -> Shape:
    """Return a shape without some axes; for None, without all of size 1."""
    if axes is None:
        return tuple(size for size in x if not _is(size, 1))
    gone = {axis % max(len(x), 1) for axis in axes}
    return tuple(size for i, size in enumerate(x) if i not in gone)


def gathered(x: Sequence[Dim], indices: Sequence[Dim], axis: int = 0, batch_dims: int = 0) -> Shape:
    """Return the shape of elements looked up along an axis."""
    axis %= max(len(x), 1)
    return (*x[:axis], *indices[batch_dims % max(len(indices), 1) if batch_dims else 0 :], *x[axis + 1 :])


LARGE = 2**31 - 1
"""A bound of a slice from here on means the end of the axis."""


def sliced(size: Dim, begin: Dim | None, end: Dim | None, step: int = 1) -> Dim:
    """Return how many elements of an axis a slice keeps, as in Python; None begins or ends with the axis."""
    step = step or 1
    if all(not is_symbolic(each) for each in (size, begin, end)):
        return len(range(*slice(begin, end, step).indices(size)))
    if step < 0:
        whole = (begin is None or _is(begin, -1)) and (end is None or (isinstance(end, int) and end <= -LARGE))
        return ceil_div(size, -step) if whole else _slice_down(size, begin, end, step)
    first = _position(0 if begin is None else begin, size)
    last = size if end is None or (isinstance(end, int) and end >= LARGE) else _position(end, size)
    if last is not size and not _is(last - size, 0):
        last = last if _at_most(last, size) else minimum(last, size)
    return ceil_div(last - first, step)


def _slice_down(size: Dim, begin: Dim | None, end: Dim | None, step: int) -> Dim:
    first = size - 1 if begin is None or (isinstance(begin, int) and begin >= LARGE) else _position(begin, size)
    last: Dim = -1 if end is None or (isinstance(end, int) and end <= -LARGE) else _position(end, size)
    return ceil_div(first - last, -step)


def _position(place: Dim, size: Dim) -> Dim:
    is_negative = place < 0 if isinstance(place, int) else place.is_negative
    return place + size if is_negative else place


def _at_most(a: Dim, b: Dim) -> bool:
    """Return whether the end of a slice can be assumed to lie within its axis.

    A number is assumed to be within an axis of unknown size, because the exporter saw a valid one.
    """
    difference = b - a
    if isinstance(difference, int):
        return difference >= 0
    return not is_symbolic(a) or difference.is_nonnegative is not False


def padded(x: Sequence[Dim], before: Sequence[Dim], after: Sequence[Dim]) -> Shape:
    """Return the shape of a padded array."""
    return tuple(size + a + b for size, a, b in zip(x, before, after, strict=True))


def einsum(equation: str, shapes: Sequence[Sequence[Dim]]) -> Shape | None:
    """Return the shape of an einsum; None without an explicit ``->``, or if ranks do not match."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if not arrow or len(terms) != len(shapes):
        return None
    sizes: dict[str, Dim] = {}
    outer: list[Sequence[Dim]] = []
    for term, shape in zip(terms, shapes, strict=True):
        before, dots, after = term.partition("...")
        end = len(shape) - len(after)
        if end < len(before) or (not dots and end != len(before)):
            return None
        sizes |= dict(zip(before, shape, strict=False)) | dict(zip(after, shape[end:], strict=True))
        outer.append(shape[len(before) : end])
    if not sizes.keys() >= set(right.replace("...", "")):
        return None
    before, dots, after = right.partition("...")
    return (*(sizes[name] for name in before), *(broadcast(*outer) if dots else ()), *(sizes[name] for name in after))


# Elements of small values that are computed from sizes.


def over_elements(function: Callable[..., Any], *operands: Sequence[Any]) -> tuple[Any, ...] | None:
    """Apply a function element by element; lengths of 1 are broadcast. None if lengths differ or are too large."""
    count = max(map(len, operands), default=0)
    if count > MOST_ELEMENTS or any(len(each) not in (1, count) for each in operands):
        return None
    return tuple(function(*(each[i if len(each) > 1 else 0] for each in operands)) for i in range(count))


def as_integer(number: Any) -> Dim:
    """Truncate a number; a symbolic one is floored."""
    if is_symbolic(number):
        if number.is_integer:
            return as_dim(number)
        numerator, denominator = number.as_numer_denom()
        return floor_div(as_dim(numerator), as_dim(denominator))
    return int(number)


def times(a: Any, b: Any) -> Any:
    """Return a product, exact for a symbol and a fraction."""
    found = _rational(a, b) * _rational(b, a)
    return found.numerator if isinstance(found, Fraction) and found.denominator == 1 else found


def quotient(a: Any, b: Any, are_integers: bool) -> Any:
    """Return a quotient; of integers without its fraction, else exact.

    Raises:
        ZeroDivisionError: if the divisor is 0.
    """
    if are_integers:
        if _is(b, 0):
            raise ZeroDivisionError
        return _quotient(a, b)
    if not is_symbolic(a) and not is_symbolic(b):
        found = Fraction(a) / Fraction(b)
        return found.numerator if found.denominator == 1 else found
    return _rational(a, b) / _rational(b, a)


def _rational(number: Any, other: Any) -> Any:
    """Return a number as one that ``other`` can be multiplied with and divided by exactly."""
    if is_symbolic(number):
        return number
    found = Fraction(number)
    if is_symbolic(other):
        from sympy import Rational

        return Rational(found.numerator, found.denominator)
    return found.numerator if found.denominator == 1 else found
