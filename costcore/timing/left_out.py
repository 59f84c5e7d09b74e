"""The error of a calibration, from points that are left out of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from costcore.timing.calibration import ANY, Interpolation, Point, Rates

FOLDS = 10
"""Each tenth of the points is estimated from the others."""


def left_out_errors(points: Sequence[Point], rates: Rates) -> dict[str, float]:
    """Return the relative error by family: the sum of absolute errors of left-out points, per measured second.

    The error of a sum of estimates is at most this, if its calls are like those of the sweep. :data:`ANY` is the error
    of points that are estimated from all families but their own.
    """
    errors = {ANY: _relative([_without_family(family, points, rates) for family in _families(points)])}
    pairs: dict[str, list[tuple[float, float]]] = {}
    for fold in range(FOLDS):
        left_out = points[fold::FOLDS]
        rest = Interpolation((point for i, point in enumerate(points) if i % FOLDS != fold), rates)
        for site, seconds in left_out:
            pairs.setdefault(site.family, []).append((rest.seconds(site), seconds))
    return errors | {family: _relative([each]) for family, each in sorted(pairs.items())}


def _families(points: Iterable[Point]) -> list[str]:
    return sorted({point.site.family for point in points if point.site.kind != "free"})


def _without_family(family: str, points: Sequence[Point], rates: Rates) -> list[tuple[float, float]]:
    others = [point for point in points if point.site.family != family]
    if not others:
        return []
    rest = Interpolation(others, rates)
    return [(rest.seconds(site), seconds) for site, seconds in points if site.family == family]


def _relative(families: Iterable[Sequence[tuple[float, float]]]) -> float:
    """Return the sum of absolute errors per measured second; 1.0 if there is nothing to compare."""
    pairs = [pair for each in families for pair in each]
    total = sum(seconds for _, seconds in pairs)
    return sum(abs(estimated - seconds) for estimated, seconds in pairs) / total if total else 1.0
