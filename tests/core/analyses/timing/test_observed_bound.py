"""The observed bound, by hand: 0.9 of the shortest kernel, and memory that shares its cache."""

from __future__ import annotations

from dataclasses import replace

import pytest

from costcore import CostError, Report
from costcore.analyses.timing.bound import Work, bound_of
from tests.core.analyses.measured.runs import linear, profiled, trace_of
from tests.core.analyses.timing.toy_device import device

SEEN = device(least_kernel_us=2.0)
CACHE = next(nearer for name, nearer, _ in SEEN.levels() if name == "dram")
RATE = next(rate for name, _, rate in SEEN.levels() if name == "dram")


def test_a_small_call_takes_most_of_the_shortest_kernel():
    small = bound_of(Work(), 8.0, 8.0, SEEN, is_observed=True)
    assert (small.seconds, small.binds) == (pytest.approx(1.8e-6), "kernel")
    assert bound_of(Work(), 8.0, 8.0, SEEN).seconds == 0.0


def test_a_call_without_work_takes_nothing():
    assert bound_of(Work(), 0.0, 0.0, SEEN, is_observed=True).seconds == 0.0


def test_reads_and_writes_share_the_cache():
    read, written = CACHE + 9e9, CACHE + 1e9
    assert bound_of(Work(), read, written, SEEN, is_observed=True).by["dram"] == pytest.approx((CACHE + 10e9) / RATE)
    assert bound_of(Work(), read, written, SEEN).by["dram"] == pytest.approx(10e9 / RATE)


def test_it_is_never_less_than_the_bound():
    run = Report(trace_of(*(linear(2**i, "") for i in range(4, 20))))
    least, observed = run.time("h100-sxm5-80gb"), run.time("h100-sxm5-80gb", bound="observed")
    pairs = list(zip(least.groups, observed.groups, strict=True))
    assert all(a.bound_seconds <= b.bound_seconds for a, b in pairs)
    assert observed.groups[0].bound_seconds == pytest.approx(0.9 * 1.12e-6)
    assert observed.remarks[0].startswith(
        "observed bound: no kernel that was seen on h100-sxm5-80gb took less than 1.12 us"
    )
    assert "kernel" in observed.to_csv()


def test_the_measured_view_compares_with_it():
    run = profiled(trace_of(linear(16, "a")), [1500])
    assert run.measured(bound="observed").calls[0].bound == pytest.approx(0.9 * 1.12e-6)
    assert run.measured().calls[0].bound == pytest.approx(131_072 / 66.9e12)  # on the vector engine
    assert run.measured(bound="observed").below_bound == []
    assert len(profiled(trace_of(linear(16, "a")), [900]).measured(bound="observed").below_bound) == 1


def test_a_device_without_a_kernel_that_was_seen_is_refused():
    run = Report(trace_of(linear(16, "a")))
    with pytest.raises(CostError, match=r"no kernel was seen on l4: .*known of b200-sxm-180gb, h100-sxm5-80gb, mi300x"):
        run.time("l4", bound="observed")
    with pytest.raises(ValueError, match="unknown bound 'most'"):
        run.time("l4", bound="most")
    assert replace(SEEN, least_kernel_us=None).least_kernel_us is None
