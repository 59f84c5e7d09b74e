"""How a value depends on one axis of the input: the map of its positions, and where its axes carry them.

A :class:`PeriodicMap` sends each position of a value to an interval of the input. A position can be spread over axes,
as :class:`AxisFactor` says, after reshapes. Rules transform a :class:`Dependence`: they slide windows, contract axes,
reshape, broadcast, and unite operands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import gcd, lcm
from typing import Any, TypeAlias

from costcore.ir import Layer, Tensor, prod
from costcore.numbers import Dim, is_symbolic


class CannotFollowError(Exception):
    """A rule does not know the dependence of its outputs; the message is the reason."""


@dataclass(frozen=True, slots=True)
class AxisFactor:
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
        """The indices that it counts, comparable between operands of one shape."""
        return self.axis, self.unit, self.size, self.start


@dataclass(frozen=True, slots=True)
class Path:
    """The dependence of each position on a bounded part of the input.

    Attributes:
        map: from positions to intervals of the input.
        digits: what the position consists of, the largest weight first; none if the value has one position.
    """

    map: PeriodicMap
    digits: tuple[AxisFactor, ...] = ()


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
        """Return this dependence with the marks of another operand's, except its path."""
        pairs = {
            name: getattr(self, name) or getattr(other, name)
            for name in ("global_by", "unknown", "misaligned", "bounded", "wrapped")
        }
        lost = pairs["unknown"] or pairs["misaligned"]
        return Dependence(None if lost else self.path, **pairs)


def of_input(axis: int, size: Dim) -> Dependence:
    """Return the dependence of the input on its own axis."""
    return Dependence(Path(IDENTITY, (AxisFactor(axis, size),)))


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


def top(path: Path) -> AxisFactor:
    """Return the digit that counts the largest part of the position."""
    return path.digits[0]


