"""The calls of a model's report take the times of a profile of the same model."""

from __future__ import annotations

import random

import pytest

from costcore import CostError, Report
from tests.core.analyses.measured.runs import linear, profiled, trace_of

CLASSES = {"": "Net", "layers": "Sequential", **{f"layers.{i}": "Block" for i in range(6)}}
CLASSES |= {f"layers.{i}.{name}": "Linear" for i in range(6) for name in ("up", "down")}
NAMED = {"": "Net", "Sequential_0": "Sequential", **{f"Sequential_0.Block_{i}": "Block" for i in range(6)}}
NAMED |= {f"Sequential_0.Block_{i // 2}.Linear_{i}": "Linear" for i in range(12)}


def model():
    calls = [linear(16, f"layers.{i}.{name}") for i in range(6) for name in ("up", "down")]
    return trace_of(*calls, *(linear(16, f"layers.{i}.up", "backward") for i in range(6)), classes=CLASSES)


def profile(keep=lambda position: True):
    calls = [linear(16, f"Sequential_0.Block_{i // 2}.Linear_{i}") for i in range(12)]
    calls += [linear(16, f"Sequential_0.Block_{i}.Linear_{2 * i}", "backward") for i in range(6)]
    kept = [i for i in range(len(calls)) if keep(i)]
    return profiled(trace_of(*(calls[i] for i in kept), classes=NAMED), [100 + i for i in kept]), kept


def times(report):
    """Return the time of every call of the model that has one in the profile; those of the profile differ."""
    return {i: call[0] for i, call in Report(model()).with_profile(report).trace.run.profile.calls.items()}


def test_equal_runs_are_joined_call_by_call():
    report, _ = profile()
    assert times(report) == {i: 100 + i for i in range(18)}
    view = Report(model()).measured(report)
    assert [each.time for each in view.calls] == [100 + i for i in range(18)]
    assert view.n_missed == 0 and sum(view.parts.values()) == report.trace.run.profile.span


def test_equal_layers_are_told_apart_by_their_modules_if_calls_are_missing():
    rng = random.Random(5)
    for _ in range(50):
        dropped = {rng.randrange(18) for _ in range(3)}
        report, kept = profile(lambda position, dropped=dropped: position not in dropped)
        assert times(report) == {position: 100 + position for position in kept}


def test_other_calls_of_the_profile_are_reported_and_not_spread():
    calls = [linear(16, "Sequential_0.Block_0.Linear_0"), linear(99, "Sequential_0.Block_0.Linear_1")]
    report = profiled(trace_of(*calls, classes=NAMED), [100, 7])
    found = Report(model()).with_profile(report).trace.run.profile
    assert [(each.what, each.name, each.time) for each in found.elsewhere] == [
        ("in the profile only", "aten::linear", 7)
    ]
    assert sum(Report(model()).measured(report).parts.values()) == 107


def test_a_profile_of_something_else_is_refused():
    with pytest.raises(CostError, match="no call of the profile"):
        Report(model()).with_profile(profiled(trace_of(linear(99, "")), [5]))
    with pytest.raises(CostError, match="has no times"):
        Report(model()).with_profile(Report(model()))
