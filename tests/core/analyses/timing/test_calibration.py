"""Estimates from measured points, by hand: 1 GFLOP/s, 1 GB/s and 10 µs for the least call."""

from __future__ import annotations

from math import log2

import pytest

from costcore import CostError
from costcore.analyses.timing.calibration import Calibration, Error, Errors, OpSignature, Point, Rates

RATES = Rates(overhead=1e-5, peak=1e9, bandwidth=1e9)


def site(family="relu", size=1e6, kind="arithmetic", work=1.0):
    """A call with as many FLOPs (times ``work``) as bytes, which has one axis."""
    return OpSignature(family, kind, (log2(size),), work * size, size)


def point(efficiency, **site_options):
    """A measured call, so much slower than at the best rates."""
    called = site(**site_options)
    return Point(called, RATES.ideal(called) / efficiency)


BEST = [
    Point(OpSignature("linear", "product", (30.0,), 1e9, 4.0), 1.0),
    Point(OpSignature("copy", "move", (30.0,), 0, 1e9), 1.0),
]
"""The calls with the best rates of :data:`RATES`."""

LEAST = Point(OpSignature("add", "arithmetic", (0.0,), 1, 12), 1e-5)


RELU = ((0.0, Error(0.1, 0.2)), (2.0, Error(0.1, 0.2)), (4.0, Error(0.5, 1.0)), (8.0, Error(0.9, 2.0)))

ERRORS = Errors({"relu": RELU}, {"arithmetic": 0.5})


def calibrated(*points):
    return Calibration([*BEST, LEAST, *points], ERRORS)


def test_rates_are_the_best_of_the_sweep():
    assert calibrated(point(0.5)).rates == RATES


def test_the_ideal_time_is_the_overhead_and_the_larger_of_two_terms():
    assert RATES.ideal(site(size=1e6, work=1)) == pytest.approx(1e-5 + 1e-3)
    assert RATES.ideal(site(size=1e6, work=3)) == pytest.approx(1e-5 + 3e-3)


def test_every_step_of_a_recurrence_takes_the_least_time_of_a_call():
    place = OpSignature("lstm", "product", (20.0, 20.0, 0.0, 0.0, 5.0, 0.0), 1e6, 1e6)
    assert RATES.ideal(place) == pytest.approx(32 * 1e-5 + 1e-3)


def test_a_call_of_the_sweep_takes_what_was_measured():
    measured = point(0.25)
    estimate = calibrated(measured).estimate(measured.site)
    assert estimate.seconds == pytest.approx((1e-5 + 1e-3) / 0.25)
    assert (estimate.error, estimate.distance) == (Error(0.1, 0.2), 0.0)


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
    assert found.distance is None and found.error == Error(0.5, 0.5)
    assert found.seconds == pytest.approx((1e-5 + 1e-3) / 0.5, rel=0.001)


def test_a_kind_without_points_is_estimated_from_all():
    found = calibrated().estimate(site(family="erf", kind="special", size=1e9))
    assert found.seconds == pytest.approx(1.0, rel=0.01)


@pytest.mark.parametrize(
    ("distance", "error"),
    [
        (0.0, Error(0.1, 0.2)),
        (3.0, Error(0.3, 0.6)),  # half way from 2 to 4
        (5.0, Error(0.6, 1.25)),  # a quarter of the way from 4 to 8
        (8.0, Error(0.9, 2.0)),
        (8.5, None),  # farther than any point was left out
    ],
)
def test_the_error_grows_with_the_distance_of_the_nearest_point(distance, error):
    found = calibrated(point(0.5, size=2.0**10)).estimate(site(size=2.0 ** (10 + distance)))
    assert found.distance == pytest.approx(distance)
    assert found.error == (None if error is None else pytest.approx(error))


def test_a_kind_without_an_error_has_none():
    assert calibrated(point(0.5)).estimate(site(family="sort", kind="opaque")).error is None


def test_points_of_older_files_lack_the_last_coordinates():
    found = calibrated(point(0.25, size=2.0**10), point(0.5, size=2.0**20))
    newer = site(size=2.0**10)._replace(axes=(10.0, 3.0))
    assert found.estimate(newer) == found.estimate(site(size=2.0**10))


def test_points_of_a_newer_version_are_refused():
    newer = Point(OpSignature("relu", "arithmetic", (20.0, 1.0), 1e6, 1e6), 1e-3)
    with pytest.raises(CostError, match=r"the points of 'relu' in the calibration have 2 coordinates, not 1"):
        calibrated(newer).estimate(site())


def test_an_estimate_does_not_depend_on_the_order_of_points():
    points = [point(e, size=s) for e, s in ((0.5, 1e5), (0.4, 2e5), (0.3, 4e5), (0.2, 8e5), (0.1, 1.6e6))]
    forward, backward = calibrated(*points), calibrated(*reversed(points))
    assert forward.estimate(site(size=3e5)).seconds == pytest.approx(backward.estimate(site(size=3e5)).seconds)
