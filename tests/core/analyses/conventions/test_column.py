"""What another tool counts as a column of tables: ``flops@CONVENTION``."""

from __future__ import annotations

import io

import pytest

from costcore import CostError, Report
from tests.core.analyses.fusion.runs import Calls


@pytest.fixture
def report():
    """A product of 4 x 16 results from 8 features each, a call that no calculator knows, and a ReLU."""
    calls = Calls()
    x, w = calls.given(4, 8), calls.given(16, 8, role="param")
    end = calls("relu", calls("unknown", calls("linear", x, w, shape=(4, 16))))
    return Report(calls.trace(end))


def rows(report, column):
    out = io.StringIO()
    report.show_report(out, "csv", None, columns=["name", column])
    return [line.split(",") for line in out.getvalue().splitlines()[1:]]


def test_every_call_with_a_cost_has_an_amount(report):
    expected = [["linear-0", "512"], ["relu-2", "0"], ["total", "512"]]
    assert rows(report, "flops@macs") == expected
    assert rows(report.under("macs").report, "flops@macs") == expected  # which shows these anyway


def test_a_report_of_one_convention_has_no_amounts_of_another(report):
    with pytest.raises(CostError, match=r"this report shows MACs \(macs\)\. Ask for mults on the original report"):
        rows(report.under("macs").report, "flops@mults")
