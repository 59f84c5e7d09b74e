"""Times of kernels far from those that traces have: a start, and the work at a part of the published rates.

A few traces know a family at a few sizes. A small kernel says how long one takes to start, a large one which part of
the peak or of the bandwidth it reaches, and neither says the other. So each family has a curve
``t = start + work / part``, which is drawn towards usual values as far as its points leave it open. Near points, what
they deviate from it counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import exp, fsum, log
from statistics import median
from typing import NamedTuple

from costcore.analyses.devices.device import Device
from costcore.analyses.timing.calibration import Errors, Growth, Interpolation, Point
from costcore.analyses.timing.families import KINDS, Site
from costcore.analyses.timing.left_out import DISTANCES, FEWEST_FAMILIES, growth_of


class Curve(NamedTuple):
    """The time of the kernels of a family.

    Attributes:
        start: of a kernel without work, in seconds.
        part: which part of the published rate large ones reach.
    """

    start: float
    part: float

    def seconds(self, work: float) -> float:
        """Return the seconds of a kernel whose work takes so many at the published rates."""
        return self.start + work / self.part


USUAL: Mapping[str, Curve] = {
    "product": Curve(5e-6, 0.5),
    **dict.fromkeys(("special", "arithmetic", "move", "free"), Curve(2.5e-6, 0.6)),
    "opaque": Curve(2.5e-6, 0.3),
}
"""What curves are drawn to, by kind."""

SPREAD_OF_START, SPREAD_OF_PART, SPREAD = 1.0, 0.5, 0.4
"""By how much starts, parts and points usually deviate, as natural logarithms."""

STEPS = (0.8, 0.4, 0.2, 0.1, 0.05)
"""The steps in which the best curve is searched, as natural logarithms."""

MOST_POINTS = 60
"""So many points of a family determine its curve."""


class Curves:
    """The curves of the families of a device.

    Args:
        points: the measured calls.
        device: the device, with its published rates.
    """

    def __init__(self, points: Iterable[Point], device: Device) -> None:
        self._device = device
        self._families: dict[str, list[Point]] = {}
        for point in points:
            self._families.setdefault(point.site.family, []).append(point)
        self._curves: dict[str, Curve] = {}

    def ideal(self, site: Site) -> float:
        """Return the seconds of a call on the curve of its family; without one, on the middle one of its kind."""
        curve = self._of(site.family) if site.family in self._families else self.of_kind(site.kind)
        return curve.seconds(self.work(site))

    def of_kind(self, kind: str, without: str = "") -> Curve:
        """Return the middle of the curves of a kind, one family left out; what is usual if there is none."""
        of_kind = (name for name, points in self._families.items() if points[0].site.kind == kind and name != without)
        found = [self._of(name) for name in of_kind]
        if not found:
            return USUAL[kind]
        return Curve(median(each.start for each in found), median(each.part for each in found))

    def work(self, site: Site) -> float:
        """Return the seconds that the operations or the bytes of a call take at the published rates."""
        rate_of = self._device.matrix_rate if site.kind == "product" else self._device.vector_rate
        rate = rate_of(site.dtype) if site.dtype else None
        bandwidth = self._device.memory.dram_gbs
        return max(site.flops / rate if rate else 0.0, site.nbytes / (1e9 * bandwidth) if bandwidth else 0.0)

    def _of(self, family: str) -> Curve:
        if family not in self._curves:
            points = self._families[family]
            some = points[:: -(-len(points) // MOST_POINTS)]
            known = [(self.work(point.site), log(point.seconds)) for point in some]
            self._curves[family] = _fitted(known, USUAL[points[0].site.kind])
        return self._curves[family]


def _fitted(points: Sequence[tuple[float, float]], usual: Curve) -> Curve:
    """Return the likeliest curve through points of work and the logarithm of seconds, given what is usual."""

    def misfit(start: float, part: float) -> float:
        curve = Curve(usual.start * exp(start), usual.part * exp(part))
        misses = (abs(seconds - log(curve.seconds(work))) / SPREAD for work, seconds in points)
        squares = (miss * miss if miss < 2 else 4 * miss - 4 for miss in misses)  # a single odd point does not decide
        return (start / SPREAD_OF_START) ** 2 + (part / SPREAD_OF_PART) ** 2 + fsum(squares)

    start, part = 0.0, 0.0
    least = misfit(start, part)
    for step in STEPS:
        is_better = True
        while is_better:
            beside = ((start + a * step, part + b * step) for a in (-1, 0, 1) for b in (-1, 0, 1) if a or b)
            lower, *best = min((misfit(*each), *each) for each in beside)
            is_better = lower < least
            if is_better:
                least, (start, part) = lower, best
    return Curve(usual.start * exp(start), usual.part * exp(part))


def errors_of_runs(points: Sequence[Point], sources: Sequence[int], device: Device) -> Errors:
    """Return the relative errors by family and kind: those of every run, estimated from the others.

    An error counts for all distances up to that of the nearest point: nearer ones are surer.

    Args:
        points: the measured calls.
        sources: the run in which each point was measured.
        device: the device, with its published rates.
    """
    misses: dict[str, list[list[float]]] = {point.site.key: [[] for _ in DISTANCES] for point in points}
    for run in sorted({*sources}):
        others = [point for point, source in zip(points, sources, strict=True) if source != run]
        known = Interpolation(others, Curves(others, device))
        for point, source in zip(points, sources, strict=True):
            seconds, nearest = known.seconds(point.site) if source == run and others else (0.0, None)
            if nearest is not None:
                for distance, each in zip(DISTANCES, misses[point.site.key], strict=True):
                    if distance <= nearest:
                        each.append(abs(point.seconds / seconds - 1))
    of_all = growth_of([[miss for each in misses.values() for miss in each[i]] for i in range(len(DISTANCES))], ())
    growths: dict[str, Growth] = {family: growth_of(each, of_all) for family, each in sorted(misses.items())}
    return Errors(growths, _errors_of_kinds(points, Curves(points, device)))


def _errors_of_kinds(points: Iterable[Point], curves: Curves) -> dict[str, float]:
    """Return the largest errors of the sums of families that are estimated from the others of their kind."""
    families: dict[tuple[str, str], list[Point]] = {}
    for point in points:
        families.setdefault((point.site.kind, point.site.family), []).append(point)
    errors: dict[str, list[float]] = {kind: [] for kind in KINDS if kind != "opaque"}
    for (kind, family), members in families.items():
        if kind in errors:
            curve = curves.of_kind(kind, without=family)
            estimated = fsum(curve.seconds(curves.work(point.site)) for point in members)
            errors[kind].append(abs(fsum(point.seconds for point in members) / estimated - 1))
    of_all = [error for each in errors.values() for error in each]
    return {kind: max(each if len(each) >= FEWEST_FAMILIES else of_all) for kind, each in errors.items() if of_all}
