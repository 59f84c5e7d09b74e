"""The figures and tables of a ledger, by hand."""

from __future__ import annotations

import pytest

from costcore import TrainingLedger
from costcore.studies.training.ledger import Rates, answer_of
from tests.core.results import Formatted
from tests.core.studies.training.test_ledger import STEP


@pytest.fixture(scope="module")
def answer():
    """80 samples in 10 steps of 4 x 2 micro-batches, measured; 5 samples in as many steps."""
    ledger = TrainingLedger(devices=2, peak=1000)
    ledger.add("first", STEP, steps=10, accumulation=4, replicas=2, padding_share=0.25)
    ledger.add("second", STEP, tokens=5, replicas=1, because="of it")
    return answer_of(ledger, None, {"first": 0.5}, Rates(0.4, 2.0, 500.0))


def plain(value):
    return value.value if isinstance(value, Formatted) else value


def rows(answer, title):
    (table,) = (each for each in answer.tables if each.title == title)
    return [[plain(row.get(column.key, "")) for column in table.columns] for row in table.rows]


def test_figures(answer):
    """First takes 10 x 0.5 s; second 5 x 96 FLOPs at 40 % of 2 x 1000 FLOP/s, which is 0.6 s."""
    found = {figure.name: plain(figure.value) for figure in answer.figures}
    hours = 2 * 5.6 / 3600
    assert found == {
        "model_flops": 85 * 96,
        "hardware_flops": 85 * 128,
        "flops, causal": 85 * 96,
        "optimizer_flops": 15 * 32,
        "tokens": 85,
        "days": pytest.approx(5.6 / 86400),
        "device_hours": pytest.approx(hours),
        "price": pytest.approx(2 * hours),
        "kwh": pytest.approx(0.5 * hours),
    }


def test_tables(answer):
    assert rows(answer, "Stages") == [["first", "", 80, 96, 7680, 10240], ["second", "of it", 5, 96, 480, 640]]
    # 8 x 96 FLOPs in half a second are 1536 of 2000 FLOP/s; with recomputation 8 x 128, 2048
    mfu, hfu = pytest.approx(76.8), pytest.approx(102.4)
    assert rows(answer, "A step") == [
        ["first", 4, 2, 8, 25, 768, 32, 0.5, mfu, hfu],
        ["second", "", "", 1, "", 96, 32, "", "", ""],
    ]
    assert rows(answer, "FLOPs per sample") == [[name, 96, 96, 96, 32] for name in ("first", "second")]


def test_flops_per_sample_are_those_of_the_micro_batch():
    ledger = TrainingLedger(STEP, batch=2)
    found = answer_of(ledger)
    assert rows(found, "Stages") == [["training", 2, 48, 96, 128]]
    assert rows(found, "FLOPs per sample") == [["training", 48, 48, 48, 16]]


def test_thresholds_are_listed_from_a_tenth_on():
    """The lowest is 1e23; hardware FLOPs are 128 per sample, and 78,125 x 10^15 samples have 1e22."""
    for tokens, is_listed in ((78_125 * 10**15, True), (78_125 * 10**15 - 1, False)):
        found = answer_of(TrainingLedger(STEP, tokens=tokens)).tables
        assert any(each.title.startswith("Thresholds") for each in found) == is_listed
