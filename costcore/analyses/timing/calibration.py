"""A calibration: measured points of a device, and the time of other calls by interpolation between them.

``t = (t0 + t_sol) / e``: ``t0`` is the least time of a call, ``t_sol = max(flops / peak, bytes / bandwidth)`` with the
best rates of the sweep, and ``e`` the efficiency of the nearest points of the same family. How far an estimate may be
off is known from points that were left out, see :mod:`costcore.analyses.timing.left_out`; it grows with the distance of
the nearest point.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from heapq import nsmallest
from itertools import pairwise
from math import dist, exp, log
from typing import NamedTuple, Protocol

from costcore.analyses.timing.families import APART, Axes, Site, product_of, steps_of
from costcore.analyses.timing.tiles import wave_seconds
from costcore.errors import CostError

NEIGHBORS = 4
"""How many points an efficiency is read from."""

FAR = 4.0
"""A call is far from the sweep if its nearest point is farther: a factor of 16 in one of its sizes."""

SOFTENING = 0.05
"""Added to squared distances, so that a point at distance 0 is not the only one that counts."""


PULL = 0.25
"""The weight of the curve of a family of kernels, that of a point at a distance of 2."""


class Error(NamedTuple):
    """The relative error of estimates, 0.1 for ± 10 %.

    Attributes:
        mean: of the mean call.
        most: of nine calls in ten.
    """

    mean: float
    most: float

    def towards(self, other: Error, part: float) -> Error:
        """Return the error at a part of the way to another."""
        return Error(*(a + part * (b - a) for a, b in zip(self, other, strict=True)))


Growth = tuple[tuple[float, Error], ...]
"""Distances, and the errors of estimates whose nearest point is at least as far; farther ones are not surer."""


class Errors(NamedTuple):
    """The errors of a calibration.

    Attributes:
        families: by family, with its dtype if points have several.
        kinds: by kind, the error of a family without points, whose calls all err in the same direction. Some kinds
            have none.
    """

    families: Mapping[str, Growth]
    kinds: Mapping[str, float]

    def of(self, site: Site, distance: float | None) -> Error | None:
        """Return the error of an estimate; None if it is unknown.

        Args:
            site: the call.
            distance: of the nearest point of its family; None without any.
        """
        if distance is None:
            whole = self.kinds.get(site.kind)
            return None if whole is None else Error(whole, whole)
        growth = self.families[site.key]
        for (near, error), (far, larger) in pairwise(growth):
            if distance < far:
                return error.towards(larger, (distance - near) / (far - near))
        return growth[-1][1] if growth and distance <= growth[-1][0] else None


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
        """Return the seconds of a call at the best rates: ``t_sol``, and ``t0`` for each of its steps."""
        product = product_of(site) if self.units else None
        work = site.flops / self.peak if product is None else wave_seconds(product, self.units, self.peak)
        return self.overhead * steps_of(site) + max(work, site.nbytes / self.bandwidth)


class Estimate(NamedTuple):
    """The estimated time of a call.

    Attributes:
        seconds: the time.
        error: the relative error of such estimates in this calibration; None if it is unknown.
        distance: of the nearest point of its family; None if the sweep has none, so that similar families are used.
    """

    seconds: float
    error: Error | None
    distance: float | None


class Ideal(Protocol):
    """What efficiencies are relative to."""

    def ideal(self, site: Site) -> float:
        """Return the seconds of a call at an efficiency of 1."""


Efficiencies = dict[str, list[tuple[Axes, float]]]
"""By family or kind: coordinates, and the logarithm of the efficiency."""

Neighbors = Sequence[tuple[float, float]]
"""Distances of points and logarithms of their efficiencies, the nearest first."""


class Interpolation:
    """Efficiencies by family, and by kind for families without points.

    Args:
        points: the measured calls.
        rates: their best rates, or the curves of kernels.
    """

    def __init__(self, points: Iterable[Point], rates: Ideal) -> None:
        self._is_of_rates = isinstance(rates, Rates)
        self._rates = rates
        self._families: dict[str, dict[str, list[tuple[Axes, float]]]] = {}
        self._kinds: Efficiencies = {}
        for site, seconds in points:
            log_efficiency = log(rates.ideal(site) / seconds)
            self._families.setdefault(site.family, {}).setdefault(site.dtype, []).append((site.axes, log_efficiency))
            self._kinds.setdefault(_kind(site), []).append((site.size, log_efficiency))

    def dtype_of(self, site: Site) -> str | None:
        """Return the dtype whose points say most of a call: its own, or for other calls than products another."""
        dtypes = self._families.get(site.family, {})
        if site.dtype in dtypes:
            return site.dtype
        return next(iter(dtypes), None) if site.kind != "product" else None

    def seconds(self, site: Site) -> tuple[float, float | None]:
        """Return the time of a call, and the distance of the nearest point of its family; None without any."""
        dtype = self.dtype_of(site)
        if dtype is None and not self._is_of_rates:
            return self._rates.ideal(site), None
        if dtype is None:
            kinds = self._kinds
            points = kinds.get(_kind(site)) or [each for some in kinds.values() for each in some]
            return self._rates.ideal(site) / exp(mean_of(nearest_of(points, site.size))), None
        points = self._families[site.family][dtype]
        known = len(points[0][0])
        if known > len(site.axes):
            raise CostError(
                f"the points of {site.family!r} in the calibration have {known} coordinates, not {len(site.axes)}. "
                "Calibrate the device again."
            )
        comparable = site._replace(axes=site.axes[:known])
        nearest = nearest_of(points, comparable.axes)
        apart = 0.0 if dtype == site.dtype else APART
        log_efficiency = mean_of(nearest, 0.0 if self._is_of_rates else PULL)
        return self._rates.ideal(comparable) / exp(log_efficiency), nearest[0][0] + apart


def _kind(site: Site) -> str:
    """Return what calls without points of their family are estimated from: products of one dtype, others of any."""
    return f"{site.kind} {site.dtype}".strip() if site.kind == "product" else site.kind


def nearest_of(points: Sequence[tuple[Axes, float]], axes: Axes) -> Neighbors:
    """Return the nearest of points, which are coordinates and logarithms of efficiencies."""
    return nsmallest(NEIGHBORS, ((dist(each, axes), log_efficiency) for each, log_efficiency in points))


def mean_of(nearest: Neighbors, pull: float = 0.0) -> float:
    """Return the mean log efficiency of the nearest points, weighted by their distance.

    Args:
        nearest: the points.
        pull: the weight of an efficiency of 1 beside theirs.
    """
    weights = [1 / (distance * distance + SOFTENING) for distance, _ in nearest]
    return sum(w * each for w, (_, each) in zip(weights, nearest, strict=True)) / (sum(weights) + pull)


class Calibration:
    """What a sweep measured on a device.

    Args:
        points: the measured calls. Those of several dtypes state them.
        errors: the relative errors by family and kind.
        units: multiprocessors of a GPU; 0 for other devices.
        dtype: the dtype of points that state none.
        curves: of kernels, if the times are those of kernels alone: a call without one takes none.
    """

    def __init__(
        self,
        points: Sequence[Point],
        errors: Errors,
        units: int = 0,
        dtype: str = "",
        curves: Ideal | None = None,
    ) -> None:
        self.points = tuple(points)
        self.dtype, self._curves = dtype, curves
        self.errors = errors
        self.rates = Rates.of(points, units)
        self._seen: dict[Site, Estimate] = {}

    @cached_property
    def _interpolation(self) -> Interpolation:
        return Interpolation(self.points, self._curves or self.rates)

    @cached_property
    def dtypes(self) -> frozenset[str]:
        """The dtypes of the products that were measured; of all calls without any."""
        of_products = {point.site.dtype or self.dtype for point in self.points if point.site.kind == "product"}
        return frozenset(of_products or {point.site.dtype or self.dtype for point in self.points})

    def estimate(self, site: Site) -> Estimate:
        """Return the estimated time of a call; its dtype is that of the points if they state none."""
        found = self._seen.get(site)
        if found is None:
            found = self._seen[site] = self._estimate(site)
        return found

    def _estimate(self, site: Site) -> Estimate:
        if self._curves is not None and site.kind == "free":
            return Estimate(0.0, Error(0.0, 0.0), 0.0)
        if site.dtype == self.dtype:
            site = site._replace(dtype="")
        seconds, distance = self._interpolation.seconds(site)
        known = site._replace(dtype=self._interpolation.dtype_of(site) or "")
        return Estimate(seconds, self.errors.of(known, distance), distance)
