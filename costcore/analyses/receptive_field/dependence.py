"""How a value depends on one axis of the input: where its axes carry positions, and what is known beyond that."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from costcore.analyses.receptive_field.periodic_map import IDENTITY, PeriodicMap, Taps
from costcore.ir import prod
from costcore.numbers.dims import Dim, is_symbolic


class CannotFollowError(Exception):
    """A rule cannot say what its outputs depend on; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Digit:
    """A part of the position that one axis of a value counts.

    At index i of the axis, its value is d = (i - start) // unit % size, and it adds d * weight to the position. An axis
    that carries the whole position has one digit, with unit 1 and weight 1. A reshape of H and W to H * W gives H the
    unit W; a split of H into blocks of r rows gives two digits, of weight r and 1.

    Attributes:
        axis: the axis of the value.
        size: the number of its values.
        unit: the number of indices per value.
        weight: the positions per value.
        start: the first index at which it counts; others do not depend on the input.
    """

    axis: int
    size: Dim
    unit: Dim = 1
    weight: int = 1
    start: Dim = 0

    @property
    def place(self) -> tuple[int, Dim, Dim, Dim]:
        """What identifies it in operands of one shape: digits at one place of both count the same indices."""
        return self.axis, self.unit, self.size, self.start


@dataclass(frozen=True, slots=True)
class Path:
    """The dependence of each position on a bounded part of the input.

    Attributes:
        map: from positions to intervals of the input.
        digits: what the position consists of, the largest weight first; none if the value has one position.
    """

    map: PeriodicMap
    digits: tuple[Digit, ...] = ()


@dataclass(frozen=True, slots=True)
class Dependence:
    """How a value depends on one axis of the input.

    Attributes:
        path: the local part; None if there is none, or if it cannot be followed.
        global_by: the node that first made it depend on the whole axis; empty if nothing did.
        unknown: the reason why it is unknown, with the node; empty if it is known.
        misaligned: the node that first joined operands of different strides, so that the field grows with the position.
        bounded: the node from which on the path is an upper bound.
        wrapped: the node from which on positions wrap around, which the path does not contain.
    """

    path: Path | None = None
    global_by: str = ""
    unknown: str = ""
    misaligned: str = ""
    bounded: str = ""
    wrapped: str = ""

    def with_path(self, path: Path | None) -> Dependence:
        """Return the same dependence with another path."""
        return replace(self, path=path)

    def made_global(self, node: str) -> Dependence:
        """Return the dependence of a value that depends on the whole axis, because of ``node`` if of no earlier one."""
        return self if self.global_by else replace(self, global_by=node)

    def marks(self, other: Dependence) -> Dependence:
        """Return this dependence with what is known of another operand's, except its path."""
        pairs = {
            name: getattr(self, name) or getattr(other, name)
            for name in ("global_by", "unknown", "misaligned", "bounded", "wrapped")
        }
        lost = pairs["unknown"] or pairs["misaligned"]
        return Dependence(None if lost else self.path, **pairs)


def of_input(axis: int, size: Dim) -> Dependence:
    """Return the dependence of the input on its own axis."""
    return Dependence(Path(IDENTITY, (Digit(axis, size),)))


def carries(dependence: Dependence | None, axis: int) -> bool:
    """Return whether indices along an axis of a value count positions."""
    path = None if dependence is None else dependence.path
    return path is not None and any(digit.axis == axis for digit in path.digits)


def exact_quotient(a: Dim, b: Dim) -> Dim | None:
    """Return ``a / b``; None if it is not a whole number, for all values of symbols."""
    if a == b:
        return 1
    if is_symbolic(a) or is_symbolic(b):
        from sympy import cancel, fraction

        numerator, denominator = fraction(cancel(a / b))
        if denominator != 1:
            return None
        return int(numerator) if numerator.is_Integer else numerator
    return a // b if b and a % b == 0 else None


def top(path: Path) -> Digit:
    """Return the digit that counts the largest part of the position."""
    return path.digits[0]


