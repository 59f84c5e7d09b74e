"""How a value depends on one axis of the input.

A :class:`PeriodicMap` maps each position of a value to an interval of the input. After a reshape, several axes of the
value may count one position together: each contributes an :class:`AxisFactor`. A :class:`Dependence` is both, with
*marks*: the calls after which it is global, unknown or a bound. Rules transform it: they slide windows, contract axes,
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
    """A rule cannot determine the dependence of its outputs; the message is the reason."""


@dataclass(frozen=True, slots=True)
class AxisFactor:
    """The contribution of one axis of a value to its position along an axis of the input.

    Index i of the axis gives the digit d = (i - start) // unit % size, which adds d * weight to the position. If the
    axis alone is the position, unit and weight are 1. After a reshape of H and W to H * W, the factor of H has unit W.
    After a split of H into blocks of r rows, H has two factors, with weights r and 1.

    Attributes:
        axis: the axis of the value.
        size: the number of digits.
        unit: the number of indices per digit.
        weight: the number of positions per digit.
        start: the first index that depends on the input.
    """

    axis: int
    size: Dim
    unit: Dim = 1
    weight: int = 1
    start: Dim = 0

    @property
    def place(self) -> tuple[int, Dim, Dim, Dim]:
        """Everything but the weight; equal for operands of one shape if they count the same indices."""
        return self.axis, self.unit, self.size, self.start


@dataclass(frozen=True, slots=True)
class Path:
    """The dependence of each position on an interval of the input.

    Attributes:
        map: maps positions to intervals of the input.
        factors: the factors of the position, largest weight first; empty if the value has only one position.
    """

    map: PeriodicMap
    factors: tuple[AxisFactor, ...] = ()


@dataclass(frozen=True, slots=True)
class Dependence:
    """How a value depends on one axis of the input.

    Attributes:
        path: the local dependence; None if there is none, or if it is unknown.
        global_by: the first call that depends on the whole axis; empty if there is none.
        unknown: the first call after which the dependence is unknown, and why; empty if it is known.
        misaligned: the first call that joins operands of different strides, so the field grows with the position.
        bounded: the first call after which the path is only an upper bound.
        wrapped: the first call with positions that wrap around, which the path does not include.
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
        """Mark the value as dependent on the whole axis; ``node`` is the cause unless an earlier call is."""
        return self if self.global_by else replace(self, global_by=node)

    def with_marks_of(self, other: Dependence) -> Dependence:
        """Return this dependence, also with the marks (all attributes but the path) of another."""
        pairs = {
            name: getattr(self, name) or getattr(other, name)
            for name in ("global_by", "unknown", "misaligned", "bounded", "wrapped")
        }
        lost = pairs["unknown"] or pairs["misaligned"]
        return Dependence(None if lost else self.path, **pairs)


def of_input(axis: int, size: Dim) -> Dependence:
    """Return the dependence of the input on one of its axes."""
    return Dependence(Path(IDENTITY, (AxisFactor(axis, size),)))


def carries(dependence: Dependence | None, axis: int) -> bool:
    """Return whether an axis of a value counts positions."""
    path = None if dependence is None else dependence.path
    return path is not None and any(factor.axis == axis for factor in path.factors)


def exact_quotient(a: Dim, b: Dim) -> Dim | None:
    """Return ``a / b``; None unless it is an integer for all values of symbols."""
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
    """Return the factor with the largest weight."""
    return path.factors[0]


def sorted_factors(factors: Iterable[AxisFactor]) -> tuple[AxisFactor, ...]:
    """Sort factors, largest weight first."""
    return tuple(sorted(factors, key=lambda factor: -factor.weight))


def number(value: Dim, what: str) -> int:
    """Return a dimension as an int.

    Raises:
        CannotFollowError: if it is symbolic.
    """
    exact: Any = value
    if is_symbolic(exact) and not exact.is_Integer:
        raise CannotFollowError(f"{what} of symbolic size")
    return int(exact)


