"""Periodic maps: from every position of a value to the interval of input positions that can change it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import gcd, lcm
from typing import TypeAlias

from costcore.numbers.dims import Dim, is_symbolic

MOST_PHASES = 4096
"""The largest period of a map. A longer one comes from chains of unusual resize ratios."""

Interval: TypeAlias = "tuple[int, int] | None"
"""The first and the last input position; None if a position sees nothing, as behind gaps of transposed convolutions."""


class TooManyPhasesError(Exception):
    """The pattern repeats only after more than :data:`MOST_PHASES` positions."""


class MisalignedError(Exception):
    """Two maps have different strides: the field of their union grows with the position."""


@dataclass(frozen=True, slots=True)
class Taps:
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
    def window(cls, size: int, stride: int = 1, padding: int = 0, dilation: int = 1) -> Taps:
        """Return the taps of a convolution or pooling."""
        return cls(stride, (range(-padding, -padding + dilation * (size - 1) + 1, dilation),))

    @classmethod
    def transposed(cls, size: int, stride: int, padding: int, dilation: int = 1) -> Taps:
        """Return the taps of a transposed convolution: position o reads (o + padding - t * dilation) / stride."""
        phases = []
        for phase in range(stride):
            reached = [phase + padding - t * dilation for t in range(size)]
            phases.append(tuple(position // stride for position in reached if position % stride == 0))
        return cls(1, tuple(phases))

    @classmethod
    def every(cls, stride: int, start: int = 0) -> Taps:
        """Return the taps of a slice with a step; a negative one reverses it."""
        return cls(stride, ((start,),))

    @classmethod
    def repeated(cls, times: int) -> Taps:
        """Return the taps of a value of which every element is repeated."""
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
        known: what :meth:`seen` returned so far.
    """

    advance: int
    intervals: tuple[Interval, ...]
    reads: tuple[tuple[PeriodicMap, Taps, int | None], ...] = field(default=(), compare=False, repr=False)
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
        """Return what a position sees if what lies beyond the borders of every operand is padding."""
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

    def through(self, taps: Taps, size: Dim | None = None) -> PeriodicMap:
        """Return the map of a value that reads this one.

        Args:
            taps: the positions that it reads.
            size: how many positions this value has; the others are padding. None if it reads no others.

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
            intervals.append(_hull(self(start + offset) for offset in _extremes(taps.offsets[phase], self.period)))
        found = PeriodicMap(self.advance * taps.advance * repeats // self.period, tuple(intervals)).reduced()
        return replace(found, reads=((self, taps, None if is_symbolic(size) else size),))

    def union(self, other: PeriodicMap) -> PeriodicMap:
        """Return the map of a value that sees what either of two operands sees.

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
        return replace(found, reads=tuple((each, Taps.every(1), None) for each in (self, other)))

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


IDENTITY = PeriodicMap(1, ((0, 0),))
"""The map of the input itself."""


def _hull(intervals: Iterable[Interval]) -> Interval:
    """Return the smallest interval that contains all of these."""
    seen = [interval for interval in intervals if interval is not None]
    return (min(first for first, _ in seen), max(last for _, last in seen)) if seen else None


def _extremes(offsets: Sequence[int], period: int) -> Sequence[int]:
    """Return those of equally spaced offsets, or of any, that decide the hull.

    Offsets one period apart see intervals of one shape, of which the first and the last reach furthest.
    """
    if isinstance(offsets, range):
        return (*offsets[:period], *offsets[-period:])
    return offsets
