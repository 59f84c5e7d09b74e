"""Curves of kernels: a start and a part of the published rates, from points made by hand."""

from __future__ import annotations

import pytest

from costcore.analyses.timing.calibration import USUAL, Curves, Interpolation, OpSignature, Point, errors_of_runs
from tests.core.analyses.timing.toy_device import Device, Memory

DEVICE = Device("toy", "gpu", peak={"matrix": {"bfloat16": 100.0}, "vector": {"bfloat16": 10.0}}, memory=Memory(1000))
"""100 TFLOP/s of products, and 10**12 bytes per second."""


def move(log_bytes, family="copy", kind="move"):
    return OpSignature(family, kind, (float(log_bytes), float(log_bytes)), 0.0, 2.0**log_bytes, "bfloat16")


def points(start, part, logs=range(10, 31), family="copy"):
    """Kernels that take ``start`` and their bytes at a part of the bandwidth."""
    return [Point(move(each, family), start + 2.0**each / 1e12 / part) for each in logs]


def estimated(known, site):
    return Interpolation(known, Curves(known, DEVICE)).seconds(site)


def test_the_work_is_the_larger_of_operations_and_bytes():
    curves = Curves([], DEVICE)
    product = OpSignature("linear", "product", (), 2e12, 1e9, "bfloat16")
    assert curves.work(product) == pytest.approx(0.02)  # 2 TFLOP at 100 TFLOP/s; the bytes take 1 ms
    assert curves.work(product._replace(kind="special")) == pytest.approx(0.2)  # by the vector engine
    assert curves.work(product._replace(dtype="")) == pytest.approx(1e-3)
    unknown = Curves([], Device("nothing", "gpu"))
    assert unknown.work(product) == 0.0 and unknown.ideal(product) == USUAL["product"].start


def test_start_and_part_of_many_sizes_are_found():
    known = points(8e-6, 0.4)
    for each in (8.0, 20.5, 34.0):
        truth = 8e-6 + 2.0**each / 1e12 / 0.4
        assert estimated(known, move(each))[0] == pytest.approx(truth, rel=0.15)


def test_small_kernels_say_nothing_of_the_part_that_large_ones_reach():
    seconds, distance = estimated(points(4e-6, 1.0, range(4, 14)), move(30))
    assert seconds == pytest.approx(2.0**30 / 1e12 / USUAL["move"].part, rel=0.1)  # the usual part; 4 us are little
    assert distance == pytest.approx(17 * 2**0.5)


def test_large_kernels_say_nothing_of_the_start():
    seconds, _ = estimated(points(0.0, 0.5, range(26, 32)), move(8))
    assert seconds == pytest.approx(USUAL["move"].start, rel=0.25)


def test_another_family_is_on_the_middle_curve_of_its_kind():
    known = [
        point for i, family in enumerate("abc") for point in points(2e-6 * 2**i, (0.3, 0.9, 0.5)[i], family=family)
    ]
    seconds, distance = estimated(known, move(20, "d"))
    assert distance is None
    assert seconds == pytest.approx(4e-6 + 2.0**20 / 1e12 / 0.5, rel=0.1)  # the middle start and the middle part
    assert estimated(known, move(20, "e", "special"))[0] == pytest.approx(USUAL["special"].seconds(2.0**20 / 1e12))


def test_near_points_correct_the_curve():
    known = [*points(4e-6, 0.5, range(8, 31, 2)), Point(move(19), 9e-6)]  # on the curve it would be 5 us
    assert estimated(known, move(19))[0] == pytest.approx(9e-6, rel=0.1)
    assert estimated(known, move(25))[0] == pytest.approx(4e-6 + 2.0**25 / 1e12 / 0.5, rel=0.1)


def test_runs_are_estimated_from_the_others():
    """The second takes 1.5 times as long: by the first it is missed by 50 %, the first by the second by a third."""
    first = points(4e-6, 0.5)
    second = [Point(site, 1.5 * seconds) for site, seconds in first]
    errors = errors_of_runs([*first, *second], [0] * len(first) + [1] * len(second), DEVICE)
    mean, most = dict(errors.families["copy bfloat16"])[0.0]
    assert mean == pytest.approx((0.5 + 1 / 3) / 2, rel=0.1) and most == pytest.approx(0.5, rel=0.1)
    alone = errors_of_runs(first, [0] * len(first), DEVICE)
    assert alone.families == {"copy bfloat16": ()}  # of one run nothing follows
    assert alone.kinds["move"] == pytest.approx(
        abs((4e-6 * 21 + 2.0**31 / 5e11) / (2.5e-6 * 21 + 2.0**31 / 6e11) - 1), rel=0.01
    )
