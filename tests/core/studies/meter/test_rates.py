"""Durations, windows and rates of steps, with a clock that the test sets."""

from __future__ import annotations

import pytest

from costcore.studies import meter
from costcore.studies.meter import PassCost, Rates, StepLog, across, described, sum_of


@pytest.fixture
def clock(monkeypatch):
    """A clock in nanoseconds, whose time is ``clock[0]``."""
    now = [10**9]
    monkeypatch.setattr(meter, "perf_counter_ns", lambda: now[0])
    return now


def test_windows_and_totals(clock):
    log = StepLog(2)
    for milliseconds, flops in ((10, 100), (20, 200), (40, 300)):
        clock[0] += milliseconds * 10**6
        log.end_step(PassCost(flops, 2 * flops, 7, 1, "float32"))
    assert log.last == (2, 60 * 10**6, PassCost(500, 1000, 14, 2, "float32"))
    assert log.all == (3, 70 * 10**6, PassCost(600, 1200, 21, 3, "float32"))


def test_more_steps_than_are_kept(clock, monkeypatch):
    monkeypatch.setattr(meter, "MOST_NEW", 4)
    log = StepLog(3)
    for _ in range(10):
        clock[0] += 5
        log.end_step(PassCost(1, 1))
    assert log.last[:2] == (3, 15)
    assert log.all == (10, 50, PassCost(10, 10))


def test_time_that_does_not_count(clock):
    log = StepLog(5)
    clock[0] += 10
    with pytest.raises(KeyError), log.stopped():
        clock[0] += 1000
        raise KeyError
    clock[0] += 20
    log.end_step(PassCost(1, 1))
    clock[0] += 500
    log.leave_out_step(PassCost(9, 9))
    clock[0] += 40
    log.end_step(PassCost(1, 1))
    assert log.all[:2] == (2, 70)
    assert log.untimed == PassCost(9, 9)


def test_rates():
    # 4e12 model FLOPs in 2 s on 2 devices of 2e12 FLOP/s: half of 4e12 FLOP/s. Hardware: 6e12 / 2 / 4e12.
    rates = Rates(4, 2.0, PassCost(4 * 10**12, 6 * 10**12, 1000, 10, "bfloat16"), 2, 2e12)
    assert (rates.mfu, rates.hfu) == (0.5, 0.75)
    assert rates.scalars() == {
        "mfu": 0.5,
        "hfu": 0.75,
        "flops_per_second": 2e12,
        "tokens_per_second": 500.0,
        "samples_per_second": 5.0,
        "seconds_per_step": 0.5,
    }
    assert described(rates, rates, "bfloat16") == (
        "MFU 50.0%, HFU 75.0% of 4.0 TFLOP/s in bfloat16, 2.0 TFLOP/s, 500 tokens/s, 500.0 ms per step "
        "(last 4 of 4 steps)"
    )


def test_what_is_unknown_is_left_out():
    assert Rates(0, 0.0, sum_of(())).scalars() == {}
    assert Rates(1, 0.5, PassCost(10, 10)).scalars() == {"flops_per_second": 20.0, "seconds_per_step": 0.5}
    assert described(Rates(0, 0.0, sum_of(())), Rates(0, 0.0, sum_of(())), "") == "no step was measured"


def test_several_processes():
    # 300 FLOPs in the 2 s of the slower process, on 1 + 2 devices of 50 FLOP/s: 150 of 150 FLOP/s.
    first = Rates(10, 1.0, PassCost(100, 100, 5, 1, "float32"), 1, 50.0)
    second = Rates(10, 2.0, PassCost(200, 200, 5, 1, "float32"), 2, 50.0)
    together = across([first, second])
    assert together == Rates(10, 2.0, PassCost(300, 300, 10, 2, "float32"), 3, 50.0)
    assert together.mfu == 1.0
    assert across([first, second._replace(peak=None)]).mfu is None