def sorted_digits(digits: Iterable[Digit]) -> tuple[Digit, ...]:
    """Return digits with the largest weight first."""
    return tuple(sorted(digits, key=lambda digit: -digit.weight))


def number(value: Dim, what: str) -> int:
    """Return a dimension that must be a number.

    Raises:
        CannotFollowError: if it is symbolic.
    """
    exact: Any = value
    if is_symbolic(exact) and not exact.is_Integer:
        raise CannotFollowError(f"{what} of symbolic size")
    return int(exact)


def normalized(path: Path) -> Path:
    """Return the path with weights that have no common factor; without digits, with the interval of one position."""
    if not path.digits:
        return Path(path.map.through(Taps(0, ((0,),))))
    smallest = path.digits[-1].weight
    if smallest <= 1 or any(digit.weight % smallest for digit in path.digits):
        return path
    digits = tuple(replace(digit, weight=digit.weight // smallest) for digit in path.digits)
    return Path(path.map.through(Taps.every(smallest)), digits)


def without(dependence: Dependence, dropped: Iterable[Digit], node: str) -> Dependence:
    """Return the dependence of a value that combines all values of some digits of its operand.

    If the digit with the largest weight is among them, it depends on the whole axis.
    """
    path = dependence.path
    dropped = [digit for digit in dropped if path is not None and digit in path.digits]
    if path is None or not dropped:
        return dependence
    if top(path) in dropped:
        return dependence.with_path(None).made_global(node)
    for digit in dropped:
        taps = Taps(1, (range(0, digit.weight * number(digit.size, "a block"), digit.weight),))
        path = Path(path.map.through(taps), tuple(each for each in path.digits if each != digit))
    return dependence.with_path(normalized(path))


def fixed(path: Path, digit: Digit, value: int) -> Path:
    """Return the path of one value of a digit."""
    rest = tuple(each for each in path.digits if each != digit)
    return normalized(Path(path.map.through(Taps.every(1, digit.weight * value)), rest))


def at_first(path: Path, digits: Iterable[Digit]) -> Path:
    """Return the path of the first value of some digits."""
    dropped = set(digits)
    return normalized(Path(path.map, tuple(each for each in path.digits if each not in dropped)))


def contracted(dependence: Dependence, axes: Iterable[int], node: str) -> Dependence:
    """Return the dependence of a value that combines all indices of some axes; the axes remain."""
    axes = set(axes)
    path = dependence.path
    return dependence if path is None else without(dependence, [d for d in path.digits if d.axis in axes], node)


def moved(dependence: Dependence, to: Iterable[int | None]) -> Dependence:
    """Return the dependence after axes moved; ``to`` has the new number of each axis.

    Raises:
        CannotFollowError: if an axis that carries positions is gone.
    """
    path, numbers = dependence.path, tuple(to)
    if path is None:
        return dependence
    digits = []
    for digit in path.digits:
        axis = numbers[digit.axis]
        if axis is None:
            raise CannotFollowError("an axis with positions is removed")
        digits.append(replace(digit, axis=axis))
    return dependence.with_path(Path(path.map, tuple(digits)))


def plain_digit(path: Path, axis: int, size: Dim) -> tuple[Path, Digit] | None:
    """Return the digit that counts the indices of an axis, one by one, and the path with it; None if there is none.

    Raises:
        CannotFollowError: if the axis carries positions in another way.
    """
    on_axis = [digit for digit in path.digits if digit.axis == axis]
    if not on_axis:
        return None
    digit = on_axis[0]
    if digit.unit == 1 and digit.size == size:  # which no other part and no start leaves room for
        return path, digit
    if exact_quotient(size, digit.size) != digit.unit or len(path.digits) > 1 or digit.weight != 1:
        raise CannotFollowError("an axis with positions and something else")
    repeated = path.map.through(Taps.repeated(number(digit.unit, "a repetition")))
    digit = Digit(axis, size)
    return Path(repeated, (digit,)), digit


def slid(dependence: Dependence, axis: int, taps: Taps, size: Dim, new_size: Dim) -> Dependence:
    """Return the dependence of a value whose indices along an axis read those of its operand at ``taps``.

    Args:
        dependence: that of the operand.
        axis: the axis, of both.
        taps: the indices read.
        size: the size of the axis of the operand.
        new_size: the size of the axis of the value.

    Raises:
        CannotFollowError: if only a part of the position moves along the axis, and the others depend on it.
    """
    found = None if dependence.path is None else plain_digit(dependence.path, axis, size)
    if found is None:
        return dependence
    path, digit = found
    new = replace(digit, size=new_size)
    if len(path.digits) == 1:
        return dependence.with_path(Path(path.map.through(taps, size), (new,)))
    if taps in (Taps.window(1), Taps.every(1)):
        return dependence.with_path(Path(path.map, tuple(new if each == digit else each for each in path.digits)))
    if digit != top(path) or len(taps.offsets) > 1 or taps.advance < 1:
        raise CannotFollowError("a window over a part of positions")
    window = Taps(1, (tuple(digit.weight * offset for offset in taps.offsets[0]),))
    widened = path.map.through(window, digit.weight * size)
    new = replace(new, weight=digit.weight * taps.advance)
    return dependence.with_path(Path(widened, (new, *path.digits[1:])))


def reshaped(dependence: Dependence, old: tuple[Dim, ...], new: tuple[Dim, ...]) -> Dependence:
    """Return the dependence after elements in row-major order got another shape.

    Raises:
        CannotFollowError: if positions are split at symbolic sizes, or in parts that differ.
    """
    path = dependence.path
    if path is None or old == new:
        return dependence
    strides = [prod(new[axis + 1 :]) for axis in range(len(new))]
    digits: list[Digit] = []
    constant: list[Digit] = []
    for digit in path.digits:
        stride = prod(old[digit.axis + 1 :])
        if digit.start != 0 or digit.size == 1:
            kept = [axis for axis, size in enumerate(new) if size == old[digit.axis] and strides[axis] == stride]
            if kept:
                digits.append(replace(digit, axis=kept[0]))
            elif digit.size == 1:
                constant.append(digit)
            else:
                raise CannotFollowError("a reshape of positions and something else")
        else:
            digits += _placed(digit, digit.unit * stride, new, strides)
    found = at_first(Path(path.map, sorted_digits((*digits, *constant))), constant)
    return dependence.with_path(Path(found.map, _joined(found.digits)))


def _placed(digit: Digit, unit: Dim, shape: tuple[Dim, ...], strides: list[Dim]) -> list[Digit]:
    """Return the digits on the axes of a shape that together count what ``digit`` does, one value per ``unit``."""
    for axis, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        inside = exact_quotient(unit, stride)
        if inside is not None and exact_quotient(size, inside * digit.size) is not None:
            return [replace(digit, axis=axis, unit=inside)]
    if not any(map(is_symbolic, (unit, digit.size, *strides))):
        for stride in strides:
            inner = exact_quotient(stride, unit)
            if inner is not None and 1 < inner < digit.size and digit.size % inner == 0:
                outer = replace(digit, size=digit.size // inner, weight=digit.weight * inner)
                return [
                    *_placed(outer, stride, shape, strides),
                    *_placed(replace(digit, size=inner), unit, shape, strides),
                ]
    raise CannotFollowError("a reshape that splits positions unevenly")


def _joined(digits: tuple[Digit, ...]) -> tuple[Digit, ...]:
    """Return digits in which neighbors on one axis that count as one digit are one."""
    joined: list[Digit] = []
    for digit in digits:
        last = joined[-1] if joined else None
        if (
            last is not None
            and last.axis == digit.axis
            and last.start == digit.start == 0
            and last.weight == digit.weight * digit.size
            and last.unit == digit.unit * digit.size
        ):
            joined[-1] = replace(digit, size=last.size * digit.size)
        else:
            joined.append(digit)
    return tuple(joined)
