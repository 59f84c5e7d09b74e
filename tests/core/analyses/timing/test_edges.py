"""Figures at and beside every limit of the time of a run, by hand."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from itertools import product
from math import log10
from types import SimpleNamespace

import pytest
import sympy

from costcore import CostError, Layer, Operations, Report, Tensor, Trace
from costcore.analyses.timing.bound import (
    MOST_TAPS,
    Work,
    _beyond_operands,
    bound_of,
    bytes_from_outside,
    fewest_products,
    needed_part,
    needs_of,
    product_dtype,
    values_of,
)
from costcore.analyses.timing.calibration import (
    APART,
    USUAL,
    Calibration,
    Curves,
    Error,
    Errors,
    Estimate,
    OpSignature,
    Point,
    Rates,
    _estimates_by_distance,
    site_of,
)
from costcore.analyses.timing.roofline import Dot, Roof, TimedGroup, _frame, amount, dots_of, legend, roofs_of, shapes
from costcore.analyses.timing.time_report import (
    comparison_remarks,
    device_rows,
    entries,
    others_of,
    shares_of,
    show_devices,
    summary,
    time_section,
    unknown_rates,
)
from costcore.analyses.timing.times import (
    BELOW,
    COPIED,
    CalibrationError,
    Estimated,
    Times,
    _remarks,
    _site_of_group,
    calibration_of,
    float_dtypes,
    from_table,
    layer_at,
    retyped,
)
from costcore.analyses.topology.communication import Link
from costcore.ir import Cost
from tests.core.analyses.fusion.runs import Calls
from tests.core.analyses.timing import test_from_traces as traces
from tests.core.analyses.timing.test_families import call, conv, cost
from tests.core.analyses.timing.toy_calibration import CONDITIONS, calibrated_device, table
from tests.core.analyses.timing.toy_device import TOY, Device, Memory, device
from tests.core.given_costs import Step, dense, net, relu
from tests.core.results import quantity
from tests.core.traces import Call, CallCost, CallTime, Profile, Run

# Families


def axes_of(made, n=None):
    return site_of(made, cost(macs=4)).axes[:n]


def test_settings_that_are_absent_are_one():
    shapes = {"x": (2, 8, 16, 16), "w": (32, 8, 2, 2)}
    plain = call("conv", shapes, (2, 32, 15, 15))
    stated = call("conv", shapes, (2, 32, 15, 15), {"groups": 1, "stride": (1, 1), "dilation": (1, 1)})
    assert site_of(plain, cost()) == site_of(stated, cost())
    transposed = {"x": (2, 8, 16, 16), "w": (8, 4, 2, 2)}
    plain = call("conv_transpose", transposed, (2, 4, 17, 17))
    stated = call("conv_transpose", transposed, (2, 4, 17, 17), {"groups": 1, "stride": (1, 1)})
    assert site_of(plain, cost()) == site_of(stated, cost())


def test_two_groups_are_groups():
    assert site_of(conv(8, 32, 3, groups=2), cost()).family == "grouped conv"
    made = call("conv_transpose", {"x": (4, 8, 16, 16), "w": (8, 2, 2, 2)}, (4, 4, 17, 17), {"groups": 2})
    assert axes_of(made, 6) == (10, 1, 2, 1.5, 0.5, 0)  # 2^10 positions, 2 channels from 8 / 2, 2 groups


def test_the_sizes_of_products_of_other_ranks():
    """The weight of several axes, vectors, and queries and keys of different lengths."""
    assert axes_of(call("linear", {"x": (2, 8, 16), "w": (2, 32, 16)}, (2, 8, 2, 32)), 4) == (4, 6, 4, 0)
    assert axes_of(call("matmul", {"x0": (8,), "x1": (4, 8, 2)}, (4, 2)), 5) == (0, 1, 3, 0, APART)
    assert axes_of(call("matmul", {"x0": (16, 8), "x1": (4, 8, 2)}, (4, 16, 2)), 5) == (4, 1, 3, 2, 0)
    q, k = (2, 4, 8, 16, 32), (2, 4, 8, 64, 32)
    made = call("attention", {"q": q, "k": k, "v": k, "mask": (16, 64)}, q)
    assert axes_of(made, 6) == (4, 6, 5, 6, 0, APART / 2)


def test_a_reduction_of_everything_has_no_rows():
    assert axes_of(call("softmax", {"x": (4, 64)}, (4, 64)), 2) == (8, 0)


def test_a_small_sample_is_as_far_from_others_as_two_other_kernels():
    small, large = (site_of(conv(8, 32, 3, n=n), cost()).axes[-2] for n in (1, 4))
    assert (small, large) == (4, 0)

    def is_small(*kernel, channels=8):
        size = (8,) * len(kernel)
        made = call("conv", {"x": (1, channels, *size), "w": (32, channels, *kernel)}, (1, 32, *size))
        return site_of(made, cost()).axes[-2] == 4

    assert [is_small(9), is_small(3, 9), is_small(4, 4), is_small(4, 4, channels=1)] == [True, True, False, False]
    assert [is_small(2, 4, 4), is_small(4, 2, 4)] == [False, True]
    wide = call("conv", {"x": (1, 8, 16, 16, 100), "w": (32, 8, 3, 3, 3)}, (1, 32, 14, 14, 98))
    assert site_of(wide, cost()).axes[-2] == 4  # 8 * 16 * 16 elements, without the last axis


# The fewest products


def attention(queries, keys, op="attention", **settings):
    q, k = Tensor((3, queries, 8)), Tensor((3, keys, 8))
    return Layer(op, {"q": q, "k": k, "v": k}, [q], settings)


def allowed(queries, keys, causal, window, shift):
    left, right = (keys + queries, keys + queries) if window is None else window
    left = keys + queries if left < 0 else left
    right = 0 if causal else keys + queries if right < 0 else right
    return sum(-left <= k - q - shift <= right for q, k in product(range(queries), range(keys)))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [None, *product((-1, 0, 1, 3), repeat=2)])
def test_pairs_of_all_small_sizes_are_counted(causal, window):
    if not causal and window is None:
        return
    for queries, keys in product(range(1, 6), repeat=2):
        least = min(allowed(queries, keys, causal, window, shift) for shift in (0, keys - queries))
        settings = {"causal": causal} | ({} if window is None else {"window": window})
        found = fewest_products(attention(queries, keys, **settings), False)
        assert found == pytest.approx(least / (queries * keys)), (queries, keys)


def test_what_is_known_of_masks_of_other_operators():
    assert fewest_products(attention(0, 4, causal=True), False) == 1.0
    assert fewest_products(attention(4, 0, causal=True), False) == 1.0
    assert fewest_products(attention(4, 4, "other", causal=True), False) == 0.5
    assert fewest_products(attention(4, 4, "other", window=(1, 1)), False) == 0.0
    x = Tensor((4, 8))
    assert fewest_products(Layer("attention", {"q": x}, [x], {"causal": True}), False) == 0.5
    assert fewest_products(Layer("attention", {"k": x}, [x], {"causal": True}), False) == 0.5
    odd = fewest_products(attention(4, 5, causal=True, window=(1,)), False)
    assert odd == fewest_products(attention(4, 5, causal=True), False)
    assert fewest_products(attention(4, 5), False) == 1.0


def one_axis(size, taps, positions, **settings):
    x, w, y = Tensor((1, 4, size)), Tensor((4, 4, taps), role="param"), Tensor((1, 4, positions))
    return Layer("conv", {"x": x, "w": w}, [y], settings)


def test_a_convolution_without_settings_has_neither_stride_nor_padding():
    """A kernel of 3 on 10 elements: Winograd's tile of 8 gives 6 outputs for 3 * 6 products of the definition."""
    assert fewest_products(one_axis(10, 3, 8), False) == 1.0
    assert fewest_products(one_axis(10, 3, 8), True) == pytest.approx(8 / 18)


