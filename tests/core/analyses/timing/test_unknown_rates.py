"""What a device file does not state is unknown, not a time of 0."""

import json
from io import StringIO

import pytest

from costcore import CostError
from tests.core.analyses.timing.toy_device import (
    Device,
    Memory,
    calibrated_device,
    device,
    devices,
    find_device,
    retyped,
)
from tests.core.given_costs import Step, dense, net, relu

NETWORK = net(dense("a", 1000), relu("b", 1000))
COPY = net(Step("concat", mread=4000, mwrite=4000))
NPU = Device("npu", "npu", peak={"matrix": {"int8": 1.0}}, unbounded=("vector", "dram"))
"""1e12 operations of int8 products; what else it does, it does beside them."""


def of(dtype, report=NETWORK):
    return type(report)(retyped(report.trace, dtype))


def test_a_device_of_which_nothing_is_known_has_no_bound():
    time = NETWORK.time(Device("blank", "npu"))
    assert (time.bound_seconds, time.status) == (None, "partial")
    assert repr(time) == "<TimeReport: blank, at least unknown, partial>"
    assert "blank: unknown, not part of the bound: the peak of its vector engine, its memory bandwidth" in (
        time.remarks
    )
    assert [(row["bound_seconds"], row["binds"]) for row in (*time.layers(), time.by_type()["total"])] == (
        [(None, "unknown")] * 3
    )
    assert json.loads(time.to_json())["total"]["bound_seconds"] is None
    for unit in (None, "auto", "autoaligned"):
        time.show_report(out := StringIO(), unit=unit)
        assert out.getvalue().count(",unknown,0.0%,unknown\n") == 3
    page = time.to_html()
    assert "<dd>unknown</dd><dd class='note'>one kernel per call, partial</dd>" in page
    with pytest.raises(CostError, match="nothing to draw"):
        time.to_svg()
    assert not NETWORK.plot("roofline", device=Device("blank", "npu"))
    assert "At least  unknown" in str(time)


def test_the_limit_of_a_group_is_its_bound_if_the_bandwidth_is_unknown():
    time = of("int8").time(NPU)
    limits = [time.limit(group) for group in time.groups if group.is_bounded]
    assert limits == [group.bound_seconds for group in time.groups if group.is_bounded] and limits


@pytest.mark.parametrize("name", devices())
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_a_time_of_zero_is_never_complete(name, dtype):
    for report in (NETWORK, net(dense("a", 8))):
        time = report.time(name, dtype=dtype)
        assert (time.status == "partial") == bool(time.missing)
        assert time.bound_seconds or time.status == "partial"


@pytest.mark.parametrize(
    ("changes", "report", "missing"),
    [
        ({}, NETWORK, set()),
        ({"memory": Memory()}, NETWORK, {"memory"}),
        ({"memory": Memory(), "unbounded": ("dram",)}, NETWORK, set()),
        ({"memory": Memory()}, COPY, {"memory"}),
        ({"peak": {}}, COPY, set()),
        ({"peak": {}}, NETWORK, {"float32"}),
        ({"peak": {"matrix": {"float32": 8.0}}}, NETWORK, {"float32"}),  # the activation
        ({"peak": {"matrix": {"float32": 8.0}}}, net(dense("a")), set()),
        ({"peak": {"matrix": {"float32": 8.0}}, "unbounded": ("vector",)}, NETWORK, set()),
        ({"peak": {"matrix": {"float16": 8.0}}, "unbounded": ("vector",)}, NETWORK, {"float32"}),  # the product
        ({"peak": {"vector": {"int8": 8.0}}}, NETWORK, {"float32"}),
        ({"peak": {"vector": {"float16": 8.0}}}, NETWORK, set()),  # float32 is at most as fast
        ({"peak": {"matrix": {"int8": 8.0}, "vector": {"float32": 1.0}}}, of("int8"), set()),
        ({"peak": {"matrix": {"int8": 8.0}}}, of("float8_e4m3fn"), {"float8_e4m3fn"}),  # as wide, but not an integer
    ],
)
def test_a_time_is_partial_if_the_run_needs_what_is_unknown(changes, report, missing):
    time = report.time(device(**changes))
    assert time.missing == missing
    assert time.status == ("partial" if missing else "complete")


def test_what_is_known_still_binds():
    time = NETWORK.time(device(peak={}))
    # 4,004,000 bytes read and 4,000 written; 1 MB of either may be in the cache; the activation fits
    assert time.bound_seconds == pytest.approx(3.004e-6)
    product, activation = time.layers()
    assert (product["binds"], activation["binds"]) == ("dram", "unknown")
    assert activation["bound_seconds"] is None


def test_a_device_of_integers_times_integers():
    time = of("int8").time(NPU)
    assert time.bound_seconds == pytest.approx(2 * 1000**2 / 1e12)
    assert (time.status, time.missing) == ("complete", frozenset())
    assert NETWORK.time(NPU, dtype="int8").bound_seconds == time.bound_seconds


def test_a_device_of_integers_says_what_to_do_with_floating_point_numbers():
    time = NETWORK.time(NPU)
    assert (time.bound_seconds, time.status) == (None, "partial")
    sentence = (
        "npu computes int8 only; the run has float32: quantize the model, or pass dtype='int8' to time it as if "
        "it were quantized"
    )
    assert f"partial: {sentence}" in time.remarks


def test_the_output_stage_of_an_npu_does_not_bind():
    assert find_device("ethos-u55-256").unbounded == ("vector", "dram")
    both = of("int8", net(dense("a"), relu("b"))).time("ethos-u55-256")
    assert [group.bound_seconds for group in both.groups] == [pytest.approx(32 / 0.256e12), 0]
    assert both.status == "complete"


def test_a_run_of_what_is_free_on_a_device_has_no_bound():
    time = of("int8", net(relu("a"))).time("ethos-u55-256")
    assert (time.bound_seconds, time.status) == (None, "partial")
    assert "partial: ethos-u55-256 lists no rate that limits this run" in time.remarks
    views = net(Step("view")).time("ethos-u55-256")  # moves nothing
    assert (views.bound_seconds, views.status) == (0, "complete")


def test_a_calibrated_time_is_complete_without_the_figures_of_a_bound():
    bare = calibrated_device(peak={}, memory=Memory())
    time = NETWORK.time(bare)
    assert time.seconds is not None
    assert (time.bound_seconds, time.status) == (None, "complete")


def test_a_measured_time_has_no_bound_beside_it_if_there_is_none():
    measured = net(dense("a", 1000, seconds=1e-3), relu("b", 1000, seconds=1e-3))
    comparison = NETWORK.time(Device("blank", "npu")).compare(measured)
    assert (comparison.total.bound, comparison.violations) == (None, [])
    assert "At least  unknown" in str(comparison).replace("    ", "  ")
    assert "bound" not in comparison.to_dict()["total"]
    known = NETWORK.time(device(peak={})).compare(measured)  # the product waits for memory
    assert [group.bound for group in known.groups] == [pytest.approx(3.004e-6), None]
    assert known.total.bound == pytest.approx(3.004e-6)
