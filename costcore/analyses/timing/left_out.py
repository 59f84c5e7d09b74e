"""The errors of a calibration, from points that are left out of it.

A point is estimated from those of its family that are at least so far away, once for every distance of
:data:`DISTANCES`: at distance 0 from all that were not measured right before or after it. So the error of a call is
known by how far from the sweep it is. A whole family is estimated from the others of its kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from math import dist, exp, fsum, log
from statistics import fmean

from costcore.analyses.timing.calibration import (
    NEIGHBORS,
    Error,
    Errors,
    Growth,
    Point,
    Rates,
    mean_of,
    nearest_of,
)
from costcore.analyses.timing.families import KINDS, Axes

DISTANCES = (0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0)
"""How far the nearest point is at least."""

MOST_LEFT_OUT = 100
"""So many points of a family are left out, one after another."""

BESIDE = 3
"""So many points before and after a point are of the same chain, and left out with it."""

MOST_OF_FAMILY = 20
"""So many points stand for a family that is left out as a whole."""

FEWEST = 8
"""An error that is known from fewer points is at least that of all families."""

FEWEST_FAMILIES = 5
"""Of a kind with fewer families, the error of another one is that of families of any kind."""


def left_out_errors(points: Sequence[Point], rates: Rates) -> Errors:
    """Return the relative errors by family and kind.

    Args:
        points: the measured calls.
        rates: their best rates.
    """
    families: dict[str, list[Point]] = {}
    for point in points:
        families.setdefault(point.site.key, []).append(point)
    misses = {family: _misses(each, rates) for family, each in families.items()}
    common = [[miss for each in misses.values() for miss in each[i]] for i in range(len(DISTANCES))]
    of_all = growth_of(common, ())
    growths = {family: growth_of(each, of_all) for family, each in sorted(misses.items())}
    return Errors(growths, _errors_of_kinds(families, rates))


def _misses(family: Sequence[Point], rates: Rates) -> list[list[float]]:
    """Return the relative errors of estimates, for every distance from which points are estimated."""
    efficiencies = [(point.site.axes, log(rates.ideal(point.site) / point.seconds)) for point in family]
    found: list[list[float]] = [[] for _ in DISTANCES]
    for i in range(0, len(family), -(-len(family) // MOST_LEFT_OUT)):
        axes, log_efficiency = efficiencies[i]
        for misses, estimated in zip(found, _estimates(axes, efficiencies, i), strict=False):
            misses.append(abs(exp(estimated - log_efficiency) - 1))  # measured by estimated time
    return found


def _estimates(axes: Axes, efficiencies: Sequence[tuple[Axes, float]], i: int) -> Iterator[float]:
    """Yield the estimate of a point from those that are at least so far away, while there are any.

    A call far from the sweep has all of it on one side: only points beyond the nearest count, seen from the point.
    """
    others = (each for j, each in enumerate(efficiencies) if abs(i - j) > BESIDE)
    ordered = sorted((dist(other, axes), log_efficiency, other) for other, log_efficiency in others)
    start = 0
    for distance in DISTANCES:
        while start < len(ordered) and ordered[start][0] < distance:
            start += 1
        if start == len(ordered):
            return
        nearest = ordered[start][2]
        beyond = (each for each in ordered[start:] if distance == 0 or dist(each[2], nearest) <= each[0])
        yield mean_of([(away, log_efficiency) for away, log_efficiency, _ in islice(beyond, NEIGHBORS)])


def growth_of(misses: Iterable[Sequence[float]], of_all: Growth) -> Growth:
    """Return the errors by distance, as far as they are known.

    Those known from few points, or from none, are at least those of all families.
    """
    found: list[tuple[float, Error]] = []
    least = Error(0.0, 0.0)
    for i, (distance, each) in enumerate(zip(DISTANCES, misses, strict=True)):
        if len(each) < FEWEST:
            if i >= len(of_all):
                break
            least = _larger(least, of_all[i][1])
        if each:
            least = _larger(least, Error(fmean(each), sorted(each)[int(0.9 * len(each))]))
        found.append((distance, least))
    return tuple(found)


def _larger(a: Error, b: Error) -> Error:
    return Error(max(a.mean, b.mean), max(a.most, b.most))


def _errors_of_kinds(families: Mapping[str, Sequence[Point]], rates: Rates) -> dict[str, float]:
    """Return the largest errors of the sums of families that are estimated from the others of their kind.

    Opaque ones, such as sorting, have nothing in common: the error of another one is unknown.
    """
    errors: dict[str, list[float]] = {kind: [] for kind in KINDS if kind != "opaque"}
    efficiencies = {
        family: [(point.site.size, log(rates.ideal(point.site) / point.seconds)) for point in members]
        for family, members in families.items()
    }
    for family, members in families.items():
        kind = members[0].site.kind
        others = [
            each
            for other, found in efficiencies.items()
            if other != family
            and families[other][0].site.kind == kind
            and (kind != "product" or families[other][0].site.dtype == members[0].site.dtype)
            for each in found
        ]
        if others and kind in errors:
            some = members[:: -(-len(members) // MOST_OF_FAMILY)]
            ideal = ((rates.ideal(point.site), mean_of(nearest_of(others, point.site.size))) for point in some)
            estimated = fsum(seconds / exp(log_efficiency) for seconds, log_efficiency in ideal)
            errors[kind].append(abs(fsum(point.seconds for point in some) / estimated - 1))
    of_all = [error for each in errors.values() for error in each]
    if not of_all:
        return {}
    return {kind: max(each if len(each) >= FEWEST_FAMILIES else of_all) for kind, each in errors.items()}
