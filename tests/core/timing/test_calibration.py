"""Estimates from measured points, by hand: 1 GFLOP/s, 1 GB/s and 10 µs for the least call."""

from __future__ import annotations

from math import log2

import pytest

from costcore.timing.calibration import ANY, Calibration, Point, Rates
from costcore.timing.families import Site
from costcore.timing.left_out import left_out_errors

RATES = Rates(overhead=1e-5, peak=1e9, bandwidth=1e9)


def site(family="relu", size=1e6, kind="arithmetic", work=1.0):
    """A call with as many FLOPs (times ``work``) as bytes, which has one axis."""
    return Site(family, kind, (log2(size),), work * size, size)


def point(efficiency, **site_options):
    """A measured call, so much slower than at the best rates."""
    called = site(**site_options)
    return Point(called, RATES.ideal(called) / efficiency)


BEST = [Point(Site("linear", "product", (30.0,), 1e9, 4.0), 1.0), Point(Site("copy", "move", (30.0,), 0, 1e9), 1.0)]
"""The calls with the best rates of :data:`RATES`."""

LEAST = Point(Site("add", "arithmetic", (0.0,), 1, 12), 1e-5)


def calibrated(*points, errors=None):
    return Calibration([*BEST, LEAST, *points], {ANY: 0.5, "relu": 0.1, **(errors or {})})


def test_rates_are_the_best_of_the_sweep():
    assert calibrated(point(0.5)).rates == RATES


def test_the_ideal_time_is_the_overhead_and_the_larger_of_two_terms():
    assert RATES.ideal(site(size=1e6, work=1)) == pytest.approx(1e-5 + 1e-3)
    assert RATES.ideal(site(size=1e6, work=3)) == pytest.approx(1e-5 + 3e-3)


def test_a_call_of_the_sweep_takes_what_was_measured():
    measured = point(0.25)
    estimate = calibrated(measured).estimate(measured.site)
    assert estimate.seconds == pytest.approx((1e-5 + 1e-3) / 0.25)
    assert (estimate.error, estimate.is_seen) == (0.1, True)


def test_efficiency_is_the_mean_of_the_nearest_logarithms_weighted_by_distance():
    """Points at distances 1 and 2 weigh 1 / 1.05 and 1 / 4.05, so that log e is -0.7941 log 2 - 0.2059 log 4."""
    found = calibrated(point(0.5, size=2e6), point(0.25, size=4e6)).estimate(site(size=1e6))
    assert found.seconds == pytest.approx((1e-5 + 1e-3) * 2**0.79412 * 4**0.20588, rel=1e-4)


def test_only_four_points_count():
    near = [point(0.5, size=1e6 * 2**i) for i in range(4)]
    far = [point(0.01, size=1e6 * 2**i) for i in range(4, 9)]
    assert calibrated(*near, *far).estimate(site(size=1e6)).seconds == pytest.approx((1e-5 + 1e-3) / 0.5)


def test_beyond_the_sweep_the_nearest_efficiency_holds():
    found = calibrated(point(0.5, size=1e6)).estimate(site(size=1e9))
    assert found.seconds == pytest.approx((1e-5 + 1.0) / 0.5)


def test_a_family_without_points_is_estimated_from_its_kind():
    """``add`` and ``relu`` are arithmetic: one point each, the nearer one at the same size."""
    found = calibrated(point(0.5, size=1e6)).estimate(site(family="softsign", size=1e6))
    assert not found.is_seen and found.error == 0.5
    assert found.seconds == pytest.approx((1e-5 + 1e-3) / 0.5, rel=0.001)


def test_a_kind_without_points_is_estimated_from_all():
    found = calibrated().estimate(site(family="erf", kind="special", size=1e9))
    assert found.seconds == pytest.approx(1.0, rel=0.01)


def test_the_error_is_that_of_points_that_were_left_out():
    """Ten points of one efficiency and one of half of it: without it, its estimate is half of what was measured.

    The others are estimated exactly, except where it is among the four nearest, at whose end of the axis it is not.
    """
    others = [point(0.5, size=2.0 ** (10 + i)) for i in range(10)]
    outlier = point(0.25, size=2.0**30)
    errors = left_out_errors([*others, outlier, *BEST, LEAST], RATES)
    total = sum(each.seconds for each in others) + outlier.seconds
    assert errors["relu"] == pytest.approx(outlier.seconds / 2 / total, rel=1e-3)
    assert errors[ANY] > 0
    assert errors["linear"] > 0  # its only point is left out, so that it is estimated from other families


def test_an_estimate_does_not_depend_on_the_order_of_points():
    points = [point(e, size=s) for e, s in ((0.5, 1e5), (0.4, 2e5), (0.3, 4e5), (0.2, 8e5), (0.1, 1.6e6))]
    forward, backward = calibrated(*points), calibrated(*reversed(points))
    assert forward.estimate(site(size=3e5)).seconds == pytest.approx(backward.estimate(site(size=3e5)).seconds)
