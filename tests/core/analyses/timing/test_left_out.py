"""Errors of devices whose true times are known: every call takes what a formula says."""

from __future__ import annotations

from itertools import pairwise
from math import exp, hypot, log
from random import Random

import pytest

from costcore.analyses.timing.calibration import (
    Calibration,
    Error,
    Estimate,
    Interpolation,
    OpSignature,
    Point,
    Rates,
    left_out_errors,
)
from costcore.analyses.timing.times import Estimated, error_of_sum

RATES = Rates(overhead=1e-6, peak=1e9, bandwidth=1e9)


def site(x, family="relu", kind="arithmetic", y=()):
    """A call of 1000 operations and bytes: it ideally takes 2 µs."""
    return OpSignature(family, kind, (float(x), *y), 1000.0, 1000.0)


def measured(site, log_efficiency):
    return Point(site, RATES.ideal(site) / exp(log_efficiency))


def line(n=24, slope=0.1, **options):
    """Points one apart, whose efficiency grows by the same factor from one to the next."""
    return [measured(site(x, **options), slope * x) for x in range(n)]


def test_beyond_the_sweep_the_error_is_what_the_device_truly_has():
    """A call 4 beyond the last point is estimated from points 4, 5, 6, 7 away, with weights 1 / (d² + 0.05).

    Their mean distance is (4 / 16.05 + 5 / 25.05 + 6 / 36.05 + 7 / 49.05) divided by
    (1 / 16.05 + 1 / 25.05 + 1 / 36.05 + 1 / 49.05), 0.757970 / 0.150352 = 5.0413, so that log e is 0.1 times that too
    low, and the call takes exp(-0.50413) of its estimate. So does every call that is left out: of points as far away on
    both sides, the slower ones count.
    """
    points = line(n=200)
    error = dict(left_out_errors(points, RATES).families["relu"])[4.0]
    assert error.mean == pytest.approx(1 - exp(-0.50413), rel=0.02)  # those at an end have fewer than four on one side
    assert error.most == pytest.approx(1 - exp(-0.50413), rel=1e-4)
    estimated, distance = Interpolation(points, RATES).seconds(site(199 + 4))
    assert distance == 4.0
    assert 1 - measured(site(203), 0.1 * 203).seconds / estimated == pytest.approx(error.most, rel=1e-4)


def test_errors_do_not_fall_with_the_distance_and_end_where_nothing_was_left_out():
    growth = left_out_errors(line(), RATES).families["relu"]
    assert [distance for distance, _ in growth] == [0, 1, 2, 3, 4, 6, 8, 12]
    for (_, near), (_, far) in pairwise(growth):
        assert far.mean >= near.mean and far.most >= near.most
    assert left_out_errors(line(n=7), RATES).families["relu"] == ()  # nothing follows from seven points


def test_a_family_of_few_points_is_no_surer_than_all_together():
    exact = [measured(site(x, family="abs"), 0.0) for x in range(5)]
    errors = left_out_errors([*line(), *exact], RATES).families
    assert errors["abs"][4][1].mean >= 0.9 * errors["relu"][4][1].mean > 0.3


def test_points_of_the_same_chain_are_left_out_together():
    """Four points at each place were measured in one chain, which was fast or slow as a whole."""
    random = Random(0)
    points = []
    for x in range(0, 80, 4):
        chain = random.choice((-0.5, 0.5))
        points += [measured(site(x + 0.01 * i), chain) for i in range(4)]
    assert left_out_errors(points, RATES).families["relu"][0][1].mean > 0.2


def test_a_family_that_is_left_out_tells_the_error_of_unknown_ones_of_its_kind():
    """Five families of one kind take 1, 2, 4, 8 and 16 times the ideal; the sixth, opaque one tells nothing."""
    points = [measured(site(x, family=f"f{i}", kind="special"), -i * log(2)) for i in range(5) for x in range(10)]
    points += [measured(site(x, family="sort", kind="opaque"), -3.0) for x in range(10)]
    kinds = left_out_errors(points, RATES).kinds
    assert "opaque" not in kinds
    # f4 takes 16, and the slowest others 8, twice too little; f0 takes 1 and the slowest others 16, 15 / 16 too much
    assert kinds["special"] == pytest.approx(1)


def test_nothing_is_known_of_other_families_from_one_alone():
    assert left_out_errors(line(), RATES).kinds == {}


@pytest.fixture(scope="module")
def toy():
    """A device with three families, whose efficiency depends on two sizes and, by chance, on each call."""

    def truth(place):
        slope = {"a": 0.05, "b": 0.15, "c": 0.3}[place.family]
        x, y = place.axes
        chance = Random(f"{place}").gauss(0, 0.2)
        return RATES.ideal(place) / exp(slope * (x - 0.5 * y) + chance - 3)

    random = Random(1)
    swept = [site(random.uniform(0, 10), family, y=(random.uniform(0, 10),)) for family in "abc" for _ in range(150)]
    points = [Point(each, truth(each)) for each in swept]
    return Calibration(points, left_out_errors(points, Rates.of(points))), truth


@pytest.mark.parametrize("beyond", [0.0, 2.0, 5.0])
@pytest.mark.parametrize("n_calls", [1, 3, 30])
def test_nine_of_ten_networks_are_inside_their_error_near_and_far(toy, beyond, n_calls):
    calibration, truth = toy
    random = Random(f"{beyond} {n_calls}")
    inside, widths = 0, []
    for _ in range(100):
        calls = [
            site(random.uniform(0, 10) + beyond, random.choice("abc"), y=(random.uniform(0, 10) - beyond,))
            for _ in range(n_calls)
        ]
        found = [calibration.estimate(each) for each in calls]
        estimates = [Estimated(None, each.seconds, place, each) for place, each in zip(calls, found, strict=True)]
        error, total = error_of_sum(estimates, 0.0), sum(each.seconds for each in found)
        inside += error is None or abs(sum(map(truth, calls)) - total) <= error * total
        widths.append(2.0 if error is None else error)
    assert inside >= (88 if n_calls == 1 else 90)  # nine of ten single calls, give or take chance
    if beyond == 0.0 and n_calls == 30:
        assert sorted(widths)[50] < 0.3  # and they say something: chance alone is 0.2 for each call


def test_far_calls_are_less_sure(toy):
    calibration, _ = toy
    errors = [calibration.estimate(site(x, "c", y=(5.0,))).error for x in (5.0, 12.0, 15.0, 20.0)]
    assert errors == sorted(errors) and errors[-1].mean > 3 * errors[0].mean
    assert calibration.estimate(site(60.0, "c", y=(5.0,))).error is None


def test_calls_of_one_size_err_together_and_families_independently():
    def estimated(family, x, seconds=1.0):
        place = site(x, family)
        return Estimated(None, seconds, place, Estimate(seconds, Error(0.3, 0.5), 0.0))

    assert error_of_sum([estimated("a", 1)], 0.0) == pytest.approx(0.5)  # 0.3 with its family, and 0.4 alone
    assert error_of_sum([estimated("a", 1), estimated("a", 1)], 0.0) == pytest.approx(0.5)
    assert error_of_sum([estimated("a", 1), estimated("a", 2)], 0.0) == pytest.approx(hypot(0.6, 0.4, 0.4) / 2)
    assert error_of_sum([estimated("a", 1), estimated("b", 1)], 0.0) == pytest.approx(hypot(0.3, 0.3, 0.4, 0.4) / 2)
    assert error_of_sum([estimated("a", 1)], 0.6) == 0.6  # the noise of the sweep