def sorted_digits(digits: Iterable[AxisFactor]) -> tuple[AxisFactor, ...]:
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
        return Path(path.map.through(Stencil(0, ((0,),))))
    smallest = path.digits[-1].weight
    if smallest <= 1 or any(digit.weight % smallest for digit in path.digits):
        return path
    digits = tuple(replace(digit, weight=digit.weight // smallest) for digit in path.digits)
    return Path(path.map.through(Stencil.every(smallest)), digits)


def without(dependence: Dependence, dropped: Iterable[AxisFactor], node: str) -> Dependence:
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
        taps = Stencil(1, (range(0, digit.weight * number(digit.size, "a block"), digit.weight),))
        path = Path(path.map.through(taps), tuple(each for each in path.digits if each != digit))
    return dependence.with_path(normalized(path))


def fixed(path: Path, digit: AxisFactor, value: int) -> Path:
    """Return the path of one value of a digit."""
    rest = tuple(each for each in path.digits if each != digit)
    return normalized(Path(path.map.through(Stencil.every(1, digit.weight * value)), rest))


def at_first(path: Path, digits: Iterable[AxisFactor]) -> Path:
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


def plain_digit(path: Path, axis: int, size: Dim) -> tuple[Path, AxisFactor] | None:
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
    repeated = path.map.through(Stencil.repeated(number(digit.unit, "a repetition")))
    digit = AxisFactor(axis, size)
    return Path(repeated, (digit,)), digit


def slid(dependence: Dependence, axis: int, taps: Stencil, size: Dim, new_size: Dim) -> Dependence:
    """Return the dependence after indices along an axis read the ``taps`` of the operand.

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
    if taps in (Stencil.window(1), Stencil.every(1)):
        return dependence.with_path(Path(path.map, tuple(new if each == digit else each for each in path.digits)))
    if digit != top(path) or len(taps.offsets) > 1 or taps.advance < 1:
        raise CannotFollowError("a window over a part of positions")
    window = Stencil(1, (tuple(digit.weight * offset for offset in taps.offsets[0]),))
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
    digits: list[AxisFactor] = []
    constant: list[AxisFactor] = []
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
            digits += _split_over_axes(digit, digit.unit * stride, new, strides)
    found = at_first(Path(path.map, sorted_digits((*digits, *constant))), constant)
    return dependence.with_path(Path(found.map, _merged_digits(found.digits)))


def _split_over_axes(digit: AxisFactor, unit: Dim, shape: tuple[Dim, ...], strides: list[Dim]) -> list[AxisFactor]:
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
                    *_split_over_axes(outer, stride, shape, strides),
                    *_split_over_axes(replace(digit, size=inner), unit, shape, strides),
                ]
    raise CannotFollowError("a reshape that splits positions unevenly")


def _merged_digits(digits: tuple[AxisFactor, ...]) -> tuple[AxisFactor, ...]:
    joined: list[AxisFactor] = []
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


# Union of the dependences of several operands.


def united(dependences: Iterable[Dependence | None], node: str) -> Dependence | None:
    """Return the dependence of a value computed position by position from all operands.

    Operands that do not depend on the input are None; so is the result if all of them are.

    Raises:
        CannotFollowError: if positions cannot be compared.
    """
    result: Dependence | None = None
    for dependence in dependences:
        if dependence is not None:
            result = dependence if result is None else _union(result, dependence, node)
    return result


def _union(one: Dependence, other: Dependence, node: str) -> Dependence:
    # Digits at the same places of both count the same part of the position.
    if one is other:
        return one
    if one.path is None or other.path is None:
        longer = other if one.path is None else one
        return longer.marks(other if longer is one else one)
    if len(other.path.digits) > len(one.path.digits):
        one, other = other, one
    assert one.path is not None
    other = _restricted_to(other, one.path, node)
    assert one.path is not None
    if other.path is not None:
        other = _extended_to(other, one.path, node)
    both = one.marks(other)
    if one.path is None or other.path is None or both.path is None:
        return both
    try:
        return both.with_path(Path(one.path.map.union(other.path.map), one.path.digits))
    except MisalignedError:
        return replace(both, path=None, misaligned=both.misaligned or node)


def _restricted_to(dependence: Dependence, target: Path, node: str) -> Dependence:
    """Return a dependence with only the digits that ``target`` has at the same places.

    If the axes of a result are positions of different operands, as for scores of attention, it sees parts of both;
    their hull is as wide as all positions along the second axis.
    """
    assert dependence.path is not None
    places = {digit.place for digit in target.digits}
    return without(dependence, [digit for digit in dependence.path.digits if digit.place not in places], node)


def _extended_to(dependence: Dependence, target: Path, node: str) -> Dependence:
    """Return a dependence with all digits of ``target``, on which its map does not depend.

    A value that is the same for all positions, such as that of one row, has no bounded distance to them: the result
    depends on the whole axis.
    """
    path = dependence.path
    assert path is not None
    weights = {digit.place: digit.weight for digit in path.digits}
    missing = [digit for digit in target.digits if digit.place not in weights]
    if missing and top(target) in missing:
        return dependence.with_path(None).made_global(node)
    factors = {Fraction(d.weight, weights[d.place]) for d in target.digits if d.place in weights}
    if len(factors) > 1 or any(factor.denominator > 1 for factor in factors):
        raise CannotFollowError("operands with different parts of positions")
    factor = max(map(int, factors), default=1)
    extended = path.map.through(Stencil.repeated(factor))
    for digit in missing:
        if digit.weight >= factor:
            span = digit.weight * number(digit.size, "a block")
            extended = extended.through(Stencil(span, tuple((phase % digit.weight,) for phase in range(span))))
    return dependence.with_path(Path(extended, target.digits))


def broadcast(
    dependence: Dependence | None, shape: tuple[Dim, ...], new: tuple[Dim, ...], node: str
) -> Dependence | None:
    """Return the dependence of an operand that is repeated to a shape with as many axes or more.

    Raises:
        CannotFollowError: if it cannot be.
    """
    if shape == new:
        return dependence
    lead = len(new) - len(shape)
    if lead < 0:
        raise CannotFollowError("an operand with more axes than the result")
    if dependence is None or dependence.path is None:
        return dependence
    repeated, digits = [], []
    for digit in dependence.path.digits:
        size, new_size = shape[digit.axis], new[lead + digit.axis]
        if size == 1 != new_size:
            repeated.append(digit)
        elif size != new_size and not (is_symbolic(size) or is_symbolic(new_size)):
            raise CannotFollowError("operands whose shapes do not match")
    path = at_first(dependence.path, repeated)
    for digit in path.digits:
        is_whole = digit.unit == 1 and digit.size == shape[digit.axis]
        size = new[lead + digit.axis] if is_whole else digit.size
        digits.append(replace(digit, axis=lead + digit.axis, size=size))
    return dependence.with_path(Path(path.map, tuple(digits)))


# The argument of a rule: one call, seen from one axis of the input.


Rule: TypeAlias = "Callable[[RuleContext], Sequence[Dependence | None]]"
"""Returns how each output depends on one axis of the input; None for an output that does not.

It raises ``CannotFollowError`` if it cannot say."""


@dataclass(slots=True)
class RuleContext:
    """One call, seen from one axis of the input.

    Attributes:
        layer: the operator.
        node: name of the call in results.
        operands: by name, the operands that depend on the input.
        slides: whether a window moved along an axis that carries positions; set by :meth:`slide`.
    """

    layer: Layer
    node: str
    operands: Mapping[str, Dependence]
    slides: bool = False

    @property
    def x(self) -> Tensor:
        """The first operand."""
        return next(iter(self.layer.inputs.values()))

    @property
    def y(self) -> Tensor:
        """The first output."""
        return self.layer.out

    @property
    def of_x(self) -> Dependence | None:
        """How the first operand depends on the input."""
        return self.operands.get(next(iter(self.layer.inputs)))

    def slide(self, dependence: Dependence, axis: int, taps: Stencil, size: Dim, new_size: Dim) -> Dependence:
        """Return the dependence after indices along ``axis`` read ``taps``."""
        result = slid(dependence, axis, taps, size, new_size)
        self.slides |= carries(dependence, axis)
        return result

    def pool(self, dependence: Dependence, axis: int) -> Dependence:
        """Return the dependence of a value that combines all indices of an axis of positions, as one window."""
        self.slides |= carries(dependence, axis)
        return self.contract(dependence, [axis])

    def contract(self, dependence: Dependence, axes: Iterable[int]) -> Dependence:
        """Return the dependence of a value that combines all indices of some axes, which remain."""
        return contracted(dependence, axes, self.node)

    def unite(self, dependences: Iterable[Dependence | None]) -> Dependence | None:
        """Return the dependence of a value on everything that these depend on."""
        return united(dependences, self.node)

    def in_context(self, dependence: Dependence, axes: Iterable[int]) -> Dependence:
        """Return the dependence of a value computed from its own position and statistics along some axes."""
        result = self.unite([dependence, self.contract(dependence, axes)])
        assert result is not None
        return result

    def elementwise(self, shape: tuple[Dim, ...], names: Iterable[str] | None = None) -> Dependence | None:
        """Return the dependence of a value of ``shape`` computed element by element from its operands."""
        chosen = self.operands if names is None else [name for name in names if name in self.operands]
        tensors = self.layer.inputs
        return self.unite(broadcast(self.operands[name], tensors[name].shape, shape, self.node) for name in chosen)

    def all_outputs(self, dependence: Dependence | None) -> list[Dependence | None]:
        """Return the same dependence for every output."""
        return [dependence] * len(self.layer.outputs)

    def attribute(self, name: str) -> object:
        """Return an attribute that the rule needs.

        Raises:
            CannotFollowError: if the layer does not have it.
        """
        if name not in self.layer.attrs:
            raise CannotFollowError(f"no attribute {name!r}")
        return self.layer.attrs[name]


# Periodic maps: from positions of a value to intervals of input positions.


MOST_PHASES = 4096
"""The largest period of a map. A longer one comes from chains of unusual resize ratios."""

Interval: TypeAlias = "tuple[int, int] | None"
"""The first and the last input position; None if a position sees nothing, as behind gaps of transposed convolutions."""


class TooManyPhasesError(Exception):
    """The pattern repeats only after more than :data:`MOST_PHASES` positions."""


class MisalignedError(Exception):
    """Two maps have different strides: the field of their union grows with the position."""


@dataclass(frozen=True, slots=True)
class Stencil:
    """The positions of its operand that each position of a result reads.

    Position ``q * period + r`` reads the positions ``q * advance + t``, for every t in ``offsets[r]``.

    Attributes:
        advance: how far the operand moves while the result moves by one period.
        offsets: for each phase r, the positions read.
    """

    advance: int
    offsets: tuple[Sequence[int], ...]

    def of(self, position: int) -> Iterator[int]:
        """Return the positions that a position reads."""
        steps, phase = divmod(position, len(self.offsets))
        return (steps * self.advance + offset for offset in self.offsets[phase])

    @classmethod
    def window(cls, size: int, stride: int = 1, padding: int = 0, dilation: int = 1) -> Stencil:
        """Return the taps of a convolution or pooling."""
        return cls(stride, (range(-padding, -padding + dilation * (size - 1) + 1, dilation),))

    @classmethod
    def transposed(cls, size: int, stride: int, padding: int, dilation: int = 1) -> Stencil:
        """Return the taps of a transposed convolution: position o reads (o + padding - t * dilation) / stride."""
        phases = []
        for phase in range(stride):
            reached = [phase + padding - t * dilation for t in range(size)]
            phases.append(tuple(position // stride for position in reached if position % stride == 0))
        return cls(1, tuple(phases))

    @classmethod
    def every(cls, stride: int, start: int = 0) -> Stencil:
        """Return the taps of a slice with a step; a negative one reverses it."""
        return cls(stride, ((start,),))

    @classmethod
    def repeated(cls, times: int) -> Stencil:
        """Return the taps of a value with repeated elements."""
        return cls(1, ((0,),) * times)


@dataclass(frozen=True, slots=True)
class PeriodicMap:
    """The map of one axis: position ``q * period + r`` sees ``q * advance`` plus ``intervals[r]``.

    The map is of an endless axis. Borders are where :meth:`seen` follows it to the input.

    Attributes:
        advance: how far the interval moves in one period; negative behind a flip, 0 if every position sees the same.
        intervals: the interval of each phase.
        reads: the maps of its operands, each with the taps and the number of positions of the operand, None if all
            are inside; empty for an input.
        known: the cache of :meth:`seen`.
    """

    advance: int
    intervals: tuple[Interval, ...]
    reads: tuple[tuple[PeriodicMap, Stencil, int | None], ...] = field(default=(), compare=False, repr=False)
    known: dict[int, Interval] = field(default_factory=dict, init=False, compare=False, repr=False)

    @property
    def period(self) -> int:
        """The number of positions after which the pattern repeats."""
        return len(self.intervals)

    @property
    def stride(self) -> Fraction:
        """The input positions per position."""
        return Fraction(self.advance, self.period)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of input positions that each phase sees, from the first to the last."""
        return tuple(0 if interval is None else interval[1] - interval[0] + 1 for interval in self.intervals)

    def __call__(self, position: int) -> Interval:
        """Return the interval of a position."""
        steps, phase = divmod(position, self.period)
        interval = self.intervals[phase]
        return None if interval is None else (interval[0] + steps * self.advance, interval[1] + steps * self.advance)

    def seen(self, position: int) -> Interval:
        """Return the positions seen by one position, if everything beyond the borders of operands is padding."""
        waiting = [(self, position)]
        while waiting:
            one, at = waiting[-1]
            read = [(other, i) for other, taps, size in one.reads for i in taps.of(at) if size is None or 0 <= i < size]
            if missing := [(other, i) for other, i in read if i not in other.known]:
                waiting += missing
                continue
            one.known[at] = _hull(other.known[i] for other, i in read) if one.reads else one(at)
            waiting.pop()
        return self.known[position]

    def through(self, taps: Stencil, size: Dim | None = None) -> PeriodicMap:
        """Return the map of a value that reads this one.

        Args:
            taps: the positions that it reads.
            size: the number of positions of this value, beyond which reads are padding; None if it reads no padding.

        Raises:
            TooManyPhasesError: if its period is too large.
        """
        repeats = self.period // gcd(self.period, taps.advance)
        period = len(taps.offsets) * repeats
        if period > MOST_PHASES:
            raise TooManyPhasesError
        intervals = []
        for position in range(period):
            steps, phase = divmod(position, len(taps.offsets))
            start = steps * taps.advance
            intervals.append(_hull(self(start + offset) for offset in _hull_offsets(taps.offsets[phase], self.period)))
        found = PeriodicMap(self.advance * taps.advance * repeats // self.period, tuple(intervals)).reduced()
        return replace(found, reads=((self, taps, None if is_symbolic(size) else size),))

    def union(self, other: PeriodicMap) -> PeriodicMap:
        """Return the map of a value that sees the positions of either operand.

        Raises:
            MisalignedError: if their strides differ.
            TooManyPhasesError: if the common period is too large.
        """
        if self is other:
            return self
        if self.stride != other.stride:
            raise MisalignedError
        period = lcm(self.period, other.period)
        if period > MOST_PHASES:
            raise TooManyPhasesError
        intervals = tuple(_hull((self(position), other(position))) for position in range(period))
        found = PeriodicMap(self.advance * period // self.period, intervals).reduced()
        return replace(found, reads=tuple((each, Stencil.every(1), None) for each in (self, other)))

    def reduced(self) -> PeriodicMap:
        """Return the same map with its smallest period."""
        for period in range(1, self.period):
            repeats, rest = divmod(self.period, period)
            if rest or self.advance % repeats:
                continue
            shorter = PeriodicMap(self.advance // repeats, self.intervals[:period])
            if all(shorter(position) == interval for position, interval in enumerate(self.intervals)):
                return shorter
        return self


def _hull(intervals: Iterable[Interval]) -> Interval:
    seen = [interval for interval in intervals if interval is not None]
    return (min(first for first, _ in seen), max(last for _, last in seen)) if seen else None


def _hull_offsets(offsets: Sequence[int], period: int) -> Sequence[int]:
    # Offsets one period apart see intervals of one shape: the first and the last reach furthest.
    if isinstance(offsets, range):
        return (*offsets[:period], *offsets[-period:])
    return offsets


IDENTITY = PeriodicMap(1, ((0, 0),))
"""The map of the input itself."""