@pytest.mark.parametrize(
    ("kernel", "part"),
    [
        (1, 1.0),
        (2, 8 / 14),  # 2 * 7 / 8
        (8, 1 / (8 * 249 / 256 / 2)),  # of one output per tile of 8, Winograd needs as many; Fourier needs fewer
        (9, 1 / (9 * 248 / 256 / 2)),
        (255, 1.0),  # 255 * 2 / 256 / 2 is less than 1
        (256, 1.0),
        (257, 1.0),
        (300, 1.0),
    ],
)
def test_fast_convolutions_by_the_size_of_the_kernel(kernel, part):
    assert fewest_products(one_axis(1000, kernel, 1001 - kernel), True) == pytest.approx(part)


def test_the_longest_kernel_whose_taps_are_counted():
    for kernel, expected in ((MOST_TAPS, 1 / MOST_TAPS), (MOST_TAPS + 1, 1.0)):
        layer = one_axis(1, kernel, 1, padding=(0,), kernel=(kernel,))
        assert fewest_products(layer, False) == pytest.approx(expected)


def test_a_convolution_that_only_reads_padding_counts_whole():
    assert fewest_products(one_axis(4, 2, 1, padding=(9,), kernel=(2,)), False) == 1.0


def test_a_convolution_over_no_axis_and_a_gradient_without_its_weight():
    x = Tensor((2, 3))
    assert fewest_products(Layer("conv", {"x": x, "w": Tensor((4, 3))}, [Tensor((2, 4))]), False) == 1.0
    y, w = Tensor((1, 4, 6)), Tensor((4, 4, 3))
    settings = {"kernel": (3,), "stride": (1,), "padding": (1,), "dilation": (1,)}
    layer = Layer("conv_backward", {"dy": y, "x": y}, [Tensor((1, 4, 6)), Tensor((1, 4, 5)), w], settings)
    assert fewest_products(layer, False) == pytest.approx((3 * 6 - 2) / 18)
    del settings["kernel"]
    assert fewest_products(Layer("conv_backward", {"dy": y, "x": y}, layer.outputs, settings), False) == pytest.approx(
        16 / 18
    )


# The roofline


def group(seconds, calls=()):
    return SimpleNamespace(bound_seconds=seconds, binds="dram", calls=calls)


def dot(x, y):
    return Dot(group(1.0), 10.0**x, 10.0**y)


def roof(y, is_memory=False):
    return Roof("dram", "", 10.0**y, is_memory)


@pytest.mark.parametrize(
    ("dots", "roofs", "frame"),
    [
        # 0.3 to the left, 0.2 to the right, 0.2 below and above, and roofs of engines only
        ([dot(0.31, 5.21), dot(3.79, 8.79)], [], (0, 4, 5, 9)),
        ([dot(0.29, 5.19), dot(3.81, 8.81)], [], (-1, 5, 4, 10)),
        ([dot(0.5, 5.5)], [roof(8.1), roof(12.0, True)], (0, 2, 5, 9)),
        ([dot(0.5, 5.5)], [roof(2.0), roof(12.0, True)], (0, 2, 1, 6)),
        ([dot(0.5, 5.5)], [], (0, 2, 5, 7)),
        ([dot(-1.5, -2.5)], [], (-2, 0, -3, -1)),
    ],
)
def test_the_frame_holds_all_dots_and_engines(dots, roofs, frame):
    assert _frame(dots, roofs) == frame


