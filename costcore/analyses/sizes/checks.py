"""Check formulas at sizes that they do not follow from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from random import Random

from costcore.analyses.sizes.alignment import OtherOperatorsError
from costcore.analyses.sizes.axis import AxisFit
from costcore.analyses.sizes.fitting import Fit
from costcore.analyses.sizes.limits import Limits, how_to_state
from costcore.analyses.sizes.outline import amounts_of
from costcore.analyses.sizes.samples import Point, Samples
from costcore.errors import CostError
from costcore.numbers.dims import is_symbolic
from costcore.numbers.evaluation import Evaluation
from costcore.numbers.expressions import symbol_of
from costcore.trace.trace import CallCost
from costcore.trace.unrolling import FEWEST

RANDOM_POINTS = 3
"""The number of random points at which every formula is checked, beside the ends of the ranges."""

SEED = 1
"""Makes the random points the same every time."""

Ends = list[tuple[int, int]]


def ends_of(samples: Samples, fit: Fit, limits: Sequence[Limits]) -> Ends:
    """Return for every symbol the smallest and the largest value at which its formulas are checked.

    They are those of its range. Without one, the largest is halved while the network fails, and the smallest is 1, 2 or
    3 if the formulas hold there; of a loop up to 5, as its first steps are special and the others fold from three.

    Raises:
        CostError: if the network runs other operators at the largest value.
    """
    highs = [_largest(samples, *each) for each in zip(limits, fit.axes, strict=True)]
    small = [_smallest(samples, fit, *each) for each in zip(limits, fit.axes, strict=True)]
    lows = small if _holds(samples, fit, tuple(small)) else [each.low for each in limits]
    return list(zip(lows, highs, strict=True))


def exceptions(symbols: Sequence[str], limits: Sequence[Limits], ends: Ends) -> list[str]:
    """Return a note for every symbol whose formulas do not hold at the smallest value that the user stated."""
    return [
        f"the network is special at {symbol}={each.smallest}: its formulas hold from {low}"
        for symbol, each, (low, _) in zip(symbols, limits, ends, strict=True)
        if each.is_stated and low > each.smallest
    ]


def _smallest(samples: Samples, fit: Fit, limits: Limits, axis: AxisFit) -> int:
    is_loop = samples.trace.run.unfolded is not None
    small = range(limits.smallest, min(2 * FEWEST if is_loop else FEWEST + 1, limits.low))
    return next((size for size in small if _holds(samples, fit, axis.point(size))), limits.low)


def _largest(samples: Samples, limits: Limits, axis: AxisFit) -> int:
    if limits.is_stated:
        return limits.high
    return next(size for size in _halved(limits.high, max(axis.sizes)) if _runs(samples, axis.point(size)))


def _halved(high: int, least: int) -> Iterator[int]:
    while high > least:
        yield high
        high //= 2
    yield least


def _runs(samples: Samples, point: Point) -> bool:
    try:
        samples.at(point)
    except OtherOperatorsError:
        raise
    except CostError:
        return False
    return True


def _holds(samples: Samples, fit: Fit, point: Point) -> bool:
    """Return whether the network runs at a point, and all its formulas hold there."""
    try:
        _verify_sizes(samples, fit, [point])
    except CostError:
        samples.forget(point)
        return False
    return True


def held_out_points(samples: Samples, fit: Fit, ends: Ends) -> list[Point]:
    """Return the points at which the formulas are checked, each of which is captured.

    They are the ends of all ranges, random points between them, and of several symbols those at which all of them have
    their second and their third size: there ``(a + b) // 2`` is not ``a // 2 + (b + 1) // 2``.

    Raises:
        CostError: if the network fails at one of them.
    """
    random = Random(SEED)
    points = [tuple(low for low, _ in ends), tuple(high for _, high in ends)]
    points += [tuple(_between(low, high, random) for low, high in ends) for _ in range(RANDOM_POINTS)]
    points += [tuple(axis.sizes[: step + 1][-1] for axis in fit.axes) for step in (1, 2)]
    for point in points:
        samples.at(point)
    return [point for point in samples.points if point not in fit.points]


def _between(low: int, high: int, random: Random) -> int:
    """Return a random size; each order of magnitude is as probable as every other."""
    return round(math.exp(random.uniform(math.log(max(low, 1)), math.log(max(high, 1)))))


def verify(samples: Samples, fit: Fit, records: Iterable[tuple[int, CallCost]], points: Sequence[Point]) -> None:
    """Compare all formulas and all costs with the runs at some points.

    Args:
        samples: the runs.
        fit: the formulas of their integers.
        records: the calls with formulas, each with its position in the first run.
        points: the points.

    Raises:
        CostError: for the first difference; names the call and the point.
    """
    _verify_sizes(samples, fit, points)
    records = list(records)
    for point in points:
        _verify_costs(samples, records, point)


def _verify_sizes(samples: Samples, fit: Fit, points: Sequence[Point]) -> None:
    if not points:
        return
    known = samples.columns(fit.points)
    for i, (at_points, columns) in enumerate(zip(samples.columns(points), known, strict=True)):
        if at_points is None or columns is None:
            continue
        for found, values in zip(at_points, columns, strict=True):
            formula = fit.formula(values)
            for point, value in zip(points, found, strict=True):
                if formula.at(point) != value:
                    raise CostError(
                        f"a size of {samples.name(i)} has no formula: {formula.of(samples.symbols)} gives "
                        f"{formula.at(point)} at {samples.text(point)}, where it is {value}. State a range in which it "
                        f"holds: {how_to_state(samples.symbols)}."
                    )


def _verify_costs(samples: Samples, records: Sequence[tuple[int, CallCost]], point: Point) -> None:
    evaluate = Evaluation({symbol_of(name): value for name, value in zip(samples.symbols, point, strict=True)})
    found: dict[int, tuple[object, ...]] = {}
    at_point = samples.amounts_at(point)
    for row, record in records:
        amounts = at_point[row]
        if record.cost is None or amounts is None:
            continue
        if id(record.cost) not in found:
            found[id(record.cost)] = tuple(evaluate(a) if is_symbolic(a) else a for a in amounts_of(record.cost))
        if found[id(record.cost)] != amounts:
            raise CostError(
                f"the cost of {record.call.name} has no formula: its calculator gives {found[id(record.cost)]} at "
                f"{samples.text(point)}, where it is {amounts}"
            )
