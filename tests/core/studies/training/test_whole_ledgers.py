"""Whole ledgers of a small transformer, with the main figures by hand.

The files of tests/golden/training have all figures; those that no test here computes by hand follow from the same
sizes (see :mod:`tests.core.studies.training.toy_transformer`).
"""

from __future__ import annotations

import io
import json
import re

import pytest

from costcore import TrainingLedger, __version__
from tests.core.analyses.timing.toy_device import device
from tests.core.studies.training.toy_transformer import BACKWARD, FORWARD, RECOMPUTED, toy_step


def ledger(pairs: str, **options) -> TrainingLedger:
    made = TrainingLedger(devices=3, device=device(), dtype="float16", pairs=pairs)
    made.add(
        *("pre-training", toy_step()),
        tokens=12_345 * 10**12,
        accumulation=4,
        replicas=3,
        padding_share=0.125,
        capacity_factor=1.25,
        document_lengths=[3, 2, 4, 1],
        masks="causal",
        because="it makes the model",
    )
    made.add("fine-tuning", toy_step(is_tied=True, window=3), steps=7, replicas=1)
    return made


@pytest.mark.parametrize("pairs", ["all", "causal", "packed"])
def test_all_figures(golden, pairs):
    made = ledger(pairs)
    document = made.to_dict(
        base_flops=1e20, base_source="a paper", step_seconds={"fine-tuning": 2e5}, date="2026-01-31"
    )
    text = json.dumps(document, indent=1).replace(__version__, "VERSION")
    text = re.sub(r'("report_sha256": )"\w{64}"', r'\1"SHA"', text)
    out = io.StringIO()
    made.show(out, step_seconds={"fine-tuning": 2e5}, base_flops=1e20, mfu=0.3, price=2.5, watts=700, thresholds=True)
    golden(f"training/{pairs}.txt", "\n".join([repr(made), out.getvalue(), text, ""]))


def test_figures_by_hand():
    """Of 10 tokens; 3 x 4 micro-batches a step. Matrices of experts are computed for a quarter more rows."""
    (step, tuning) = (stage.step for stage in ledger("all").stages)
    assert {kind: step.macs("forward", kind) for kind in FORWARD} == FORWARD
    assert {kind: step.macs("backward", kind) for kind in BACKWARD} == BACKWARD
    macs = sum(FORWARD.values()) + sum(BACKWARD.values())
    assert step.model_flops() == tuning.model_flops() == 2 * macs
    assert step.recompute_flops() == 2 * RECOMPUTED
    assert step.capacity_flops == 2 * (FORWARD["experts"] + BACKWARD["experts"]) // 4
    assert step.hardware_flops() == 2 * (macs + RECOMPUTED) + step.capacity_flops
    attention = FORWARD["attention"] + BACKWARD["attention"]
    assert step.model_flops("causal") == 2 * (macs - attention + attention * 15 // 25)
    # documents of 3 and 2 tokens, 4 and 1: 6 + 3 and 10 + 1 of twice 25 pairs
    assert step.model_flops("packed") == 2 * (macs - attention + attention * 20 // 50)
    # a window of 3 excludes keys 3 and 4 before a query: 1 + 2 of 25, and says nothing of products
    assert tuning.model_flops("causal") == 2 * (macs - 2100 + 2100 * 22 // 25)
    assert (step.parameters.total, step.parameters.trainable) == (702, 702 - 42)
    assert step.parameters.active == 702 - 2 * 2 * 42
    assert step.parameters.multiplying == (FORWARD["weights"] + FORWARD["experts"]) // 10
    assert (step.masked, tuning.masked) == (0, 2)


def test_rules_by_hand():
    """6ND multiplies 702 parameters of 10 tokens; of these 6 x (66 + 42) are of tables that are looked up."""
    (figure,) = (each for each in TrainingLedger(toy_step()).rules if each.rule.label == "6ND")
    macs = {kind: FORWARD[kind] + BACKWARD[kind] for kind in FORWARD}
    assert (figure.flops, figure.counted) == (6 * 702 * 10, 2 * sum(macs.values()))
    assert figure.causes["experts"] == 6 * 10 * 2 * 2 * 42
    assert figure.causes["embedding"] == 6 * 10 * (66 + 42)
    assert figure.causes["attention"] == -6 * FORWARD["attention"]
    assert figure.causes["frozen"] == 6 * sum(FORWARD.values()) - 2 * sum(macs.values())
    assert sum(figure.causes.values()) == figure.flops - figure.counted


def test_experts_that_no_token_meets_are_left_out_of_the_headline():
    """6 x 534 active parameters x 10 tokens; a law that lies between this and 6ND of all is not exceeded."""
    made = TrainingLedger(toy_step())
    assert made.counts["6ND, active"] == 6 * (702 - 2 * 2 * 42) * 10
    assert "6ND" not in made.counts
    assert [figure.rule.label for figure in made.rules][:2] == ["6ND, active", "6ND"]


@pytest.mark.parametrize("is_measured", [True, False])
def test_days_by_hand(is_measured):
    """Seven steps of 2 x 10^5 s, and 12,345 x 10^12 tokens of 3180 FLOPs at 30 % of 3 x 8 TFLOP/s."""
    measured = {"fine-tuning": 2e5} if is_measured else {}
    rest = 7 * 2e5 if is_measured else 70 * 3180 / (0.3 * 24e12)
    expected = 12_345e12 * 3180 / (0.3 * 24e12) + rest
    assert ledger("all").days(0.3, measured) == pytest.approx(expected / 86_400, rel=1e-12)