def test_labels_of_powers_and_ends_of_diagonal_roofs():
    """The plot covers 0.01 to 1000 FLOP per byte and 1 to 1e5 FLOP/s; 7 bytes per second reach 1 at 1/7."""
    drawn = shapes([dot(-1.5, 0.5), dot(2.5, 4.5)], [roof(log10(7), True)])
    for x, label in ((20, "0.1"), (40, "1"), (60, "10"), (80, "100")):
        assert f"<text x='{x:.2f}%' y='98%' text-anchor='middle'>{label}</text>" in drawn
    x = 20 * (log10(1 / 7) + 2)
    end = 92 * (5 - log10(7000)) / 5
    assert f"<line class='roof dram' x1='{x:.2f}%' y1='92.00%' x2='100.00%' y2='{end:.2f}%'>" in drawn


@pytest.mark.parametrize(
    ("value", "text"), [(0.5, "0.5 "), (1.0, "1 "), (999.0, "999 "), (1000.0, "1 K"), (2e6, "2 M"), (1e15, "1 P")]
)
def test_amounts_have_prefixes(value, text):
    assert amount(value) == text


def run(*calls):
    """A run of calls with given costs: operator, dtype, operations and how often each runs."""
    records = []
    for i, (op, dtype, counted, times) in enumerate(calls):
        tensor = Tensor((1000,), dtype)
        layer = Layer(op, {"x": tensor}, [tensor])
        made = Cost(counted, 4000, 4000, {}, counted.fma)
        records.append(CallCost(Call(layer, op, name=f"{op}-{i}", inputs=(1,), outputs=(i + 2,), times=times), made))
    return Report(Trace(tuple(records), Run()))


def test_the_dtypes_of_roofs_have_the_most_operations_of_all_executions():
    """30 products in float16, three times ten, and 20 in int8; 33 sums in float32, and 20 multiply-adds in float16."""
    products = run(("linear", "float16", Operations(fma=10), 3), ("linear", "int8", Operations(fma=20), 1))
    labels = [each.label for each in roofs_of(products.time(TOY)) if each.binds == "matrix"]
    assert labels == ["8 TFLOP/s, float16", "16 TFLOP/s, int8"]
    others = run(("add", "float32", Operations(add=11), 3), ("lerp", "float16", Operations(fma=20), 1))
    labels = [each.label for each in roofs_of(others.time(TOY)) if each.binds == "vector"]
    assert labels == ["1 TFLOP/s, float32", "2 TFLOP/s, float16"]


def test_groups_below_a_tenth_of_the_largest_and_below_a_share_of_all_have_no_dot(monkeypatch):
    """Of 10**9 and n operations a ten thousandth are about 10**5. Of 30 groups a tenth of all is more than any."""

    def dots(*counts):
        return len(dots_of(run(*[("add", "float32", Operations(add=n), 1) for n in counts]).time(TOY)))

    assert (dots(10**9, 99_000), dots(10**9, 101_000)) == (1, 2)
    monkeypatch.setattr("costcore.analyses.timing.roofline.LEAST_SHARE", 0.1)
    assert dots(*[1000] * 30, 99, 101) == 31


def test_a_legend_has_what_binds_and_takes_time():
    """The weights of a million elements come from memory, but its slow engine takes longer."""
    time = net(dense("a", 1000), framework="torch").time(device(peak={"vector": {"float32": 0.001}}))
    assert time.whole_run.binds == "dram" and time.beyond_groups == 0.0
    assert [name for name, _ in legend(time, [])] == ["vector"]


# Tables


def test_shares_below_half_a_percent_are_not_named():
    assert shares_of({"dram": 0.995, "vector": 0.005}) == "dram 100%, vector 0%"
    assert shares_of({"dram": 0.9951, "vector": 0.0049}) == "dram"
    assert shares_of({}) == ""


def test_others_of_unknown_values_are_unknown():
    assert others_of([{"bound_seconds": None}, {"bound_seconds": None}])["bound_seconds"] is None
    assert others_of([{"bound_seconds": None}, {"bound_seconds": 2.0}])["bound_seconds"] == 2.0
    assert others_of([{"bound_seconds": 0.0}, {"bound_seconds": 0.0}])["bound_seconds"] == 0.0


def test_the_row_of_the_whole_run_has_no_groups_and_no_flops():
    time = net(*(dense(name, 400) for name in "abcd"), framework="torch").time(TOY)
    row = entries(time)[-1]
    assert (row["name"], row["n_groups"], row["n_layers"], row["flops"], row["mrw"]) == ("whole run", 0, 0, 0, 0)
    assert summary(time)[-1]["bound_seconds"] == pytest.approx(1.5616e-6 - 4 * 0.32e-6)


def test_the_dtype_of_a_group_is_that_of_its_first_output():
    layer = Layer("cast", {"x": Tensor((8,))}, [Tensor((8,), "float16")])
    other = Layer("print", {"x": Tensor((8,), "int8")}, [])
    records = [
        CallCost(Call(each, each.op, name=each.op), Cost(Operations(add=8), 32, 16, {})) for each in (layer, other)
    ]
    assert [row["dtype"] for row in entries(Report(Trace(tuple(records), Run())).time(TOY))] == ["float16", "int8"]


def test_rows_of_devices_are_multiples_of_the_fastest():
    slow, fast = device(memory=Memory(2.0)), device(memory=Memory(8.0))
    run_of = net(dense("a", 1000))
    rows = device_rows([run_of.time(each) for each in (slow, fast, Device("blank", "npu"))])
    assert [row["ratio"] for row in rows] == [pytest.approx(4.0), pytest.approx(1.0), None]


def lines_of(times, **options):
    stream = StringIO()
    show_devices(times, stream, **options)
    return stream.getvalue()


def test_times_a_thousand_times_apart_share_a_unit_and_more_do_not():
    """A billion bytes, 16 of which are read, at 1000 and 1 GB/s, and at a little less."""
    made = net(Step("copy", mread=16, mwrite=10**9 - 16))
    fast = made.time(device(memory=Memory(1000.0)))
    near, far = (made.time(device(memory=Memory(rate))) for rate in (1.0, 0.9995))
    assert " ms," not in lines_of([fast, near], mode="csv").splitlines()[1]
    assert " ms," in lines_of([fast, far], mode="csv").splitlines()[1]
    unknown = made.time(Device("blank", "npu"))
    assert "unknown" in lines_of([unknown], mode="csv")


