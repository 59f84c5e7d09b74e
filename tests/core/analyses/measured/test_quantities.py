"""Measured time as quantities, on runs made by hand: in tables, budgets, comparisons and pictures."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from costcore import CostError, Report, check, compare, table
from costcore.ir import Layer, Tensor
from tests.core.analyses.measured.runs import linear, profiled, trace_of
from tests.core.traces import Call, CallCost

# A linear layer of 16 rows: 16 * 64 * 64 = 65,536 MACs, 131,072 FLOPs; reads 20,480 bytes and writes 4,096.
# One of 32 rows: 262,144 FLOPs; reads 24,576 bytes and writes 8,192.
TWO = trace_of(linear(16, "a"), linear(32, "b"))


def report():
    return profiled(TWO, [1_000, 3_000], idle=500)


def values(of, name):
    return [row[name] for row in of.table("module", columns=["module", name]).rows]


def test_rates_are_amounts_per_measured_second_of_groups_too():
    run = report()
    assert values(run, "achieved_flops") == [131_072_000_000, 87_381_333_333]
    assert values(run, "achieved_bandwidth") == [24_576_000_000, 10_922_666_667]
    assert run.table("op", columns=["achieved_flops"]).rows[0]["achieved_flops"] == 98_304_000_000
    assert run.table("run", columns=["achieved_flops"]).rows[0]["achieved_flops"] == 98_304_000_000


def test_lost_time_is_that_above_the_bound_and_above_that_of_memory():
    """At 300 GB/s 24,576 and 32,768 bytes take longer than the bounds, as a cache could hold them."""
    run = report()
    limits = [24_576 / 300e9, 32_768 / 300e9]
    assert all(0 < bound < limit for bound, limit in zip(values(run, "bound_seconds@l4"), limits, strict=True))
    assert values(run, "lost_seconds@l4") == pytest.approx([1e-6 - limits[0], 3e-6 - limits[1]])
    assert values(run, "of_bound@l4") == pytest.approx([100 * limits[0] / 1e-6, 100 * limits[1] / 3e-6])
    whole = run.table("run", columns=["lost_seconds@l4", "of_bound@l4"]).rows[0]
    assert whole["lost_seconds@l4"] == pytest.approx(4e-6 - sum(limits))
    assert whole["of_bound@l4"] == pytest.approx(100 * sum(limits) / 4e-6)


def test_parts_of_the_span_and_the_host():
    run = report()
    assert values(run, "span_seconds") == [1e-6, 3e-6]
    assert values(run, "host_seconds") == [2e-6, 6e-6]
    assert values(run, "n_kernels") == [1, 1]
    assert run.table("run", columns=["idle_seconds"]).rows[0]["idle_seconds"] == 0.5e-6


def test_the_time_of_calls_without_a_cost_is_stated():
    layer = Layer("vllm::moe", {"x": Tensor((4, 4))}, [])
    run = profiled(TWO, [1_000, 3_000])
    unknown = CallCost(Call(layer, name="moe-1", type="moe", native="vllm::moe"), None, seconds=7e-6)
    with_unknown = Report(replace(run.trace, records=(*run.trace.records, unknown)))
    out = io.StringIO()
    with_unknown.table("module", columns=["module", "seconds", "achieved_flops"]).show(out, "md")
    assert "- measured time: 7.0 µs of calls without a cost are left out" in out.getvalue()
    assert "without a cost are left out" not in run.table("module", columns=["seconds"]).to_markdown()


def test_a_model_takes_the_times_of_a_profile():
    model = Report(TWO)
    with pytest.raises(CostError, match=r"or the trace of a profiler to estimate"):
        model.table("module", columns=["achieved_flops"])
    with pytest.raises(CostError, match=r"idle_seconds needs the trace of a profiler"):
        model.table("run", columns=["idle_seconds"])
    timed = model.with_profile(report())
    assert values(timed, "seconds") == [1e-6, 3e-6]
    assert values(timed, "n_kernels") == [1, 1]
    assert timed.measured().parts == model.measured(report()).parts == {"calls": 4_000, "idle": 500}
    with pytest.raises(TypeError, match="profile must be the report of a trace"):
        model.with_profile(1)


def test_they_are_in_budgets_comparisons_tables_of_models_and_pictures():
    run, slower = report(), profiled(TWO, [2_000, 3_000])
    budget = {"total": {"seconds": 3e-6, "lost_seconds@l4": 1.0}, "module": {"b": {"lost_seconds@l4": 1e-7}}}
    assert check(run, budget)[0].value == 4_000  # ns
    assert len(check(run, budget)) == 2
    found = compare(run, slower, columns=["seconds", "achieved_flops"])
    assert found.totals["seconds"].new == pytest.approx(5e-6)
    rows = table([("fast", run), ("slow", slower)], columns=["seconds", "lost_seconds@l4"]).rows
    assert [row.costs["seconds"] for row in rows] == pytest.approx([4e-6, 5e-6])
    assert dict(run.plot(column="seconds")) == {"linear": pytest.approx(4e-6)}
    assert "Lost (l4)" in run.table("module", columns=["lost_seconds@l4"]).to_html()


def test_products_that_were_rounded_to_tf32_have_the_bound_of_tf32():
    of_float32, of_tf32 = profiled(TWO, [1_000, 3_000]), profiled(TWO, [1_000, 3_000], tf32=True)
    assert sum(values(of_tf32, "bound_seconds@l4")) < sum(values(of_float32, "bound_seconds@l4"))


def test_calls_that_took_no_time_have_no_rate():
    run = profiled(TWO, [0, 3_000])
    assert values(run, "achieved_flops") == [None, 87_381_333_333]
    shown = run.table("module", columns=["module", "achieved_flops"], sort="achieved_flops").to_csv().splitlines()
    assert shown[1:3] == ["b,87381333333", "a,"]
