"""Families of calls, curves and errors of a calibration, by hand: 1 GFLOP/s, 1 GB/s and 10 µs for the least call."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import pairwise
from math import exp, hypot, log, log2
from random import Random

import pytest
import sympy

from costcore import CostError
from costcore.analyses.timing.calibrated import Estimated, error_of_sum, from_toml, to_toml
from costcore.analyses.timing.calibration import (
    APART,
    USUAL,
    Calibration,
    Curves,
    Error,
    Errors,
    Estimate,
    Interpolation,
    OpSignature,
    Point,
    Product,
    Rates,
    errors_of_runs,
    left_out_errors,
    product_of,
    signature_of,
    steps_of,
    wave_seconds,
)
from costcore.analyses.timing.time_report import toml_text
from costcore.analyses.timing.times import KERNEL_CLOCK
from costcore.ir import Cost, Layer, Operations, Tensor
from tests.core.analyses.timing.toy_device import CONDITIONS, POINTS, Device, Memory, table
from tests.core.traces import Call
from tests.whole_text import as_json

RATES = Rates(overhead=1e-5, peak=1e9, bandwidth=1e9)


def signature(family="relu", size=1e6, kind="arithmetic", work=1.0):
    """A call with as many FLOPs (times ``work``) as bytes, which has one axis."""
    return OpSignature(family, kind, (log2(size),), work * size, size)


def point(efficiency, **site_options):
    """A measured call, so much slower than at the best rates."""
    called = signature(**site_options)
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
    assert RATES.ideal(signature(size=1e6, work=1)) == pytest.approx(1e-5 + 1e-3)
    assert RATES.ideal(signature(size=1e6, work=3)) == pytest.approx(1e-5 + 3e-3)


def test_every_step_of_a_recurrence_takes_the_least_time_of_a_call():
    place = OpSignature("lstm", "product", (20.0, 20.0, 0.0, 0.0, 5.0, 0.0), 1e6, 1e6)
    assert RATES.ideal(place) == pytest.approx(32 * 1e-5 + 1e-3)


def test_a_call_of_the_sweep_takes_what_was_measured():
    measured = point(0.25)
    estimate = calibrated(measured).estimate(measured.signature)
    assert estimate.seconds == pytest.approx((1e-5 + 1e-3) / 0.25)
    assert (estimate.error, estimate.distance) == (Error(0.1, 0.2), 0.0)


def test_efficiency_is_the_mean_of_the_nearest_logarithms_weighted_by_distance():
    """Points at distances 1 and 2 weigh 1 / 1.05 and 1 / 4.05, so that log e is -0.7941 log 2 - 0.2059 log 4."""
    found = calibrated(point(0.5, size=2e6), point(0.25, size=4e6)).estimate(signature(size=1e6))
    assert found.seconds == pytest.approx((1e-5 + 1e-3) * 2**0.79412 * 4**0.20588, rel=1e-4)


def test_only_four_points_count():
    near = [point(0.5, size=1e6 * 2**i) for i in range(4)]
    far = [point(0.01, size=1e6 * 2**i) for i in range(4, 9)]
    assert calibrated(*near, *far).estimate(signature(size=1e6)).seconds == pytest.approx((1e-5 + 1e-3) / 0.5)


def test_beyond_the_sweep_the_nearest_efficiency_holds():
    found = calibrated(point(0.5, size=1e6)).estimate(signature(size=1e9))
    assert found.seconds == pytest.approx((1e-5 + 1.0) / 0.5)


def test_a_family_without_points_is_estimated_from_its_kind():
    """``add`` and ``relu`` are arithmetic: one point each, the nearer one at the same size."""
    found = calibrated(point(0.5, size=1e6)).estimate(signature(family="softsign", size=1e6))
    assert found.distance is None and found.error == Error(0.5, 0.5)
    assert found.seconds == pytest.approx((1e-5 + 1e-3) / 0.5, rel=0.001)


def test_a_kind_without_points_is_estimated_from_all():
    found = calibrated().estimate(signature(family="erf", kind="special", size=1e9))
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
    found = calibrated(point(0.5, size=2.0**10)).estimate(signature(size=2.0 ** (10 + distance)))
    assert found.distance == pytest.approx(distance)
    assert found.error == (None if error is None else pytest.approx(error))


def test_a_kind_without_an_error_has_none():
    assert calibrated(point(0.5)).estimate(signature(family="sort", kind="opaque")).error is None


def test_points_of_older_files_lack_the_last_coordinates():
    found = calibrated(point(0.25, size=2.0**10), point(0.5, size=2.0**20))
    newer = signature(size=2.0**10)._replace(axes=(10.0, 3.0))
    assert found.estimate(newer) == found.estimate(signature(size=2.0**10))


def test_points_of_a_newer_version_are_refused():
    newer = Point(OpSignature("relu", "arithmetic", (20.0, 1.0), 1e6, 1e6), 1e-3)
    with pytest.raises(CostError, match=r"the points of 'relu' in the calibration have 2 coordinates, not 1"):
        calibrated(newer).estimate(signature())


def test_an_estimate_does_not_depend_on_the_order_of_points():
    points = [point(e, size=s) for e, s in ((0.5, 1e5), (0.4, 2e5), (0.3, 4e5), (0.2, 8e5), (0.1, 1.6e6))]
    forward, backward = calibrated(*points), calibrated(*reversed(points))
    assert forward.estimate(signature(size=3e5)).seconds == pytest.approx(
        backward.estimate(signature(size=3e5)).seconds
    )


def call(op, inputs, output, attrs=None, **options):
    tensors = {name: Tensor(shape) for name, shape in inputs.items()}
    return Call(Layer(op, tensors, [Tensor(output)], attrs or {}), op, **options)


def cost(flops=8, macs=0, nbytes=1024, special=0):
    return Cost(Operations(add=flops - special, special=special), nbytes // 2, nbytes // 2, {}, macs)


def conv(channels, out, kernel, groups=1, stride=1, side=16, rank=2, n=4, dilation=1):
    shapes = {"x": (n, channels, *(side * stride,) * rank), "w": (out, channels // groups, *(kernel,) * rank)}
    settings = {"groups": groups, "stride": (stride,) * rank, "dilation": (dilation,) * rank}
    return call("conv", shapes, (n, out, *(side,) * rank), settings)


def window(op, kernel, **more):
    shape = (2, 4, *(16,) * len(kernel))
    return call(op, {"x": shape}, shape, {"kernel": kernel}, **more)


@pytest.mark.parametrize(
    ("made", "family", "axes"),
    [
        # 4 x 16 x 16 = 2^10 rows; a kernel of 2 x 2 weighs 0.75 x 2
        (conv(8, 32, 1), "conv 1x1", (10, 5, 3, 0, 0, 0)),
        (conv(8, 32, 2), "conv kxk", (10, 5, 3, 1.5, 0, 0)),
        (conv(8, 32, 2, stride=2), "conv kxk", (10, 5, 3, 1.5, 0, 2)),
        (conv(32, 32, 2, groups=4), "grouped conv", (10, 3, 3, 1.5, 1, 0)),
        (conv(16, 16, 4, groups=16), "depthwise", (10, 0, 0, 3, 2, 0)),
        (
            call("conv_transpose", {"x": (4, 8, 16, 16), "w": (8, 4, 2, 2)}, (4, 4, 32, 32), {"stride": (2, 2)}),
            "conv_transpose",
            (10, 2, 3, 1.5, 0, 2),
        ),
        (call("linear", {"x": (2, 8, 16), "w": (64, 16)}, (2, 8, 64)), "linear", (4, 6, 4, 0, 0)),
        (call("linear", {"x": (1, 16), "w": (64, 16)}, (1, 64)), "linear", (0, 6, 4, 0, APART)),
        (call("matmul", {"x0": (4, 8, 16), "x1": (4, 16, 32)}, (4, 8, 32)), "matmul", (3, 5, 4, 2, 0)),
        (call("matmul", {"x0": (4, 8, 16), "x1": (16, 32)}, (4, 8, 32)), "linear", (5, 5, 4, 0, 0)),
        (call("matmul", {"x0": (8, 16), "x1": (16,)}, (8,)), "linear", (3, 0, 4, 0, APART)),
        (
            call("attention", dict.fromkeys("qkv", (2, 4, 8, 16)), (2, 4, 8, 16), {"causal": True}),
            "attention",
            (3, 3, 4, 3, APART / 2, 0),
        ),
        (
            call("multi_head_attention", {"q": (2, 8, 64), "w0": (192, 64)}, (2, 8, 64), {"heads": 4}),
            "multi_head_attention",
            (1, 3, 6),
        ),
        (call("softmax", {"x": (4, 64)}, (4, 64), {"axis": 1}), "softmax", (8, 3)),
        # FLOPs and bytes, and no kernel: of all positions, along as many axes as x has behind its channels
        (call("avg_pool", {"x": (2, 4, 16, 16)}, (2, 4, 1, 1)), "avg_pool", (3, 10, 0)),
        (call("avg_pool", {"x": (2, 4, 16)}, (2, 4, 1)), "avg_pool 1d", (3, 10, 0)),
        (call("layer_norm", {"x": (4, 4, 16)}, (4, 4, 16), {"axis": (1, 2)}), "layer_norm", (8, 3)),
        (call("relu", {"x": (8,)}, (8,)), "relu", (3, 10)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_coordinates_are_logarithms_of_sizes(made, family, axes):
    found = signature_of(made, cost())
    assert found.family == family
    assert found.axes[: len(axes) + 2] == pytest.approx((*axes, 0, 0))  # neither strided nor in place
    assert found.size == (3, 10)


@pytest.mark.parametrize(
    ("made", "product"),
    [
        (conv(8, 32, 1), Product(1024, 32, 8)),
        (conv(8, 32, 3), Product(1024, 32, 72)),
        (conv(32, 64, 3, groups=4), Product(1024, 16, 72, 4)),
        (conv(8, 32, 3, rank=3, side=4), Product(256, 32, 216)),
        (call("matmul", {"x0": (4, 8, 16), "x1": (4, 16, 32)}, (4, 8, 32)), Product(8, 32, 16, 4)),
        (call("relu", {"x": (8,)}, (8,)), None),
        (conv(16, 16, 4, groups=16), None),
    ],
    ids=str,
)
def test_the_product_of_a_call_is_read_from_its_coordinates(made, product):
    assert product_of(signature_of(made, cost())) == product


@pytest.mark.parametrize(
    ("made", "family", "later"),
    [
        (conv(8, 32, 3, rank=1), "conv kxk 1d", (0, 0)),
        (conv(8, 32, 3, rank=3), "conv kxk 3d", (0, 0)),
        (conv(8, 32, 1, rank=3), "conv 1x1 3d", (0, 0)),
        (conv(16, 16, 3, groups=16, rank=1), "depthwise 1d", (0, 0)),
        (conv(32, 32, 3, groups=4, rank=3), "grouped conv 3d", (0, 0)),
        # half of the logarithm of 4 x 4, or of 64
        (conv(8, 32, 3, dilation=4), "conv kxk", (0, 2)),
        (conv(8, 32, 3, rank=1, dilation=64), "conv kxk 1d", (0, 3)),
        # one sample of 8 x 16 x 16 elements, of 8 x 32 x 32 x 32, one for a large kernel, and one in groups
        (conv(8, 32, 3, n=1), "conv kxk", (2 * APART, 0)),
        (conv(8, 32, 3, n=1, side=128), "conv kxk", (0, 0)),
        (conv(8, 32, 5, n=1), "conv kxk", (0, 0)),
        (conv(8, 32, 5, n=1, rank=1), "conv kxk 1d", (2 * APART, 0)),
        (conv(32, 32, 3, n=1, groups=4), "grouped conv", (0, 0)),
        (
            call("conv_transpose", {"x": (1, 8, 4, 4, 4), "w": (8, 4, 2, 2, 2)}, (1, 4, 8, 8, 8), {"stride": (2,) * 3}),
            "conv_transpose 3d",
            (),
        ),
        (
            call("conv_backward", {"dy": (1, 8, 9), "x": (1, 4, 9), "w": (8, 4, 2)}, (8, 4, 2), {"groups": 1}),
            "conv_backward 1d",
            (3, 2, 0.75, 0),
        ),
        (window("max_pool", (2, 2)), "max_pool", (1.5,)),
        (window("max_pool", (4, 4, 4)), "max_pool 3d", (4.5,)),
        (window("avg_pool", (8,)), "avg_pool 1d", (2.25,)),
        (call("resize", {"x": (1, 2, 4, 4, 4)}, (1, 2, 8, 8, 8)), "resize 3d", ()),
        # 32 positions of 4 rows
        (call("lstm", {"x": (4, 32, 16), "h0": (1, 4, 8), "w0": (32, 16)}, (4, 32, 8)), "lstm", (5, 2)),
        # 32 positions, two layers in both directions
        (
            call(
                "rnn",
                {"x": (4, 32, 16), "h0": (4, 4, 8)},
                (4, 32, 16),
                {"hidden": 8, "layers": 2, "bidirectional": True},
            ),
            "rnn",
            (7, 2),
        ),
        (call("gru", {"x": (4, 16), "h0": (4, 8), "w0": (24, 16)}, (4, 8)), "gru", (0, 2)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_family_tells_the_rank_and_the_last_coordinates_what_older_files_lack(made, family, later):
    found = signature_of(made, cost(macs=4))
    assert found.family == family
    assert found.axes[len(found.axes) - len(later) :] == pytest.approx(later)
    assert found.axes[len(found.axes) - len(later) - 2 :][:2] == (0, 0)  # neither strided nor in place


def test_strided_operands_and_results_in_place_are_apart():
    plain = call("relu", {"x": (8,)}, (8,))._replace(inputs=(1,), outputs=(2,), storages=(5, 6))
    strided, in_place = plain._replace(strided=(0,)), plain._replace(storages=(5, 5))
    assert [signature_of(each, cost()).axes[-2:] for each in (plain, strided, in_place)] == [
        (0, 0),
        (APART, 0),
        (0, APART),
    ]


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (cost(macs=4), "product"),
        (cost(special=1), "special"),
        (cost(), "arithmetic"),
        (cost(flops=0), "move"),
        (cost(flops=0, nbytes=0), "free"),
        (Cost(8, 4, 4, {}), "arithmetic"),
    ],
)
def test_the_kind_follows_from_what_a_call_costs(given, kind):
    assert signature_of(call("relu", {"x": (8,)}, (8,)), given).kind == kind


def test_steps_of_a_recurrence_follow_one_another():
    shapes, settings = {"x": (4, 32, 16), "h0": (2, 4, 8)}, {"hidden": 8, "layers": 2}
    layer = signature_of(call("gru", shapes, (4, 32, 8), settings), cost(macs=4))
    assert steps_of(layer) == 64
    assert steps_of(layer._replace(axes=layer.axes[:4])) == 1  # of a file that does not have them
    assert steps_of(signature_of(call("relu", {"x": (8,)}, (8,)), cost())) == 1


def test_operators_like_no_other_are_opaque():
    shapes = {"x": (8,)}
    assert [
        signature_of(call(op, shapes, (8,)), cost()).kind for op in ("sort", "cumsum", "nothing_known", "relu")
    ] == [*("opaque", "opaque", "opaque", "arithmetic")]


def test_a_zero_cost_call_has_no_coordinates_but_its_operator():
    found = signature_of(call("view", {"x": (8,)}, (8,)), cost(flops=0, nbytes=0))
    assert (found.family, found.axes) == ("view (zero-cost)", (0, 0))


def test_symbolic_sizes_are_refused_with_what_to_do():
    n = sympy.Symbol("n", integer=True, positive=True)
    made = call("relu", {"x": (n,)}, (n,), name="relu-1")
    with pytest.raises(CostError, match=r"relu-1: time needs numeric sizes; .* report\.subs"):
        signature_of(made, Cost(n, 4 * n, 4 * n, {}))


DEVICE = Device("toy", "gpu", peak={"matrix": {"bfloat16": 100.0}, "vector": {"bfloat16": 10.0}}, memory=Memory(1000))
"""100 TFLOP/s of products, and 10**12 bytes per second."""


def move(log_bytes, family="copy", kind="move"):
    return OpSignature(family, kind, (float(log_bytes), float(log_bytes)), 0.0, 2.0**log_bytes, "bfloat16")


def points(start, part, logs=range(10, 31), family="copy"):
    """Kernels that take ``start`` and their bytes at a part of the bandwidth."""
    return [Point(move(each, family), start + 2.0**each / 1e12 / part) for each in logs]


def estimated(known, signature):
    return Interpolation(known, Curves(known, DEVICE)).seconds(signature)


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
    second = [Point(signature, 1.5 * seconds) for signature, seconds in first]
    errors = errors_of_runs([*first, *second], [0] * len(first) + [1] * len(second), DEVICE)
    mean, most = dict(errors.families["copy bfloat16"])[0.0]
    assert mean == pytest.approx((0.5 + 1 / 3) / 2, rel=0.1) and most == pytest.approx(0.5, rel=0.1)
    alone = errors_of_runs(first, [0] * len(first), DEVICE)
    assert alone.families == {"copy bfloat16": ()}  # of one run nothing follows
    assert alone.kinds["move"] == pytest.approx(
        abs((4e-6 * 21 + 2.0**31 / 5e11) / (2.5e-6 * 21 + 2.0**31 / 6e11) - 1), rel=0.01
    )


LEFT_OUT_RATES = Rates(overhead=1e-6, peak=1e9, bandwidth=1e9)


def place(x, family="relu", kind="arithmetic", y=()):
    """A call of 1000 operations and bytes: it ideally takes 2 µs."""
    return OpSignature(family, kind, (float(x), *y), 1000.0, 1000.0)


def measured(signature, log_efficiency):
    return Point(signature, LEFT_OUT_RATES.ideal(signature) / exp(log_efficiency))


def line(n=24, slope=0.1, **options):
    """Points one apart, whose efficiency grows by the same factor from one to the next."""
    return [measured(place(x, **options), slope * x) for x in range(n)]


def test_beyond_the_sweep_the_error_is_what_the_device_truly_has():
    """A call 4 beyond the last point is estimated from points 4, 5, 6, 7 away, with weights 1 / (d² + 0.05).

    Their mean distance is (4 / 16.05 + 5 / 25.05 + 6 / 36.05 + 7 / 49.05) divided by
    (1 / 16.05 + 1 / 25.05 + 1 / 36.05 + 1 / 49.05), 0.757970 / 0.150352 = 5.0413, so that log e is 0.1 times that too
    low, and the call takes exp(-0.50413) of its estimate. So does every call that is left out: of points as far away on
    both sides, the slower ones count.
    """
    points = line(n=200)
    error = dict(left_out_errors(points, LEFT_OUT_RATES).families["relu"])[4.0]
    assert error.mean == pytest.approx(1 - exp(-0.50413), rel=0.02)  # those at an end have fewer than four on one side
    assert error.most == pytest.approx(1 - exp(-0.50413), rel=1e-4)
    estimated, distance = Interpolation(points, LEFT_OUT_RATES).seconds(place(199 + 4))
    assert distance == 4.0
    assert 1 - measured(place(203), 0.1 * 203).seconds / estimated == pytest.approx(error.most, rel=1e-4)


def test_errors_do_not_fall_with_the_distance_and_end_where_nothing_was_left_out():
    growth = left_out_errors(line(), LEFT_OUT_RATES).families["relu"]
    assert [distance for distance, _ in growth] == [0, 1, 2, 3, 4, 6, 8, 12]
    for (_, near), (_, far) in pairwise(growth):
        assert far.mean >= near.mean and far.most >= near.most
    assert left_out_errors(line(n=7), LEFT_OUT_RATES).families["relu"] == ()  # nothing follows from seven points


def test_a_family_of_few_points_is_no_surer_than_all_together():
    exact = [measured(place(x, family="abs"), 0.0) for x in range(5)]
    errors = left_out_errors([*line(), *exact], LEFT_OUT_RATES).families
    assert errors["abs"][4][1].mean >= 0.9 * errors["relu"][4][1].mean > 0.3


def test_points_of_the_same_chain_are_left_out_together():
    """Four points at each place were measured in one chain, which was fast or slow as a whole."""
    random = Random(0)
    points = []
    for x in range(0, 80, 4):
        chain = random.choice((-0.5, 0.5))
        points += [measured(place(x + 0.01 * i), chain) for i in range(4)]
    assert left_out_errors(points, LEFT_OUT_RATES).families["relu"][0][1].mean > 0.2


def test_a_family_that_is_left_out_tells_the_error_of_unknown_ones_of_its_kind():
    """Five families of one kind take 1, 2, 4, 8 and 16 times the ideal; the sixth, opaque one tells nothing."""
    points = [measured(place(x, family=f"f{i}", kind="special"), -i * log(2)) for i in range(5) for x in range(10)]
    points += [measured(place(x, family="sort", kind="opaque"), -3.0) for x in range(10)]
    kinds = left_out_errors(points, LEFT_OUT_RATES).kinds
    assert "opaque" not in kinds
    # f4 takes 16, and the slowest others 8, twice too little; f0 takes 1 and the slowest others 16, 15 / 16 too much
    assert kinds["special"] == pytest.approx(1)


def test_nothing_is_known_of_other_families_from_one_alone():
    assert left_out_errors(line(), LEFT_OUT_RATES).kinds == {}


@pytest.fixture(scope="module")
def toy():
    """A device with three families, whose efficiency depends on two sizes and, by chance, on each call."""

    def truth(place):
        slope = {"a": 0.05, "b": 0.15, "c": 0.3}[place.family]
        x, y = place.axes
        chance = Random(f"{place}").gauss(0, 0.2)
        return LEFT_OUT_RATES.ideal(place) / exp(slope * (x - 0.5 * y) + chance - 3)

    random = Random(1)
    swept = [place(random.uniform(0, 10), family, y=(random.uniform(0, 10),)) for family in "abc" for _ in range(150)]
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
            place(random.uniform(0, 10) + beyond, random.choice("abc"), y=(random.uniform(0, 10) - beyond,))
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
    errors = [calibration.estimate(place(x, "c", y=(5.0,))).error for x in (5.0, 12.0, 15.0, 20.0)]
    assert errors == sorted(errors) and errors[-1].mean > 3 * errors[0].mean
    assert calibration.estimate(place(60.0, "c", y=(5.0,))).error is None


def test_calls_of_one_size_err_together_and_families_independently():
    def estimated(family, x, seconds=1.0):
        where = place(x, family)
        return Estimated(None, seconds, where, Estimate(seconds, Error(0.3, 0.5), 0.0))

    assert error_of_sum([estimated("a", 1)], 0.0) == pytest.approx(0.5)  # 0.3 with its family, and 0.4 alone
    assert error_of_sum([estimated("a", 1), estimated("a", 1)], 0.0) == pytest.approx(0.5)
    assert error_of_sum([estimated("a", 1), estimated("a", 2)], 0.0) == pytest.approx(hypot(0.6, 0.4, 0.4) / 2)
    assert error_of_sum([estimated("a", 1), estimated("b", 1)], 0.0) == pytest.approx(hypot(0.3, 0.3, 0.4, 0.4) / 2)
    assert error_of_sum([estimated("a", 1)], 0.6) == 0.6  # the noise of the sweep


@pytest.mark.parametrize(
    ("product", "seconds"),
    [
        # 10 tiles of 64 x 64 fill the units once: 2 x 64 x 64 x 32 FLOP
        (Product(64, 640, 32), 262144 / 1e11),
        # one more row begins 10 more: two waves of 64 x 64 tiles, as long as one of 128 x 64 tiles
        (Product(65, 640, 32), 2 * 262144 / 1e11),
        # a depth of 33 is computed as 64
        (Product(64, 640, 33), 2 * 262144 / 1e11),
        # one small product occupies one unit
        (Product(8, 8, 32), 262144 / 1e11),
        # and so do ten
        (Product(8, 8, 32, 10), 262144 / 1e11),
        # 20 tiles of 128 x 64 are 2 waves, 40 of 64 x 64 are 4: as long; 10 of 256 x 128 or 128 x 128 too
        (Product(1280, 128, 32), 4 * 262144 / 1e11),
    ],
)
def test_time_is_that_of_whole_waves_of_whole_tiles(product, seconds):
    assert wave_seconds(product, 10, 1e12) == pytest.approx(seconds)


def test_a_large_product_reaches_the_peak():
    product = Product(10 * 256, 10 * 128, 4096)  # 100 tiles are 10 full waves
    assert wave_seconds(product, 10, 1e12) == pytest.approx(2 * 2560 * 1280 * 4096 / 1e12)


if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@pytest.mark.parametrize(
    "content",
    [
        {"a": 1, "b": -2.5, "c": 1e-07, "d": 1e22, "e": True, "f": "text"},
        {"text": 'quotes " and \\ and \n and \t and \x7f and \x00 and µ and 😀'},
        {"list": [1, 2], "nested": [[1.0, 2.0], [3.0]], "texts": ["a", "b"], "empty": []},
        {"table": {"x": 1, "inner": {"y": 2}}, "z": 3},
        {"tables": [{"a": 1, "t": {"b": 2}}, {"a": 2}]},
        {"a key with spaces": 1, "table": {"conv 1x1": 0.5, "": 1}},
    ],
    ids=lambda content: next(iter(content)),
)
def test_what_is_written_is_read_back(content):
    assert tomllib.loads(toml_text(content)) == content


def test_none_is_left_out():
    assert tomllib.loads(toml_text({"a": None, "b": 1})) == {"b": 1}


def test_a_calibration_is_read_back():
    calibration, conditions = from_toml(tomllib.loads(toml_text({"calibration": table()}))["calibration"], "toy")
    assert conditions == CONDITIONS
    assert sorted(calibration.points) == sorted(POINTS)


OTHER_DEVICE = Device(
    "toy",
    "gpu",
    units=10,
    peak={"matrix": {"bfloat16": 100.0, "float16": 80.0}, "vector": {"bfloat16": 10.0, "float16": 20.0}},
    memory=Memory(1000),
)

COUNTS = {
    ("many", "special", "bfloat16"): 102,  # of which each second one is left out
    ("twenty", "special", "bfloat16"): 22,  # of which 11 stand for the family
    ("eight", "special", "bfloat16"): 8,
    ("seven", "special", "float16"): 7,
    ("five", "special", "bfloat16"): 5,
    ("one", "arithmetic", "bfloat16"): 1,
    ("few", "arithmetic", "float16"): 12,
    ("linear", "product", "bfloat16"): 20,
    ("linear", "product", "float16"): 19,
    ("conv kxk", "product", "bfloat16"): 13,
    ("matmul", "product", "float16"): 1,
    ("copy", "move", "bfloat16"): 62,  # of which each second one determines the curve
    ("sort", "opaque", "bfloat16"): 9,
    ("view", "free", "bfloat16"): 3,
}


def many_points() -> list[Point]:
    random = Random(11)
    found = []
    for number, ((family, kind, dtype), n) in enumerate(COUNTS.items()):
        for _ in range(n):
            log_bytes, log_flops = random.uniform(8, 30), random.uniform(8, 40) if kind != "move" else 0.0
            others = [float(random.randrange(3)) for _ in range(2)]
            axes = (log_bytes, log_flops, *others, 1.0, 0.5)
            flops = 2**log_flops if kind not in ("move", "free") else 0.0
            if kind == "product":  # rows, columns and depth
                axes = (*(random.uniform(3, 12) for _ in range(3)), 0.0, 0.0, 0.5)
                flops = 2 ** (1 + sum(axes[:3]))
            place = OpSignature(family, kind, axes, flops, 2**log_bytes, dtype)
            slow = exp(random.gauss(0.1 * number, 0.2))
            found.append(Point(place, 2e-6 + slow * max(place.flops / 4e13, place.nbytes / 8e11)))
    return found


def some_calls() -> list[OpSignature]:
    """Calls at, near and far from the many_points, of known and unknown families, kinds and dtypes."""
    random = Random(5)
    found = [point.signature for point in many_points()[::17]]
    for family, kind, dtype in (*COUNTS, ("erf", "special", "bfloat16"), ("other", "product", "float16")):
        for distance in (1.0, 3.5, 9.0, 30.0):
            axes = (random.uniform(8, 14), random.uniform(8, 14) + distance, 9.0, 0.0, 1.0, 1.5, 2.5)
            found.append(OpSignature(family, kind, axes, 2 ** axes[1], 2 ** axes[0], dtype))
    return [*found, *(each._replace(dtype="float16", family="linear", kind="product") for each in found[-2:])]


def said(calibration: Calibration) -> dict[str, object]:
    estimates = [
        (f"{signature.family} {signature.dtype}", *calibration.estimate(signature)) for signature in some_calls()
    ]
    return {
        "rates": calibration.rates,
        "dtypes": sorted(calibration.dtypes),
        "families": calibration.errors.families,
        "kinds": calibration.errors.kinds,
        "estimates": estimates,
    }


def test_a_sweep(golden):
    known = many_points()
    calibration = Calibration(known, left_out_errors(known, Rates.of(known, units=10)), units=10)
    golden("time/sweep.json", as_json(said(calibration)))
    table = to_toml(calibration, CONDITIONS)
    again, conditions = from_toml(table, "a device")
    assert conditions == CONDITIONS and to_toml(again, conditions) == table
    golden("time/table.json", as_json({**table, "family": table["family"][:2]}))


def test_traces(golden):
    known = many_points()
    sources = [i % 3 for i in range(len(known))]
    curves = Curves(known, OTHER_DEVICE)
    calibration = Calibration(known, errors_of_runs(known, sources, OTHER_DEVICE), 10, curves=curves)
    ideals = [(signature.family, curves.work(signature), curves.ideal(signature)) for signature in some_calls()]
    kinds = {kind: curves.of_kind(kind) for kind in ("product", "special", "arithmetic", "move", "opaque")}
    golden("time/traces.json", as_json({**said(calibration), "curves": ideals, "kinds of curves": kinds}))
    table = to_toml(calibration, replace(CONDITIONS, clock=KERNEL_CLOCK))
    again, _ = from_toml(table, "a device", OTHER_DEVICE)  # also with calls that cost nothing
    assert again.estimate(some_calls()[0]).seconds == pytest.approx(
        calibration.estimate(some_calls()[0]).seconds, rel=1e-4
    )


def test_a_file_of_the_first_version_has_the_errors_that_are_found_again():
    known = [point for point in many_points() if point.signature.dtype == "bfloat16"]
    table = to_toml(Calibration(known, left_out_errors(known, Rates.of(known))), CONDITIONS)
    old = {key: value for key, value in table.items() if key != "errors_of_other_families"}
    old["format"], old["error_of_other_families"] = 1, 0.5
    old["family"] = [{**{k: v for k, v in each.items() if k != "errors"}, "error": 0.25} for each in table["family"]]
    found, _ = from_toml(old, "a device")
    assert found.errors == left_out_errors(found.points, Rates.of(found.points))