def normalized(path: Path) -> Path:
    """Divide all weights by the smallest if possible; without factors, keep only position 0 of the map."""
    if not path.factors:
        return Path(path.map.through(Stencil(0, ((0,),))))
    smallest = path.factors[-1].weight
    if smallest <= 1 or any(factor.weight % smallest for factor in path.factors):
        return path
    factors = tuple(replace(factor, weight=factor.weight // smallest) for factor in path.factors)
    return Path(path.map.through(Stencil.every(smallest)), factors)


def without(dependence: Dependence, dropped: Iterable[AxisFactor], node: str) -> Dependence:
    """Return the dependence of a value that combines all indices of some factors.

    If the factor with the largest weight is among them, the value depends on the whole axis.
    """
    path = dependence.path
    dropped = [factor for factor in dropped if path is not None and factor in path.factors]
    if path is None or not dropped:
        return dependence
    if top(path) in dropped:
        return dependence.with_path(None).made_global(node)
    for factor in dropped:
        stencil = Stencil(1, (range(0, factor.weight * number(factor.size, "a block"), factor.weight),))
        path = Path(path.map.through(stencil), tuple(each for each in path.factors if each != factor))
    return dependence.with_path(normalized(path))


def fixed(path: Path, factor: AxisFactor, value: int) -> Path:
    """Return the path at one digit of a factor."""
    rest = tuple(each for each in path.factors if each != factor)
    return normalized(Path(path.map.through(Stencil.every(1, factor.weight * value)), rest))


def at_first(path: Path, factors: Iterable[AxisFactor]) -> Path:
    """Return the path at digit 0 of some factors."""
    dropped = set(factors)
    return normalized(Path(path.map, tuple(each for each in path.factors if each not in dropped)))


def contracted(dependence: Dependence, axes: Iterable[int], node: str) -> Dependence:
    """Return the dependence of a value that combines all indices of some axes; the axes remain."""
    axes = set(axes)
    path = dependence.path
    return dependence if path is None else without(dependence, [d for d in path.factors if d.axis in axes], node)


def moved(dependence: Dependence, to: Iterable[int | None]) -> Dependence:
    """Return the dependence after a permutation of axes; ``to`` has the new number of each axis, None if removed.

    Raises:
        CannotFollowError: if an axis that counts positions is removed.
    """
    path, numbers = dependence.path, tuple(to)
    if path is None:
        return dependence
    factors = []
    for factor in path.factors:
        axis = numbers[factor.axis]
        if axis is None:
            raise CannotFollowError("an axis with positions is removed")
        factors.append(replace(factor, axis=axis))
    return dependence.with_path(Path(path.map, tuple(factors)))


def plain_factor(path: Path, axis: int, size: Dim) -> tuple[Path, AxisFactor] | None:
    """Return a path with a factor of unit 1 for an axis, and this factor; None if the axis counts no positions.

    Raises:
        CannotFollowError: if there is no such path.
    """
    on_axis = [factor for factor in path.factors if factor.axis == axis]
    if not on_axis:
        return None
    factor = on_axis[0]
    if factor.unit == 1 and factor.size == size:  # so it is the only factor of the axis, with start 0
        return path, factor
    if exact_quotient(size, factor.size) != factor.unit or len(path.factors) > 1 or factor.weight != 1:
        raise CannotFollowError("an axis with positions and something else")
    repeated = path.map.through(Stencil.repeated(number(factor.unit, "a repetition")))
    factor = AxisFactor(axis, size)
    return Path(repeated, (factor,)), factor


def slid(dependence: Dependence, axis: int, stencil: Stencil, size: Dim, new_size: Dim) -> Dependence:
    """Return the dependence of a value that reads a stencil along an axis, as a convolution does.

    Args:
        dependence: the dependence of the operand.
        axis: the axis of the operand and of the value.
        stencil: the indices that each index reads.
        size: the size of the axis of the operand.
        new_size: the size of the axis of the value.

    Raises:
        CannotFollowError: if the axis is only a part of the position, and a window reaches into other parts.
    """
    found = None if dependence.path is None else plain_factor(dependence.path, axis, size)
    if found is None:
        return dependence
    path, factor = found
    new = replace(factor, size=new_size)
    if len(path.factors) == 1:
        return dependence.with_path(Path(path.map.through(stencil, size), (new,)))
    if stencil in (Stencil.window(1), Stencil.every(1)):
        return dependence.with_path(Path(path.map, tuple(new if each == factor else each for each in path.factors)))
    if factor != top(path) or len(stencil.offsets) > 1 or stencil.advance < 1:
        raise CannotFollowError("a window over a part of positions")
    window = Stencil(1, (tuple(factor.weight * offset for offset in stencil.offsets[0]),))
    widened = path.map.through(window, factor.weight * size)
    new = replace(new, weight=factor.weight * stencil.advance)
    return dependence.with_path(Path(widened, (new, *path.factors[1:])))


def reshaped(dependence: Dependence, old: tuple[Dim, ...], new: tuple[Dim, ...]) -> Dependence:
    """Return the dependence after a reshape.

    Raises:
        CannotFollowError: if positions are split at symbolic sizes, or into parts of different sizes.
    """
    path = dependence.path
    if path is None or old == new:
        return dependence
    strides = [prod(new[axis + 1 :]) for axis in range(len(new))]
    factors: list[AxisFactor] = []
    constant: list[AxisFactor] = []
    for factor in path.factors:
        stride = prod(old[factor.axis + 1 :])
        if factor.start != 0 or factor.size == 1:
            kept = [axis for axis, size in enumerate(new) if size == old[factor.axis] and strides[axis] == stride]
            if kept:
                factors.append(replace(factor, axis=kept[0]))
            elif factor.size == 1:
                constant.append(factor)
            else:
                raise CannotFollowError("a reshape of positions and something else")
        else:
            factors += _split_over_axes(factor, factor.unit * stride, new, strides)
    found = at_first(Path(path.map, sorted_factors((*factors, *constant))), constant)
    return dependence.with_path(Path(found.map, _merged_factors(found.factors)))


def _split_over_axes(factor: AxisFactor, unit: Dim, shape: tuple[Dim, ...], strides: list[Dim]) -> list[AxisFactor]:
    """Split a factor over the axes of a new shape; one digit of it is ``unit`` elements in row-major order."""
    for axis, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        inside = exact_quotient(unit, stride)
        if inside is not None and exact_quotient(size, inside * factor.size) is not None:
            return [replace(factor, axis=axis, unit=inside)]
    if not any(map(is_symbolic, (unit, factor.size, *strides))):
        for stride in strides:
            inner = exact_quotient(stride, unit)
            if inner is not None and 1 < inner < factor.size and factor.size % inner == 0:
                outer = replace(factor, size=factor.size // inner, weight=factor.weight * inner)
                return [
                    *_split_over_axes(outer, stride, shape, strides),
                    *_split_over_axes(replace(factor, size=inner), unit, shape, strides),
                ]
    raise CannotFollowError("a reshape that splits positions unevenly")


def _merged_factors(factors: tuple[AxisFactor, ...]) -> tuple[AxisFactor, ...]:
    joined: list[AxisFactor] = []
    for factor in factors:
        last = joined[-1] if joined else None
        if (
            last is not None
            and last.axis == factor.axis
            and last.start == factor.start == 0
            and last.weight == factor.weight * factor.size
            and last.unit == factor.unit * factor.size
        ):
            joined[-1] = replace(factor, size=last.size * factor.size)
        else:
            joined.append(factor)
    return tuple(joined)


# Union of the dependences of several operands.


def united(dependences: Iterable[Dependence | None], node: str) -> Dependence | None:
    """Return the dependence of an elementwise combination of operands.

    None stands for an operand, or a result, that does not depend on the input.

    Raises:
        CannotFollowError: if positions cannot be compared.
    """
    result: Dependence | None = None
    for dependence in dependences:
        if dependence is not None:
            result = dependence if result is None else _union(result, dependence, node)
    return result


def _union(one: Dependence, other: Dependence, node: str) -> Dependence:
    # Factors with the same place count the same part of the position in both.
    if one is other:
        return one
    if one.path is None or other.path is None:
        longer = other if one.path is None else one
        return longer.with_marks_of(other if longer is one else one)
    if len(other.path.factors) > len(one.path.factors):
        one, other = other, one
    assert one.path is not None
    other = _restricted_to(other, one.path, node)
    if other.path is not None:
        other = _extended_to(other, one.path, node)
    both = one.with_marks_of(other)
    if other.path is None or both.path is None:
        return both
    try:
        return both.with_path(Path(one.path.map.union(other.path.map), one.path.factors))
    except MisalignedError:
        return replace(both, path=None, misaligned=both.misaligned or node)


def _restricted_to(dependence: Dependence, target: Path, node: str) -> Dependence:
    """Remove the factors that ``target`` lacks.

    The axes of a result may be positions of different operands, as for attention scores. Then each element sees one
    interval per operand, and their hull may be as wide as the whole axis.
    """
    assert dependence.path is not None
    places = {factor.place for factor in target.factors}
    return without(dependence, [factor for factor in dependence.path.factors if factor.place not in places], node)


def _extended_to(dependence: Dependence, target: Path, node: str) -> Dependence:
    """Add the factors of ``target`` that are missing here; the map does not depend on them.

    If the factor with the largest weight is missing, all positions share one interval, such as one row. Its distance to
    a position has no bound, so the result depends on the whole axis.
    """
    path = dependence.path
    assert path is not None
    weights = {factor.place: factor.weight for factor in path.factors}
    missing = [factor for factor in target.factors if factor.place not in weights]
    if missing and top(target) in missing:
        return dependence.with_path(None).made_global(node)
    ratios = {Fraction(d.weight, weights[d.place]) for d in target.factors if d.place in weights}
    if len(ratios) > 1 or any(ratio.denominator > 1 for ratio in ratios):
        raise CannotFollowError("operands with different parts of positions")
    ratio = max(map(int, ratios), default=1)
    extended = path.map.through(Stencil.repeated(ratio))
    for factor in missing:
        if factor.weight >= ratio:
            span = factor.weight * number(factor.size, "a block")
            extended = extended.through(Stencil(span, tuple((phase % factor.weight,) for phase in range(span))))
    return dependence.with_path(Path(extended, target.factors))


def broadcast(
    dependence: Dependence | None, shape: tuple[Dim, ...], new: tuple[Dim, ...], node: str
) -> Dependence | None:
    """Return the dependence of an operand that is broadcast to a shape.

    Raises:
        CannotFollowError: if the shapes do not fit.
    """
    if shape == new:
        return dependence
    lead = len(new) - len(shape)
    if lead < 0:
        raise CannotFollowError("an operand with more axes than the result")
    if dependence is None or dependence.path is None:
        return dependence
    repeated, factors = [], []
    for factor in dependence.path.factors:
        size, new_size = shape[factor.axis], new[lead + factor.axis]
        if size == 1 != new_size:
            repeated.append(factor)
        elif size != new_size and not (is_symbolic(size) or is_symbolic(new_size)):
            raise CannotFollowError("operands whose shapes do not match")
    path = at_first(dependence.path, repeated)
    for factor in path.factors:
        is_whole = factor.unit == 1 and factor.size == shape[factor.axis]
        size = new[lead + factor.axis] if is_whole else factor.size
        factors.append(replace(factor, axis=lead + factor.axis, size=size))
    return dependence.with_path(Path(path.map, tuple(factors)))


# The argument of a rule: one call and one axis of the input.


Rule: TypeAlias = "Callable[[RuleContext], Sequence[Dependence | None]]"
"""A function that returns the dependence of each output on one axis of the input, or None.

It raises :class:`CannotFollowError` if a dependence is unknown."""


@dataclass(slots=True)
class RuleContext:
    """One call, and the dependences of its operands on one axis of the input.

    Attributes:
        layer: the operator.
        node: the name of the call in results.
        operands: the dependences of operands by name, if they depend on the input.
        slides: whether a window slides along an axis that counts positions; set by :meth:`slide` and :meth:`pool`.
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
        """The dependence of the first operand."""
        return self.operands.get(next(iter(self.layer.inputs)))

    def slide(self, dependence: Dependence, axis: int, stencil: Stencil, size: Dim, new_size: Dim) -> Dependence:
        """Return the dependence of a value that reads ``stencil`` along ``axis``; see :func:`slid`."""
        result = slid(dependence, axis, stencil, size, new_size)
        self.slides |= carries(dependence, axis)
        return result

    def pool(self, dependence: Dependence, axis: int) -> Dependence:
        """Return the dependence of a value that combines all indices of an axis, as a window over the axis."""
        self.slides |= carries(dependence, axis)
        return self.contract(dependence, [axis])

    def contract(self, dependence: Dependence, axes: Iterable[int]) -> Dependence:
        """Return the dependence of a value that combines all indices of some axes; the axes remain."""
        return contracted(dependence, axes, self.node)

    def unite(self, dependences: Iterable[Dependence | None]) -> Dependence | None:
        """Return the dependence of an elementwise combination; see :func:`united`."""
        return united(dependences, self.node)

    def in_context(self, dependence: Dependence, axes: Iterable[int]) -> Dependence:
        """Return the dependence of a value computed from its own position and statistics over some axes."""
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
"""The maximum period of a map. Only chains of unusual resize ratios exceed it."""

Interval: TypeAlias = "tuple[int, int] | None"
"""The first and last input position; None if a position sees none, as in gaps of transposed convolutions."""


class TooManyPhasesError(Exception):
    """The period of a map exceeds :data:`MOST_PHASES`."""


class MisalignedError(Exception):
    """Two maps have different strides: the field of their union grows with the position."""


@dataclass(frozen=True, slots=True)
class Stencil:
    """The positions of an operand that each position of a result reads.

    Position ``q * period + r`` reads the positions ``q * advance + t``, for every t in ``offsets[r]``.

    Attributes:
        advance: the step in the operand for each period of the result.
        offsets: the offsets t for each phase r; their number is the period.
    """

    advance: int
    offsets: tuple[Sequence[int], ...]

    def of(self, position: int) -> Iterator[int]:
        """Yield the positions that a position reads."""
        steps, phase = divmod(position, len(self.offsets))
        return (steps * self.advance + offset for offset in self.offsets[phase])

    @classmethod
    def window(cls, size: int, stride: int = 1, padding: int = 0, dilation: int = 1) -> Stencil:
        """Return the stencil of a convolution or pooling."""
        return cls(stride, (range(-padding, -padding + dilation * (size - 1) + 1, dilation),))

    @classmethod
    def transposed(cls, size: int, stride: int, padding: int, dilation: int = 1) -> Stencil:
        """Return the stencil of a transposed convolution: o reads ``(o + padding - t * dilation) / stride``."""
        phases = []
        for phase in range(stride):
            reached = [phase + padding - t * dilation for t in range(size)]
            phases.append(tuple(position // stride for position in reached if position % stride == 0))
        return cls(1, tuple(phases))

    @classmethod
    def every(cls, stride: int, start: int = 0) -> Stencil:
        """Return the stencil of a slice with a step, which may be negative."""
        return cls(stride, ((start,),))

    @classmethod
    def repeated(cls, times: int) -> Stencil:
        """Return the stencil of an operator that repeats each element."""
        return cls(1, ((0,),) * times)


@dataclass(frozen=True, slots=True)
class PeriodicMap:
    """A map from positions to input positions: ``q * period + r`` sees ``q * advance + intervals[r]``.

    The map treats the axis as endless. :meth:`seen` takes the borders of all operands into account.

    Attributes:
        advance: the step of the interval for each period; negative after a flip, 0 if all positions see the same.
        intervals: the interval of each phase.
        reads: the maps that this one reads, each with its stencil and its number of positions (None if no read is
            outside); empty for an input.
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
        """The step of the interval per position."""
        return Fraction(self.advance, self.period)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The width of the interval of each phase."""
        return tuple(0 if interval is None else interval[1] - interval[0] + 1 for interval in self.intervals)

    def __call__(self, position: int) -> Interval:
        """Return the interval of a position."""
        steps, phase = divmod(position, self.period)
        interval = self.intervals[phase]
        return None if interval is None else (interval[0] + steps * self.advance, interval[1] + steps * self.advance)

    def seen(self, position: int) -> Interval:
        """Return the input positions that one position sees; whatever is outside of an operand is padding."""
        waiting = [(self, position)]
        while waiting:
            one, at = waiting[-1]
            read = [
                (other, i)
                for other, stencil, size in one.reads
                for i in stencil.of(at)
                if size is None or 0 <= i < size
            ]
            if missing := [(other, i) for other, i in read if i not in other.known]:
                waiting += missing
                continue
            one.known[at] = _hull(other.known[i] for other, i in read) if one.reads else one(at)
            waiting.pop()
        return self.known[position]

    def through(self, stencil: Stencil, size: Dim | None = None) -> PeriodicMap:
        """Return the map of a value that reads this one.

        Args:
            stencil: the positions that it reads.
            size: the number of positions of this map; reads outside are padding. None if no read is outside.

        Raises:
            TooManyPhasesError: if the period is too large.
        """
        repeats = self.period // gcd(self.period, stencil.advance)
        period = len(stencil.offsets) * repeats
        if period > MOST_PHASES:
            raise TooManyPhasesError
        intervals = []
        for position in range(period):
            steps, phase = divmod(position, len(stencil.offsets))
            start = steps * stencil.advance
            intervals.append(
                _hull(self(start + offset) for offset in _hull_offsets(stencil.offsets[phase], self.period))
            )
        found = PeriodicMap(self.advance * stencil.advance * repeats // self.period, tuple(intervals)).reduced()
        return replace(found, reads=((self, stencil, None if is_symbolic(size) else size),))

    def union(self, other: PeriodicMap) -> PeriodicMap:
        """Return the map of a value that sees the positions of both operands.

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
    # Offsets one period apart see the same interval, shifted, so the first and last periods reach furthest.
    if isinstance(offsets, range):
        return (*offsets[:period], *offsets[-period:])
    return offsets


IDENTITY = PeriodicMap(1, ((0, 0),))
"""The map of the input itself."""