def test_remarks_of_devices_are_those_of_the_first_run():
    first, second = net(dense("a")).time(TOY, fusion="pointwise"), net(dense("a")).time(TOY)
    assert "pointwise fusion" in comparison_remarks([first, second])[0]


def test_up_to_five_names_are_listed():
    for n, more in ((5, ""), (6, " and 1 more"), (7, " and 2 more")):
        names = "abcdefg"[:n]
        timed = net(dense("x", 1000), *(relu(name, 8) for name in names), framework="torch").time(TOY)
        found = timed.compare(net(dense("x", 1000, seconds=1e-3)))
        listed = ", ".join(f"relu-{i + 1}" for i in range(min(n, 5)))
        assert f"not measured, or with another operator, other shapes or dtypes: {listed}{more}" in found.remarks


def test_shares_of_nothing_are_nothing():
    found = net(dense("a", 8), framework="torch").time(TOY).compare(net(dense("a", 8, seconds=0.0)))
    (entry,) = found.to_dict()["groups"]
    assert (entry["measured%"], entry["bound/measured%"]) == (0.0, 0.0)


def test_a_group_that_takes_exactly_its_bound_is_not_below_it():
    assert not TimedGroup("a", "a", "a", "", 2.0, None, 2.0).is_below_bound
    assert TimedGroup("a", "a", "a", "", 1.9, None, 2.0).is_below_bound
    assert not TimedGroup("a", "a", "a", "", 0.0, None, None).is_below_bound


def test_without_a_prediction_a_group_is_off_by_what_it_takes_beyond_its_bound():
    assert TimedGroup("a", "a", "a", "", 5.0, None, 2.0).error == 3.0
    assert TimedGroup("a", "a", "a", "", 5.0, None, None).error == 5.0
    assert TimedGroup("a", "a", "a", "", 5.0, 9.0, 2.0).error == 4.0


def test_the_row_of_other_types_has_their_share():
    """Of 14 types of 1000 sums each 12 are shown: others are 2 of 14."""
    steps = (Step("relu", f"m{n}", add=1000, shape=(1, 8), type=f"t{n:02}") for n in range(1, 15))
    section = time_section(net(*steps).time(device(memory=Memory())))
    assert "<td>others</td><td class='n'></td><td class='n'>4.000 ns</td><td class='n'>14.3%</td>" in section


# Work and bounds


def test_the_shortest_kernel_counts_nine_tenths_only_if_it_is_known():
    assert bound_of(Work(), 8.0, 0.0, device(memory=Memory(), least_kernel_us=2.0), True).seconds == pytest.approx(
        1.8e-6
    )
    assert bound_of(Work(), 8.0, 0.0, device(memory=Memory()), True).seconds == 0.0


def test_work_is_scaled_by_how_often_it_is_done():
    assert Work(1.0, 2.0, 3.0, 4.0, 5.0).scaled(3) == (3.0, 6.0, 9.0, 12.0, 15.0)


def test_a_mask_excludes_other_work_but_a_convolution_excludes_products_only():
    """A causal mask of 4 by 4 allows 10 of 16 pairs; of 3 taps on 4 positions beside padding, 10 of 12."""
    x = Tensor((4, 8))
    layer = Layer("attention", {"q": x, "k": x, "v": x}, [x], {"causal": True})
    made, _ = needs_of(layer, Cost(Operations(fma=1600, special=160), 0, 0, {}, 1600), TOY)
    assert made.multiply == pytest.approx(1000 * 2e-12)
    assert made.special == pytest.approx(100 / (1e11 + 1.25e11))
    plain = one_axis(4, 3, 4, padding=(1,), kernel=(3,), stride=(1,), dilation=(1,))
    made, _ = needs_of(plain, Cost(Operations(fma=1200, add=120), 0, 0, {}, 1200), device(fast_convolution=False))
    assert (made.multiply, made.add) == (pytest.approx(1000 * 2e-12), pytest.approx(120 * 2e-12))


def test_the_vector_engine_multiplies_if_it_is_as_fast():
    layer = Layer(
        "linear", {"x": Tensor((4, 8), "float16"), "w": Tensor((4, 8), "float16")}, [Tensor((4, 4), "float16")]
    )
    counted = Cost(Operations(fma=1000), 0, 0, {}, 1000)
    for rate, matrix in ((2.0, 0.0), (2.5, 2000 / 2.5e12)):
        on = device(peak={"matrix": {"float16": rate}, "vector": {"float16": 2.0}})
        assert needs_of(layer, counted, on)[0].matrix == pytest.approx(matrix)
    on = device(peak={"matrix": {"float16": 0.5}})
    assert needs_of(layer, counted, on)[0].matrix == pytest.approx(2000 / 0.5e12)


def test_indices_alone_are_what_is_computed():
    layer = Layer("linear", {"x": Tensor((4, 8), "int64"), "w": Tensor((4, 8), "float16")}, [Tensor((4, 4))])
    assert product_dtype(layer) == "float16"
    only = Layer("linear", {"x": Tensor((4, 8), "int64"), "w": Tensor((4, 8), "int32")}, [Tensor((4, 4))])
    assert product_dtype(only) == "int32"


