"""A calibration: measured points of a device, and the time of other calls by interpolation between them.

``t = (t0 + t_sol) / e``: ``t0`` is the least time of a call, ``t_sol = max(flops / peak, bytes / bandwidth)`` with the
best rates of the sweep, and ``e`` the efficiency of the nearest points of the same family.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from heapq import nsmallest
from math import dist, exp, log
from typing import NamedTuple

from costcore.errors import CostError
from costcore.timing.families import Axes, Site, product_of
from costcore.timing.tiles import wave_seconds

NEIGHBORS = 4
"""How many points an efficiency is read from."""

SOFTENING = 0.05
"""Added to squared distances, so that a point at distance 0 is not the only one that counts."""

ANY = "any"
"""Name of the error of calls whose family has no points."""


class Point(NamedTuple):
    """A measured call.

    Attributes:
        site: its family and coordinates.
        seconds: how long it took.
    """

    site: Site
    seconds: float


class Rates(NamedTuple):
    """The best of a sweep.

    Attributes:
        overhead: the least time of a call, in seconds.
        peak: FLOPs per second.
        bandwidth: bytes per second.
        units: multiprocessors of a GPU, which divide a product into tiles; 0 for other devices.
    """

    overhead: float
    peak: float
    bandwidth: float
    units: int = 0

    @classmethod
    def of(cls, points: Iterable[Point], units: int = 0) -> Rates:
        """Return the best rates among points."""
        used = [point for point in points if point.site.kind != "free"]
        return cls(
            min(point.seconds for point in used),
            max(point.site.flops / point.seconds for point in used),
            max(point.site.nbytes / point.seconds for point in used),
            units,
        )

    def ideal(self, site: Site) -> float:
        """Return the seconds of a call at the best rates, ``t0 + t_sol``."""
        product = product_of(site) if self.units else None
        work = site.flops / self.peak if product is None else wave_seconds(product, self.units, self.peak)
        return self.overhead + max(work, site.nbytes / self.bandwidth)


class Estimate(NamedTuple):
    """The estimated time of a call.

    Attributes:
        seconds: the time.
        error: the relative error of such estimates in this calibration, 0.1 for ± 10 %.
        is_seen: whether the sweep has calls of its family; if not, the points of similar families are used.
    """

    seconds: float
    error: float
    is_seen: bool


Efficiencies = dict[str, list[tuple[Axes, float]]]
"""By family or kind: coordinates, and the logarithm of the efficiency."""


class Interpolation:
    """Efficiencies by family, and by kind for families without points.

    Args:
        points: the measured calls.
        rates: their best rates.
    """

    def __init__(self, points: Iterable[Point], rates: Rates) -> None:
        self._rates = rates
        self._families: Efficiencies = {}
        self._kinds: Efficiencies = {}
        for site, seconds in points:
            log_efficiency = log(rates.ideal(site) / seconds)
            self._families.setdefault(site.family, []).append((site.axes, log_efficiency))
            self._kinds.setdefault(site.kind, []).append((site.size, log_efficiency))

    def has(self, family: str) -> bool:
        """Return whether a family has points."""
        return family in self._families

    def seconds(self, site: Site) -> float:
        """Return the time of a call."""
        points = self._families.get(site.family)
        if points is not None:
            if len(points[0][0]) != len(site.axes):
                raise CostError(
                    f"the points of {site.family!r} in the calibration have {len(points[0][0])} coordinates, not "
                    f"{len(site.axes)}. Calibrate the device again."
                )
            found = _nearest(points, site.axes)
        else:
            kinds = self._kinds
            found = _nearest(kinds.get(site.kind) or [each for some in kinds.values() for each in some], site.size)
        return self._rates.ideal(site) / exp(found)


def _nearest(points: Sequence[tuple[Axes, float]], axes: Axes) -> float:
    """Return the mean log efficiency of the nearest points, weighted by their distance."""
    nearest = nsmallest(NEIGHBORS, ((dist(each, axes), log_efficiency) for each, log_efficiency in points))
    weights = [1 / (distance * distance + SOFTENING) for distance, _ in nearest]
    return sum(w * each for w, (_, each) in zip(weights, nearest, strict=True)) / sum(weights)


class Calibration:
    """What a sweep measured on a device.

    Args:
        points: the measured calls, of one dtype.
        errors: the relative error by family, and of families without points (:data:`ANY`).
        units: multiprocessors of a GPU; 0 for other devices.
    """

    def __init__(self, points: Sequence[Point], errors: Mapping[str, float], units: int = 0) -> None:
        self.points = tuple(points)
        self.errors = errors
        self.rates = Rates.of(points, units)
        self._seen: dict[Site, Estimate] = {}

    @cached_property
    def _interpolation(self) -> Interpolation:
        return Interpolation(self.points, self.rates)

    def estimate(self, site: Site) -> Estimate:
        """Return the estimated time of a call."""
        found = self._seen.get(site)
        if found is None:
            is_seen = self._interpolation.has(site.family)
            error = self.errors.get(site.family, self.errors[ANY]) if is_seen else self.errors[ANY]
            found = self._seen[site] = Estimate(self._interpolation.seconds(site), error, is_seen)
        return found
