"""The public trace: what analyses of other packages read of a run."""

from __future__ import annotations

import pytest

from costcore import CostError, Report, Trace, estimate
from tests.core.toy_networks import nested_report
from tests.core.traces import Regrouping, Uncounted


def test_a_report_is_a_view_on_its_trace(toy):
    report = nested_report(toy)
    trace = report.trace
    assert isinstance(trace, Trace)
    assert [call.name for call in trace.calls] == list(report.layer_report)
    assert all(record.uncounted is None and record.seconds is None for record in trace)
    assert sum(cost.macs * call.times for call, cost, *_ in trace) == report.total_report["macs"]
    assert Report(trace) == report


def test_a_call_without_a_cost_says_why(toy):
    with pytest.warns(UserWarning, match="no calculator for 'toy::Mystery'"):
        trace = estimate(toy.Model("toy::Double", "toy::Mystery"), (2, 3)).trace
    assert not trace.is_complete
    assert [record.uncounted for record in trace] == [None, Uncounted.NO_CALCULATOR]
    assert trace.costs[1] is None


def test_a_calculator_that_fails_differs_from_one_that_is_missing(toy):
    def broken(layer):
        raise KeyError("w")

    with pytest.raises(CostError, match="raised KeyError"):
        estimate(toy.Model("toy::Mystery"), (2, 3), calculators={"toy::Mystery": broken})


@pytest.mark.parametrize("uncounted", list(Uncounted))
def test_a_reason_is_read_back_from_its_text(uncounted):
    assert Uncounted.of(uncounted.reason("Wave"), "Wave") is uncounted
    assert Uncounted.of(uncounted.reason("Wave") + " today", "Wave") is Uncounted.CALCULATOR_FAILED


@pytest.mark.parametrize(
    "nodes",
    [
        ("node 'a' (Mul)",),
        ("node 'a, b' (Erf)", 'node "it\'s, c" (Mul)', "the Add node that produces 'x, y'"),
        ("node 'a\\'b, \"c\"' (Erf)", "d,e"),
    ],
)
def test_a_regrouping_is_read_back_from_its_note(nodes):
    regrouping = Regrouping("gelu", nodes)
    assert Regrouping.parse(str(regrouping)) == regrouping


@pytest.mark.parametrize("note", ["regrouped as gelu", "regrouped as gelu: ", "x regrouped as gelu: a", "nothing"])
def test_other_notes_are_no_regroupings(note):
    assert Regrouping.parse(note) is None
