"""The JSON document of a ledger follows its schema."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from costcore import TrainingLedger
from tests.core.given_costs import Step, dense, net, relu

jsonschema = pytest.importorskip("jsonschema")
SCHEMA = Path(__file__).parents[4] / "costcore" / "studies" / "training" / "ledger.schema.json"
STEP = net(dense("a"), relu("b"), dense("c", phase="recompute"), Step("mm", "a", macs=32, phase="backward"))
"""One sample; 16 MACs forward, 32 backward, 16 recomputed."""


@pytest.fixture(scope="module")
def validator():
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def ledger(**options):
    made = TrainingLedger(devices=2, device="a100-sxm4-80gb", **options)
    made.add("pre-training", STEP, steps=10, accumulation=4, replicas=1, because="it makes the model")
    made.add("fine-tuning", STEP, tokens=5, replicas=1)
    return made


def test_a_document_follows_the_schema(validator):
    document = ledger().to_dict(base_flops=1e3, base_source="a paper", step_seconds={"pre-training": 0.5})
    validator.validate(json.loads(json.dumps(document)))
    assert document["totals"]["model_flops"] == 45 * 2 * 48
    assert document["totals"]["recompute_flops"] == 45 * 2 * 16
    assert document["stages"][0]["steps"] == 10
    assert document["modification_share"] == 4320 / 1000


def test_the_shortest_document_follows_the_schema(validator):
    validator.validate(TrainingLedger().to_dict())
    validator.validate(TrainingLedger(STEP, peak=1e12).to_dict(date="2026-01-31"))


def test_equal_ledgers_give_the_same_bytes(tmp_path):
    first = ledger().to_json(tmp_path / "ledger.json", date="2026-01-31")
    assert first == ledger().to_json(date="2026-01-31") == (tmp_path / "ledger.json").read_text(encoding="utf-8")


def test_a_stage_that_was_measured_must_exist():
    with pytest.raises(ValueError, match="unknown stage 'tuning'"):
        ledger().to_dict(step_seconds={"tuning": 1.0})


def test_no_document_or_table_speaks_of_compliance():
    text = json.dumps(ledger().to_dict()).lower()
    assert "complies" not in text and "compliant" not in text


def test_thresholds_of_a_document_are_of_the_run_and_its_base():
    """960 FLOPs of the run, 900 of the base: cumulative ones have both, a third of the base is 300."""
    found = TrainingLedger(STEP, tokens=10).to_dict(base_flops=900, base_source="a paper")["thresholds"]
    (share,) = (each for each in found if each["share_of_base"] is not None)
    assert (share["share_of_base"], share["value"], share["total"]) == ("1/3", 300, 960)
    assert (share["share"], share["exceeded"]) == (3.2, True)
    for each in found:
        if each is not share:
            assert (each["share_of_base"], each["total"], each["exceeded"]) == (None, 1860, False)
            assert each["share"] == 1860 / each["value"]
    (share,) = (each for each in TrainingLedger(STEP).to_dict()["thresholds"] if each["share_of_base"] is not None)
    assert (share["value"], share["share"], share["exceeded"], share["exceeded_by"]) == (None, None, None, {})


@pytest.mark.parametrize(("base", "is_exceeded"), [(2880, False), (2879, True), (2883, False)])
def test_a_threshold_is_exceeded_by_more_than_its_value(base, is_exceeded):
    """960 FLOPs are a third of 2880; of 2879 a third is 959, rounded down."""
    found = TrainingLedger(STEP, tokens=10).to_dict(base_flops=base)["thresholds"]
    (share,) = (each for each in found if each["share_of_base"] is not None)
    assert (share["value"], share["exceeded"]) == (base // 3, is_exceeded)
    assert share["exceeded_by"]["all pairs"] == is_exceeded


def test_hardware_of_a_document():
    """Only of a known device it is known that the peak is dense, and from where it is."""
    assert TrainingLedger(STEP).to_dict()["hardware"] is None
    assert TrainingLedger(STEP, peak=7.0, devices=3).to_dict()["hardware"] == {
        "device": None,
        "count": 3,
        "dtype": "bfloat16",
        "peak_flops": 7.0,
        "is_dense": None,
        "sources": [],
    }
    found = TrainingLedger(STEP, device="l4", dtype="float16").to_dict()["hardware"]
    assert (found["device"], found["count"], found["dtype"], found["is_dense"]) == ("l4", 1, "float16", True)
    assert found["peak_flops"] == 121e12 and found["sources"]
    measured = TrainingLedger(STEP, steps=3).to_dict(step_seconds=2.0)["stages"][0]["measured"]
    assert measured == {"step_seconds": 2.0, "mfu": None, "hfu": None, "days": 6 / 86_400}