def test_of_a_pooling_every_element_takes_part_once():
    """Windows of 9 on 100 elements, 900 comparisons: 100 / 900 are needed; of a sparse one with 40 all of them."""
    x = Tensor((100,))
    layer = Layer("max_pool", {"x": x}, [Tensor((50,))])
    assert needed_part(layer, Cost(Operations(cmp=900), 0, 0, {})) == pytest.approx(1 / 9)
    assert needed_part(layer, Cost(Operations(cmp=40), 0, 0, {})) == 1.0
    assert needed_part(layer, Cost(Operations(), 0, 0, {})) == 1.0
    assert needed_part(layer, Cost(Operations(fma=200), 0, 0, {})) == pytest.approx(0.5)  # an fma is one operation
    assert needed_part(Layer("relu", {"x": x}, [x]), Cost(Operations(cmp=900), 0, 0, {})) == 1.0
    assert needed_part(Layer("sort", {"x": x}, [x]), Cost(Operations(cmp=900), 0, 0, {})) == 0.0
    made, _ = needs_of(layer, Cost(Operations(cmp=900), 0, 0, {}), TOY)
    assert made.compare == pytest.approx(100 * 2e-12)
    search = Layer("sort", {"x": x}, [x])
    assert needs_of(search, Cost(Operations(fma=900, cmp=9), 0, 0, {}, 900), TOY)[0] == Work()


# Bytes from outside


def test_views_rename_what_they_read_and_other_calls_produce():
    calls = Calls()
    w = calls.given(10, 10, role="param")
    part = calls("view", w, shape=(5, 10))
    made = calls("add", part, calls.given(5, 10))
    calls("add", calls("view", made, shape=(50,)), calls.given(50))
    assert bytes_from_outside([*values_of(calls.trace())]) == 4 * (50 + 50 + 50)
    calls("add", w, w)
    calls("add", calls.given(0), calls.given(0))
    assert bytes_from_outside([*values_of(calls.trace())]) == 4 * (100 + 50 + 50)


def test_a_call_without_a_cost_or_operands_produces_its_outputs():
    x = Tensor((10,))
    records = [
        CallCost(Call(Layer("mystery", {}, [x]), "m", name="m", outputs=(5,)), None),
        CallCost(Call(Layer("full", {}, [x]), "f", name="f", outputs=(6,)), Cost(Operations(), 0, 40, {})),
        CallCost(Call(Layer("empty", {}, [x]), "e", name="e", outputs=(7,)), Cost(Operations(), 0, 0, {})),
        CallCost(
            Call(
                Layer("sum", {"x0": x, "x1": x, "x2": x, "x3": x}, [x]),
                "s",
                name="s",
                inputs=(5, 6, 7, 8),
                outputs=(9,),
            ),
            Cost(Operations(add=30), 160, 40, {}),
        ),
    ]
    assert bytes_from_outside([*values_of(Trace(tuple(records), Run()))]) == 40


@pytest.mark.parametrize(("read", "table"), [(0, 0), (20, 0), (300, 280), (500, 480), (520, 480)])
def test_what_a_call_does_not_read_is_of_its_largest_operand(read, table):
    """Of a table of 480 B and 20 B of indices, which another call makes, 500 B less what is read are of the table.

    A call that reads an operand twice needs no more of it.
    """
    index, w, y = Tensor((5,), "int32"), Tensor((30, 4), role="param"), Tensor((5, 4))
    records = [
        CallCost(Call(Layer("arange", {}, [index]), "a", name="a", outputs=(5,)), Cost(Operations(), 0, 20, {})),
        CallCost(
            Call(Layer("embedding", {"w": w, "x": index}, [y]), "e", name="e", inputs=(1, 5), outputs=(6,)),
            Cost(Operations(), read, 80, {}),
        ),
    ]
    assert bytes_from_outside([*values_of(Trace(tuple(records), Run()))]) == table


def test_a_value_of_one_byte_comes_from_outside():
    x = Tensor((1,), "int8")
    record = CallCost(
        Call(Layer("neg", {"x": x}, [x]), "n", name="n", inputs=(1,), outputs=(2,)), Cost(Operations(add=1), 1, 1, {})
    )
    assert bytes_from_outside([*values_of(Trace((record,), Run()))]) == 1


# Communication


