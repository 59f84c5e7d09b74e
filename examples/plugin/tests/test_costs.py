"""The costs of the kernels, by hand: python -m pytest in an environment with costcore and acme-kernels."""

import pytest
import torch
from acme_kernels import linear, linear_scan

from costcore import estimate


class Mixer(torch.nn.Module):
    """8 features to 6, then the recurrence over the steps."""

    def __init__(self):
        super().__init__()
        self.weight, self.bias = torch.nn.Parameter(torch.zeros(6, 8)), torch.nn.Parameter(torch.zeros(6))
        self.decay = torch.nn.Parameter(torch.zeros(2, 5, 6))

    def forward(self, x):
        return linear_scan(self.decay, linear(x, self.weight, self.bias))


@pytest.fixture(scope="module")
def report():
    """2 sequences of 5 steps."""
    return estimate(Mixer(), (2, 5, 8))


def test_the_costs_are_those_by_hand(report):
    dense, scan = report.layer_report.values()
    assert dense["macs"] == 2 * 5 * 6 * 8  # 60 outputs, dot products of length 8
    assert scan["flops"] == 2 * 4 * 6  # all steps but the first, one fma per feature
    assert scan["mread"] == 2 * 60 * 4  # decay and x, 60 elements of float32 each
    assert scan["mwrite"] == 60 * 4
    assert report.status == "complete"


def test_the_counter_of_acme_prints_this_number(report):
    assert report.under("acme").total == 480 + 60


def test_the_least_time_on_the_board(report):
    """960 operations on matrices at 4 TFLOP/s, then 96 others at 0.25 TFLOP/s; all bytes fit into the cache."""
    assert report.time("acme-board").bound_seconds == pytest.approx(960 / 4e12 + 96 / 0.25e12)


def test_tables_for_the_spreadsheet(report, capsys):
    report.show_report(mode="semicolons", unit=None, columns=["type", "flops"])
    assert capsys.readouterr().out.splitlines()[-1] == "total;528"


def test_the_formula_holds_for_all_sizes():
    report = estimate(Mixer(), ("batch", 5, 8))
    assert report.subs(batch=2).total_report["flops"] == 528
