"""Reading a report back builds no expression twice, and makes no table of all calls."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from costcore import CostError, Report
from costcore.reports.serialization import codec
from costcore.reports.serialization import json as from_json
from tests.core.given_costs import Step, net

pytest.importorskip("sympy")


def report_of(count: int, **costs: Any) -> Report:
    """The report of ``count`` calls of equal costs."""
    return net(*(Step("linear", f"layer{i}", **costs) for i in range(count)))


def expressions(data: Any) -> Iterator[str]:
    """The expressions in a file, each as text, with those inside them."""
    if isinstance(data, dict):
        for value in data.values():
            yield from expressions(value)
    elif isinstance(data, list):
        if data and data[0] in ("add", "mul", "pow", "floor", "max"):
            yield json.dumps(data)
        for value in data:
            yield from expressions(value)


def symbolic_report(count: int = 50) -> Report:
    from sympy import Symbol

    n, m = (Symbol(name, integer=True, positive=True) for name in "nm")
    steps = [
        Step("linear", f"{i}", n * m * (i % 5 + 1), n * m * (i % 5), n + m, 4 * n * m, 4 * m, (n, 2 * m + i))
        for i in range(count)
    ]
    return net(*steps)


def test_equal_expressions_are_built_once(monkeypatch):
    text = symbolic_report().to_json()
    counts, built, build = Counter(expressions(json.loads(text))), [], codec.build
    monkeypatch.setattr(codec, "build", lambda function, operands: built.append(function) or build(function, operands))
    assert Report.from_json(text).to_json() == text
    assert len(built) <= len(counts) < sum(counts.values()) / 2, "each of them occurs several times"


def test_a_report_is_checked_without_an_entry_for_each_call(monkeypatch):
    text = symbolic_report().to_json()
    written: list[Any] = []
    dim = codec.Encoder.dim
    monkeypatch.setattr(from_json, "Ledger", None)
    monkeypatch.setattr(codec.Encoder, "dim", lambda self, value: written.append(value) or dim(self, value))
    Report.from_json(text)
    assert len(written) < 100, "the total, and not the costs of 50 calls"


@pytest.mark.parametrize("key", ["flops", "macs", "mread", "mwrite", "mrw", "n_layers", "n_params"])
def test_another_total_is_refused(key):
    data = json.loads(symbolic_report(3).to_json())
    data["total"][key] = 7 if data["total"][key] != 7 else 8
    with pytest.raises(CostError, match="total is not the sum of the calls"):
        Report.from_json(json.dumps(data))


def test_a_total_that_a_ledger_does_not_expand_is_read():
    """64 products of reads are expanded; with the bytes written these are 65 terms, which are left as they are."""
    from sympy import Symbol

    sums = [sum(Symbol(f"{name}{i}", integer=True, positive=True) for i in range(8)) for name in "ab"]
    report = report_of(1, mread=sums[0] * sums[1], mwrite=Symbol("c", integer=True, positive=True))
    total = report.total_report
    assert total["mrw"] != total["mread"] + total["mwrite"]
    assert Report.from_json(report.to_json()).total_report == total


def test_a_report_without_counted_calls_is_read():
    report = net(Step("unheard_of", known=False))
    assert Report.from_json(report.to_json()).to_json() == report.to_json()


def test_a_cost_in_a_loop_counts_as_often_as_it_runs():
    report = report_of(2, macs=3, fma=3, mread=8, mwrite=4)
    data = json.loads(report.to_json())
    data["calls"][1]["times"] = 5
    for key, once in (("flops", 3), ("macs", 3), ("mread", 8), ("mwrite", 4), ("mrw", 12)):
        data["total"][key] = 6 * once
    assert Report.from_json(json.dumps(data)).total_report["mrw"] == 6 * 12