def reduced(nbytes=4000, times=3, group="tp"):
    layer = Layer(
        "all_reduce", {"x0": Tensor((nbytes // 4,))}, [Tensor((nbytes // 4,))], {"group_size": 4, "group": group}
    )
    sent = Cost(Operations(add=1), nbytes, nbytes, {}, mcomm=nbytes)
    return CallCost(Call(layer, "all_reduce", name=f"r-{group}", times=times), sent)


def test_communication_is_stated_by_group():
    trace = Trace((reduced(), reduced(8000, 1, "dp")), Run())
    time = Report(trace).time(TOY, links={"tp": Link("slow", 1.0, 2.0)})
    assert time.communication_seconds is None
    lines = [line for line in time.remarks if line.startswith("communication")]
    assert lines[0] == "communication: unknown, if no computation overlaps it; it is not part of the bound"
    assert lines[1].startswith("communication, tp of 4: ") and lines[1].endswith(" over slow, 3 calls, 12,000 B sent")
    assert lines[2] == "communication, dp of 4: no link stated (links=…), 1 call, 8,000 B sent"
    (tp, dp) = time.to_dict()["communication"]["groups"]
    assert tp["link"]["name"] == "slow" and dp["link"] is None
    both = Report(trace).time(TOY, links={"": Link("slow", 1.0, 2.0)})
    assert both.communication_seconds == pytest.approx(sum(each.seconds for each in both.communications))
    assert Report(Trace((), Run())).time(TOY).communication_seconds == 0.0


# Calibrations


def test_float32_products_of_a_recorded_run_may_be_rounded_if_some_were():
    trace = traces.run(dtype="float32", tf32=True)
    assert Report(trace).time(TOY).tf32 == ("conv", "matmul")
    assert Report(trace).time(TOY, tf32=()).tf32 == ()


def test_kernels_at_their_limits():
    """Copies of exactly half of the time count, and calls that take exactly as long as their bound."""
    base = traces.run()
    assert traces.of(traces.changed(base, 1, aside=1000)).left_out == {}
    assert traces.of(traces.changed(base, 1, aside=1001)).left_out == {COPIED: 1}
    bound = Times(base, traces.L4, "none", ()).groups[23].bound_seconds * 1e9
    least = int(bound) + 1
    assert traces.of(traces.changed(base, 23, device=least)).left_out == {}
    assert traces.of(traces.changed(base, 23, device=least - 1)).left_out == {BELOW: 1}


def test_eight_points_are_enough_and_calls_of_loops_count_once():
    calls = [traces.scaled(n) for n in traces.SIZES[:8]]
    made = traces.profiled(traces.trace_of(*calls), [9000] * 8).trace
    assert len(traces.of(made).calibration.points) == 8
    looped = replace(
        made, records=tuple(record._replace(call=record.call._replace(times=3)) for record in made.records)
    )
    assert {point.seconds for point in traces.of(looped).calibration.points} == {3e-6}


def test_free_calls_are_neither_points_nor_left_out_and_units_divide_products():
    layer = Layer("view", {"x": Tensor((64,), "bfloat16")}, [Tensor((8, 8), "bfloat16")])
    view = Call(layer, type="view", native="aten::view"), Cost(Operations(), 0, 0, {})
    calls = [view, *(traces.scaled(n) for n in traces.SIZES)]
    made = traces.profiled(traces.trace_of(*calls), [0] + [9000] * 12).trace
    found = calibration_of([made], ["a"], replace(traces.L4, units=7))
    assert found.left_out == {} and len(found.calibration.points) == 12
    assert found.calibration.rates.units == 7
    assert calibration_of([made], ["a"], replace(traces.L4, units=None)).calibration.rates.units == 0


def test_the_device_is_the_one_that_a_trace_names():
    named, unnamed = traces.run(device="A"), traces.run(1.1, device="")
    assert calibration_of([unnamed, named], ["a", "b"], traces.L4).conditions.device == "A"
    assert calibration_of([unnamed], ["a"], traces.L4).conditions.device == traces.L4.name


def point(family="relu", kind="arithmetic", axes=(1.0,), seconds=1e-6, flops=8.0, nbytes=8.0, dtype=""):
    return Point(OpSignature(family, kind, axes, flops, nbytes, dtype), seconds)


def test_the_best_rates_of_a_sweep_are_quotients():
    """10 FLOP in 2 s are 5 per second, 6 in 3 s are 2; 4 bytes in 2 s are 2, 12 in 3 s are 4."""
    found = Rates.of([point(seconds=2.0, flops=10.0, nbytes=4.0), point(seconds=3.0, flops=6.0, nbytes=12.0)])
    assert found == (2.0, 5.0, 4.0, 0)


def test_calls_of_another_dtype_help_unless_they_are_products():
    errors = Errors({"relu float16": ((0.0, Error(0.1, 0.2)), (9.0, Error(0.3, 0.4)))}, {})
    known = [point(dtype="float16"), point("linear", "product", (1.0,), dtype="float16")]
    calibration = Calibration(known, errors)
    assert calibration.dtypes == {"float16"}
    found = calibration.estimate(point(dtype="float32").site)
    assert found.distance == APART and found.error is not None
    assert calibration.estimate(point("linear", "product", (1.0,), dtype="float32").site).distance is None
    assert Calibration([point(dtype="float16"), point()], errors, dtype="bfloat16").dtypes == {"float16", "bfloat16"}


def test_the_error_between_two_distances():
    errors = Errors({"relu": ((0.0, Error(0.1, 0.2)), (2.0, Error(0.3, 0.4)), (2.0, Error(0.5, 0.6)))}, {})
    assert errors.of(point().site, 2.0) == Error(0.5, 0.6)


@pytest.mark.parametrize(
    ("row", "is_valid"),
    [
        ([1e-15, 1.0, 1.0], True),
        ([9e-16, 1.0, 1.0], False),
        ([1.0, 1e30, 1.0], True),
        ([1.0, 1.1e30, 1.0], False),
        ([1.0, 1.0, 1.0, 200.0], True),
        ([1.0, 1.0, 1.0, 200.5], False),
        ([1.0, 1.0], False),
        ([0.0, 1.0, 1.0], False),
        ([1.0, 0.0, 0.0, 0.0], True),
        ([1.0, -1.0, 1.0], False),
    ],
)
def test_limits_of_the_numbers_of_a_file(row, is_valid):
    family = {"name": "relu", "kind": "arithmetic", "errors": [], "points": [row]}
    made = {**table(), "family": [family]}
    if is_valid:
        assert from_table(made, "file")[0].points[0].seconds == row[0]
    else:
        with pytest.raises(CalibrationError):
            from_table(made, "file")


def test_a_curve_is_where_the_misfit_is_least():
    """Without points it is the usual one; 60 kernels of 7 µs and a third of the bandwidth decide both numbers."""
    on = Device("toy", "gpu", memory=Memory(1000))
    sites = [point("copy", "move", nbytes=2.0**i, flops=0.0).site for i in range(10, 34)]
    made = [Point(site, 7e-6 + 3 * site.nbytes / 1e12) for site in sites]
    (start, part) = Curves(made, on).of_kind("move")
    assert start == pytest.approx(7e-6, rel=0.06) and part == pytest.approx(1 / 3, rel=0.06)
    slow = [Point(site, 0.6e-6 + site.nbytes / 0.9e12) for site in sites]
    (start, part) = Curves(slow, on).of_kind("move")
    assert start == pytest.approx(0.6e-6, rel=0.06) and part == pytest.approx(0.9, rel=0.06)
    assert Curves([], on).of_kind("move") == USUAL["move"]


def test_products_of_integers_have_the_dtypes_of_their_tensors():
    x = Tensor((8,), "int8")

    def of(op, macs, dtype="int8"):
        tensor = Tensor((8,), dtype)
        made = Cost(Operations(fma=8), 8, 8, {}, macs)
        layer = Layer(op, {"x": x}, [tensor])
        (found,) = Report(Trace((CallCost(Call(layer, op, name=op), made),), Run())).time(TOY).groups
        return float_dtypes(found)

    assert of("linear", 8) == {"int8"}
    assert of("linear", 8, "float16") == {"float16"}
    assert of("add", 0) == set()


def estimated(op, seconds, distance, n_calls=1):
    """A group of the toy calibration that takes so long, and whose nearest point is so far away."""
    made = SimpleNamespace(calls=[None] * n_calls, main=SimpleNamespace(layer=SimpleNamespace(op=op)))
    return Estimated(made, seconds, point(op).site, Estimate(seconds, Error(0.1, 0.2), distance))


def test_remarks_name_what_is_far_and_how_much_of_the_time_it_is():
    trace = Trace((), Run(frameworks={"torch": "2.13.0"}))

    def lines(*estimates):
        return [*_remarks(estimates, 0.1, CONDITIONS, trace)][1:]

    assert lines(estimated("relu", 1.0, 4.0)) == []
    assert lines(estimated("relu", 1.0, 4.1), estimated("exp", 99.0, 0.0)) == [
        "far from the measured calls (1% of the time): relu"
    ]
    assert lines(estimated("relu", 0.9, 4.1), estimated("exp", 99.1, None)) == [
        "estimated from other operators (99% of the time): exp",
        "far from the measured calls (less than 1% of the time): relu",
    ]
    fused = "calibrated on single calls: the time of fused groups is approximate"
    assert lines(estimated("relu", 1.0, 0.0, n_calls=2)) == [fused]
    assert lines(estimated("relu", 1.0, 0.0, n_calls=3), estimated("exp", 1.0, 0.0)) == [fused]


def test_far_points_count_up_to_as_far_from_the_nearest_as_from_the_call():
    """The nearest of a call at (0, 0) is at (2, 0); (1, 3) is as far from both, (0.9, 3) nearer to the call."""

    def mean(x):
        points = [((9.0, 0.0), 0.0)] * 4 + [((2.0, 0.0), 1.0), ((x, 3.0), 5.0)]
        return [*_estimates_by_distance((0.0, 0.0), points, 0)][1]

    both = (1.0 / 4.05 + 5.0 / (10 + 0.05)) / (1 / 4.05 + 1 / 10.05)
    assert mean(1.0) == pytest.approx(both)
    assert mean(0.9) == pytest.approx(1.0)


# Dtypes


def test_a_layer_of_integers_stays_the_same_object():
    x = Tensor((8,), "int8")
    same = Layer("add", {"x0": x, "x1": x}, [x])
    assert layer_at(same, "float16") is same
    cast = Layer("cast", {"x": x}, [Tensor((8,))])
    assert [layer_at(cast, "float16").out.dtype, layer_at(cast, "float16") is cast] == ["float16", False]
    back = Layer("cast", {"x": Tensor((8,))}, [x])
    assert layer_at(back, "float16")["x"].dtype == "float16"
    assert layer_at(Layer("cast", {"x": x}, [Tensor((8,), "float16")]), "float16").out.dtype == "float16"


def test_what_is_measured_of_a_call_stays_with_another_dtype():
    x = Tensor((8,))
    record = CallCost(Call(Layer("add", {"x": x}, [x]), "a", name="a"), None, seconds=3.0)
    (found,) = retyped(Trace((record,), Run()), "float16")
    assert found.seconds == 3.0 and found.call.layer.out.dtype == "float16" and found.cost is None
    same = CallCost(
        Call(Layer("add", {"x": Tensor((8,), "int8")}, [Tensor((8,), "int8")]), "a", name="a"), Cost(1, 8, 8, {})
    )
    assert [*retyped(Trace((same,), Run()), "float16")] == [same]


def test_bytes_of_a_layer_without_operands_stay():
    layer = Layer("opaque::make", {}, [Tensor((8,))])
    record = CallCost(Call(layer, "make", name="make"), Cost(Operations(add=1), 100, 32, {}))
    (found,) = retyped(Trace((record,), Run()), "float16")
    assert (found.cost.mread, found.cost.mwrite) == (100, 16)
    n = sympy.Symbol("n", integer=True, positive=True)
    sized = Layer("opaque::make", {"x": Tensor((n,))}, [Tensor((8,))])
    record = CallCost(Call(sized, "make", name="make"), Cost(Operations(add=1), 100, 32, {}))
    (found,) = retyped(Trace((record,), Run()), "float16")
    assert (found.cost.mread, found.cost.mwrite) == (100, 16)


# Integer devices


def test_words_of_integer_devices():
    npu = Device("npu", "npu", peak={"matrix": {"int8": 1.0, "int4": 2.0, "int16": 0.5}}, unbounded=("vector", "dram"))
    (line,) = unknown_rates(net(dense("a", 8)).time(npu))
    assert line.startswith("partial: npu computes int8, int4 and int16 only; the run has float32: quantize the model")
    one = replace(npu, peak={"matrix": {"int8": 1.0}})
    assert "computes int8 only" in unknown_rates(net(dense("a", 8)).time(one))[0]


def test_a_calibration_of_nothing_is_refused():
    with pytest.raises(CostError):
        calibration_of([], [], traces.L4)


# Quantities and defaults


@pytest.fixture
def on_device(monkeypatch):
    """Have one name stand for a device, which quantities take by its name."""

    def put(one):
        for place in ("devices.device", "timing.times"):
            monkeypatch.setattr(f"costcore.analyses.{place}.find_device", lambda _: one)

    return put


def test_the_calibrated_time_of_calls_is_their_sum(on_device):
    """Both activations take the 1 µs that was measured; of a product in another dtype nothing is known."""
    on_device(calibrated_device())
    ledger = net(relu("a", 1024), relu("b", 1024), framework="torch").ledger
    asked = quantity("calibrated_seconds@toy")
    assert asked.of(ledger, ledger.calls) == asked.total(ledger) == pytest.approx(2e-6)
    assert asked.of(ledger, ledger.calls[:1]) == pytest.approx(1e-6)
    assert asked.of(ledger, []) == 0.0
    half = quantity("calibrated_seconds@toy:float16")
    mixed = net(relu("a", 1024), dense("b", 1024), framework="torch").ledger
    assert half.of(mixed, mixed.calls) is None


def test_a_device_that_was_never_calibrated_has_no_calibrated_time(on_device):
    on_device(TOY)
    ledger = net(relu("a", 1024)).ledger
    for calls in (ledger.calls, []):
        with pytest.raises(CostError, match="toy was not calibrated: run costcore calibrate on it, and name its file"):
            quantity("calibrated_seconds@toy").of(ledger, calls)


def test_what_binds_calls_is_unknown_only_if_there_are_calls(on_device):
    on_device(TOY)
    ledger = net(relu("a", 1000), dense("b", 1000)).ledger
    asked = quantity("binds@toy")
    assert [asked.of(ledger, [each]) for each in ledger.calls] == ["vector", "dram"]
    assert asked.of(ledger, []) == ""
    on_device(Device("blank", "npu"))
    blank = net(relu("a", 1000), dense("b", 1000)).ledger
    assert [asked.of(blank, blank.calls), asked.of(blank, [])] == ["unknown", ""]


def test_ten_calls_are_compared_by_default():
    """12 products that took 1 to 12 µs longer than their bounds."""
    timed = net(*(dense(f"m{i}", 1000) for i in range(12)), framework="torch").time(TOY)
    found = timed.compare(net(*(dense(f"m{i}", 1000, seconds=(4 + i) * 1e-6) for i in range(12))))
    assert [group.name for group in found.worst()] == [f"linear-{i}" for i in range(12, 2, -1)]
    stream = StringIO()
    found.show(stream, "csv", by="call")
    assert len(stream.getvalue().splitlines()) == 1 + 10 + 1
    found.show(whole := StringIO())
    assert whole.getvalue().strip() == str(found).strip()


def test_a_call_without_a_cost_reads_no_more_than_its_operands():
    """The call that is counted reads its operand of 40 bytes once more."""
    x = Tensor((10,))
    twice = CallCost(Call(Layer("mean", {"x": x}, [x]), "m", name="m", outputs=(5,)), Cost(Operations(), 80, 40, {}))
    unknown = CallCost(Call(Layer("mystery", {"x": x}, [x]), "u", name="u", outputs=(6,)), None)
    assert [*_beyond_operands(Trace((unknown, twice), Run()))] == [0, 40]


def test_the_bytes_of_a_fused_group_are_those_of_one_execution():
    """Two calls of a loop that runs 3 times, which read 60 and write 30 bytes in all: 30 a time."""
    calls = Calls()
    x = calls.given(4)
    calls("relu", calls("exp", x))
    one, two = calls.trace().records
    group = SimpleNamespace(records=(one, two), main=one.call, read=60, written=30, times=3)
    assert _site_of_group(group).nbytes == 30


def test_no_dot_lies_above_a_roof():
    """A convolution by Winograd's algorithm, whose operands fit the cache, beside a fused sum of another dtype.

    Definition: 2 * 2304 * 16 * 32 * 32 FLOP. F(6x6, 3x3) needs 64 products for 36 outputs of 9 each: 81 / 16 = 5.0625
    times fewer. So the bound is shorter than the FLOP of the definition take at the peak, but the dot is on the roof.
    """
    image, weight = Tensor((1, 16, 34, 34), "float16"), Tensor((16, 16, 3, 3), "float16", "param")
    out = Tensor((1, 16, 32, 32), "float16")
    layer = Layer("conv", {"x": image, "w": weight}, [out], {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1)})
    macs = out.size * 16 * 9
    cost = Cost(Operations(fma=macs), image.nbytes + weight.nbytes, out.nbytes, {}, macs)
    sums = run(("add", "float32", Operations(fma=10**5), 1)).trace.records
    conv = CallCost(Call(layer, "conv", name="conv", inputs=(1, 2), outputs=(3,)), cost)
    times = Report(Trace((conv, *sums), Run())).time(TOY)
    for each in dots_of(times):
        highest = max(roof.rate for roof in roofs_of(times) if roof.binds == each.group.binds)
        assert each.rate <= highest * (1 + 1e-12)
        assert each.rate <= 1e12 * each.intensity * (1 + 1e-12)  # memory
    fast = next(each for each in dots_of(times) if each.group.name == "conv")
    assert fast.group.bound_seconds == pytest.approx(2 * macs / 5.0625 / 8e12)
    assert fast.rate == pytest.approx(8e12)


def test_a_measured_run_has_the_rates_that_were_measured():
    """10**6 additions in 4 µs are 2.5e11 FLOP/s; the bound is 2 µs. On another device it is that of the bound."""
    (record,) = run(("add", "float32", Operations(add=10**6), 1)).trace
    profile = Profile("NVIDIA L4", "device", 4000, 0, {0: CallTime(4000, 0, 4000, 1)})
    report = Report(Trace((record,), Run().recording(profile=profile)))
    (measured,) = report.plot("roofline", device=device(name="l4"))
    assert measured[2] == pytest.approx(10**6 / 4e-6) and measured[5] == pytest.approx(4e-6)
    assert measured[1] == pytest.approx(10**6 / 8000)
    (bound,) = report.plot("roofline", device=TOY)
    assert len(bound) == 5 and bound[2] == pytest.approx(10**6 / 2e-6)
    assert "measured FLOP per second" in report.time(device(name="l4")).to_svg()
