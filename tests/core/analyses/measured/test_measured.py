"""Measured time, bounds, rates and the parts of the span, on runs made by hand."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest

from costcore import CostError
from costcore.analyses.measured.measured import FUSED_IS_TWO
from tests.core.analyses.measured.runs import BEFORE, linear, profiled, trace_of
from tests.core.traces import Interval, starts

MICROSECOND = 1000
BIG = 1 << 14


def step():
    """Two layers of one class and one of another: 20, 30 and 10 µs, 40 ns of other work, 5 µs of idle time."""
    classes = {"": "Net", "a": "Block", "b": "Block", "c": "Head"}
    run = trace_of(linear(BIG, "a"), linear(BIG, "b", "backward"), linear(8, "c"), classes=classes)
    times = [20 * MICROSECOND, 30 * MICROSECOND, 10 * MICROSECOND]
    return profiled(run, times, idle=5 * MICROSECOND, elsewhere=[BEFORE])


def test_the_parts_add_up_to_the_span_exactly():
    view = step().measured()
    assert view.parts == {"calls": 60_000, "launched before the window": 40, "idle": 5000}
    assert sum(view.parts.values()) == view.profile.span == 65_040
    rows = view.table("class").rows
    assert sum(row["span_seconds"] for row in rows) == pytest.approx(view.profile.span / 1e9, rel=1e-12)


def test_groups_have_rates_bounds_and_lost_time():
    view = step().measured()
    block, head = sorted(view.by("class"), key=lambda group: group.name)
    assert (block.name, block.n_calls, block.seconds) == ("Block", 2, 50e-6)
    assert block.flops == 2 * 2 * BIG * 64 * 64  # a multiply-add is two
    assert block.n_bytes == 2 * 4 * (2 * BIG * 64 + 64 * 64)
    row = next(row for row in view.table("class").rows if row["name"] == "Block")
    assert row["achieved_flops"] == round(block.flops / 50e-6)
    assert row["achieved_bandwidth"] == round(block.n_bytes / 50e-6)
    bounds = [group.bound_seconds for group in step().time("h100-sxm5-80gb").groups]
    assert block.bound == pytest.approx(bounds[0] + bounds[1]) and block.bound > 0
    in_memory = block.n_bytes / 3.35e12  # longer than their products take
    assert block.lost == pytest.approx(50e-6 - in_memory) and block.bound < in_memory
    assert row["of_bound"] == pytest.approx(100 * in_memory / 50e-6)
    assert head.bound == pytest.approx(bounds[2])


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("call", ["linear-2", "linear-1", "linear-3"]),
        ("module", ["b", "a", "c"]),
        ("phase", ["backward", "forward"]),
        ("op", ["linear"]),
        ("type", ["linear"]),
    ],
)
def test_every_key_groups_the_calls(by, names):
    view = step().measured()
    assert [group.name for group in view.by(by)] == names
    assert sum(group.seconds for group in view.by(by)) == pytest.approx(60e-6)


def test_a_top_sums_the_other_groups_and_keeps_what_is_no_call():
    rows = step().measured().table("module", 1).rows
    assert [row["name"] for row in rows] == ["b", "others", "launched before the window", "idle"]
    assert rows[1]["seconds"] == pytest.approx(30e-6)


def test_what_memory_explains_is_not_lost():
    """8 MiB fit the cache of an H100: the bound is that of products, 2 µs, but memory takes 2.5 µs for them.

    At 66 % of the bandwidth of memory a third of the time is lost, and nothing of a call that is faster than memory.
    """
    run = trace_of(linear(BIG, "norm"), linear(BIG, "cached"))
    least = run.records[0].cost.mread + run.records[0].cost.mwrite
    in_memory = least / 3.35e12
    slow, fast = round(1e9 * in_memory / 0.66), round(1e9 * in_memory * 0.9)
    view = profiled(run, [slow, fast]).measured()
    by = {group.name: group for group in view.by("module")}
    assert by["norm"].lost == pytest.approx(in_memory / 0.66 - in_memory, rel=1e-3)
    assert by["norm"].of_bound == pytest.approx(66, rel=1e-3)
    assert by["cached"].bound < fast / 1e9 and by["cached"].lost == 0 and by["cached"].of_bound == pytest.approx(100)
    assert any(line.startswith("lost: measured time above the bound or, if longer") for line in view.remarks)
    assert [line for line in view.remarks if "multiply-add is two FLOPs" in line] == [FUSED_IS_TWO]


def test_a_call_without_kernels_has_no_bound():
    """As while a graph is captured: 20 µs of the other one are more than its bound, but less than that of both."""
    report = profiled(trace_of(linear(BIG, "a"), linear(1000 * BIG, "b")), [20 * MICROSECOND, 0])
    view = report.measured()
    assert view.calls[1].bound is None and view.total.bound == view.calls[0].bound < 20e-6
    assert 0 < view.total.lost < 20e-6


def test_a_file_that_says_nothing_of_the_speed_has_no_bound():
    report = step()
    profile = report.trace.run.profile._replace(no_bound="the trace has no kernels", remarks=("the file ends early",))
    view = type(report)(replace(report.trace, run=report.trace.run.recording(profile=profile))).measured()
    assert view.times is None and "At least" not in str(view) and "Lost" not in str(view)
    assert view.remarks[:2] == ["the file ends early", "no bound: the trace has no kernels"]


def test_a_call_below_its_bound_is_named():
    report = profiled(trace_of(linear(BIG, "")), [1])
    view = report.measured()
    assert [each.call.name for each in view.below_bound] == ["linear-1"]
    assert any(line.startswith("below the bound: linear-1 took 1") for line in view.remarks)


def test_the_device_is_that_of_the_trace_or_the_one_that_is_asked_for():
    assert step().measured().times.device.name == "h100-sxm5-80gb"
    assert step().measured(device="l4").times.device.name == "l4"
    unknown = profiled(trace_of(linear(8, "")), [10], device="Some Accelerator")
    view = unknown.measured()
    assert view.times is None and "bound" not in [column.key for column in view.table().columns]


def test_tf32_of_the_kernels_is_that_of_the_bound():
    run = trace_of(linear(BIG, ""))
    with_tf32, without = (profiled(run, [10**6], tf32=tf32).measured() for tf32 in (True, False))
    assert with_tf32.total.bound < without.total.bound
    assert any("TF32" in line for line in with_tf32.remarks)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "h100-sxm5-80gb"),
        ("AMD Instinct MI300X VF", "mi300x"),
        ("NVIDIA L4", "l4"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA L40", None),
        ("", None),
    ],
)
def test_names_of_devices(written, name):
    times = profiled(trace_of(linear(8, "")), [10_000], device=written).measured().times
    assert (times and times.device.name) == name


def test_it_is_written_in_every_format(tmp_path):
    view = step().measured()
    assert "most in Block" in str(view)
    stream = io.StringIO()
    view.show(stream, "csv")
    assert stream.getvalue().startswith("name,n_layers,seconds,span_seconds")
    figures = json.loads(view.to_json())["figures"]
    assert figures["span"]["value"] == pytest.approx(65.04e-6)
    for suffix in ("md", "csv", "json", "html", "txt"):
        view.save(tmp_path / f"view.{suffix}")


def test_two_runs_tell_work_from_speed():
    classes = {"": "Net", "a": "Block", "c": "Head"}
    before = profiled(trace_of(linear(BIG, "a"), linear(8, "c"), classes=classes), [20_000, 10_000]).measured()
    after = profiled(trace_of(linear(2 * BIG, "a"), linear(8, "c"), classes=classes), [40_000, 5_000]).measured()
    rows = {row["name"]: row for row in before.against(after).table().rows}
    assert rows["Block"]["why"] == "work"
    assert rows["Block"]["work"] == pytest.approx(200) and rows["Block"]["speed"] == pytest.approx(100)
    assert rows["Head"]["why"] == "speed" and rows["Head"]["speed"] == pytest.approx(200)
    gone = profiled(trace_of(linear(8, "c"), classes=classes), [5_000]).measured()
    assert {row["name"]: row.get("why") for row in before.against(gone).table().rows}["Block"] == "only before"


def test_wrong_arguments_are_refused():
    with pytest.raises(CostError, match=r"has no profile. Pass that of a trace"):
        type(step())(trace_of(linear(8, ""))).measured()
    with pytest.raises(TypeError, match="must be the report of a trace"):
        step().measured(1)
    with pytest.raises(ValueError, match="unknown key 'layer'"):
        step().measured().by("layer")
    with pytest.raises(TypeError, match="against expects"):
        step().measured().against(step())


def test_a_call_starts_with_its_first_interval():
    """From 100 on: one owner begins at once, before the window, the other after 20, and goes on after 50."""
    intervals = [Interval(*each) for each in ((90, 110, (0, 0), "a"), (120, 130, (0, 0), "b"), (150, 160, (0, 0), "b"))]
    assert starts(intervals, 100) == {"a": 0, "b": 20}
