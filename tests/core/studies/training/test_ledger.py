"""Stages add up exactly, shares and peaks are applied, and wrong arguments are sentences."""

from __future__ import annotations

import io
import re

import pytest

from costcore import CostError, Report, TrainingLedger
from tests.core.given_costs import Step, dense, net, relu
from tests.core.studies.training.toy_transformer import toy_step

STEP = net(
    dense("a"),
    relu("b"),
    dense("a", phase="recompute"),
    Step("mm", "a", macs=32, phase="backward"),
    Step("sgd_step", "", fma=16, phase="optimizer"),
)
"""One sample: 96 model FLOPs, 32 of recomputation, 32 of the optimizer."""


def test_stages_add_up():
    ledger = TrainingLedger()
    first = ledger.add(stage="pre-training", report=STEP, steps=10, accumulation=4, replicas=2)
    second = ledger.add(stage="fine-tuning", report=STEP, tokens=5)
    assert (first.tokens, first.steps, first.tokens_per_step) == (80, 10, 8)
    assert (second.tokens, second.steps) == (5, 5)
    assert ledger.tokens == 85
    assert ledger.model_flops == 85 * 96
    assert ledger.hardware_flops == 85 * 128
    assert ledger.recompute_flops == 85 * 32
    assert ledger.optimizer_flops == (10 + 5) * 32


def test_large_runs_are_exact():
    ledger = TrainingLedger(STEP, tokens=15.6e12)
    assert ledger.model_flops == 15_600_000_000_000 * 96
    assert TrainingLedger(STEP, tokens=10**25 + 1).model_flops == (10**25 + 1) * 96


def test_utilization_is_of_all_micro_batches():
    ledger = TrainingLedger(STEP, steps=1, accumulation=4, replicas=2, devices=2, peak=1000)
    # 8 x 96 = 768 FLOPs in half a second, of 2 x 1000 FLOP/s
    assert ledger.mfu(step_seconds=0.5) == pytest.approx(0.768)
    assert ledger.hfu(step_seconds=0.5) == pytest.approx(1.024)
    assert ledger.days(mfu=0.5) == pytest.approx(768 / 1000 / 86400)


def test_padding_is_stated_and_not_taken_off():
    ledger = TrainingLedger(STEP, tokens=100, padding_share=0.25)
    assert ledger.model_flops == 9600
    out = io.StringIO()
    ledger.show(out)
    assert "| training | 1 | 25.0% |" in " ".join(out.getvalue().split())


def test_a_saved_report_gives_the_same_ledger():
    again = Report.from_json(STEP.to_json())
    assert TrainingLedger(again).to_dict(date="2026-01-31") == TrainingLedger(STEP).to_dict(date="2026-01-31")


def test_repr_states_the_total():
    assert repr(TrainingLedger(STEP, tokens=10)) == "<TrainingLedger: 1 stage, 9.600e+02 model FLOPs (all pairs)>"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"steps": 1, "tokens": 1}, ValueError, "steps and tokens exclude each other"),
        ({"tokens": "many"}, TypeError, "tokens must be a whole number"),
        ({"masks": "none"}, ValueError, "unknown value of masks 'none'"),
        ({"backward": True}, TypeError, "backward cannot be used with a report"),
        ({"inputs": (1, 4)}, TypeError, "inputs cannot be used with a report"),
        ({"stage": "training"}, ValueError, "already has a stage 'training'"),
        ({"capacity_factor": 2.0}, CostError, "needs experts"),
    ],
)
def test_wrong_arguments_of_a_stage_are_errors(arguments, error, message):
    ledger = TrainingLedger(STEP)
    with pytest.raises(error, match=message):
        ledger.add(**{"stage": "other", "report": STEP, **arguments})
    assert len(ledger.stages) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"pairs": "some"}, "unknown value of pairs 'some'"), ({"devices": 1.5}, "devices must be a positive whole")],
)
def test_wrong_arguments_of_a_ledger_are_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        TrainingLedger(STEP, **arguments)


@pytest.mark.parametrize(("mfu", "far"), [(None, ""), (0.9, "above"), (0.01, "below")])
def test_price_and_energy_at_the_utilization_of_published_runs(mfu, far):
    """The printed peak is 989.4e12; an hour of 64 devices is 64 times 2, and 64 times 0.7 kWh."""
    ledger = TrainingLedger(devices=64, device="h100")
    ledger.add("training", toy_step(), tokens=10**20)
    out = io.StringIO()
    ledger.show(out, price=2, watts=700, mfu=mfu)
    text = re.sub(r" +", " ", out.getvalue())
    least, most = map(float, re.search(r"Time at that MFU ([\d.]+) to ([\d.]+) days", text).groups())
    prices = re.search(r"Price at that MFU ([\d,.]+) to ([\d,.]+)", text).groups()
    energy = re.search(r"Energy at that MFU ([\d,.]+) to ([\d,.]+) kWh", text).groups()
    for days, price, kwh in zip((least, most), prices, energy, strict=True):
        hours = 24 * 64 * days
        assert float(price.replace(",", "")) == pytest.approx(2 * hours, rel=0.01)
        assert float(kwh.replace(",", "")) == pytest.approx(0.7 * hours, rel=0.01)
    on = "on 64 x 989.4 TFLOP/s (bfloat16, dense, data sheet)"
    if mfu is None:
        low, high = map(int, re.search(r"Published runs (\d+) to (\d+) % MFU", text).groups())
        mean = f"% MFU, the mean of the nearest published runs of dense models, {on}"
        assert low < int(re.search(rf"at (\d+) {re.escape(mean)}", text)[1]) < high
    else:
        assert f"at {100 * mfu:.0f} % MFU, {far} published runs, {on}" in text
    assert ("of the nearest published runs: their mean is --mfu" in text) == bool(far)
    assert "the peak of its data sheet, as in papers on MFU; bounds of time use 1,070.5 TFLOP/s" in text


def test_published_runs_count_all_pairs():
    """The same step takes as long at their utilization, whatever pairs the ledger counts."""
    shown = []
    for pairs in ("all", "causal"):
        ledger = TrainingLedger(devices=64, device="h100", pairs=pairs)
        ledger.add("training", toy_step(), tokens=10**20)
        out = io.StringIO()
        ledger.show(out)
        shown.append(re.search(r"Time +([\d,.]+) days", out.getvalue())[1])
        assert ("nearest, with causal pairs;" in out.getvalue()) == (pairs == "causal")
    assert shown[0] == shown[1]


def test_utilization_needs_a_device_and_a_stage():
    with pytest.raises(CostError, match="needs device= or peak="):
        TrainingLedger(STEP).mfu(step_seconds=1)
    ledger = TrainingLedger(STEP, peak=1.0)
    ledger.add("second", STEP)
    with pytest.raises(ValueError, match=r"stage= is needed \(stages: training, second\)"):
        ledger.mfu(step_seconds=1)
    with pytest.raises(ValueError, match="unknown stage 'third'"):
        ledger.hfu(step_seconds=1, stage="third")


@pytest.mark.frontend("onnx")  # brings sympy
def test_symbolic_sizes_must_be_substituted():
    from sympy import Symbol

    batch = Symbol("batch", integer=True, positive=True)
    with pytest.raises(CostError, match=r"substitute batch with report\.subs first"):
        TrainingLedger(net(Step("linear", "a", macs=16, shape=(batch, 4))))


def test_stages_that_were_measured_take_as_long_as_measured():
    """Of 96 model FLOPs each: 8,640 steps of 10 s are a day; 3,456,000 steps of 96 / (0.4 * 9600) s are a day too."""
    ledger = TrainingLedger(peak=9600.0)
    ledger.add("first", STEP, steps=8640)
    ledger.add("second", STEP, steps=3_456_000)
    assert ledger.days(0.4, {"first": 10}) == pytest.approx(2)
    assert ledger.days(0.4, {"first": 10, "second": 0.1}) == pytest.approx(1 + 345_600 / 86_400)
    out = io.StringIO()
    ledger.show(out, step_seconds={"first": 10})
    assert "2.00 days  of measured steps, second at 40 % MFU, an assumption, on 1 x 0.0 TFLOP/s" in out.getvalue()


def test_a_report_of_an_inference_is_not_a_training_step():
    with pytest.raises(CostError, match="training: the report has no backward pass"):
        TrainingLedger(net(dense("a")))


@pytest.mark.parametrize(("mfu", "error"), [(0, ValueError), (-0.5, ValueError), (1.5, ValueError), ("0.4", TypeError)])
def test_a_utilization_is_a_share(mfu, error):
    with pytest.raises(error, match="mfu"):
        TrainingLedger(STEP, peak=1000).days(mfu=mfu)


class Captured:
    """What a model that is captured is: the largest batch of a memory, and its report."""

    def __init__(self, monkeypatch):
        self.asked = []
        monkeypatch.setattr("costcore.studies.training.ledger.largest_step", self.largest)
        monkeypatch.setattr("costcore.studies.training.ledger.estimate", self.estimate)

    def largest(self, model, inputs, memory, **options):
        self.asked.append(("largest", model, memory, options))
        return "the largest", STEP

    def estimate(self, model, inputs, **options):
        self.asked.append(("estimate", model, options))
        return STEP


OPEN = (("batch", 4), "int64")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"device_memory": 7}, ("largest", "net", 7, {"context": None, "accumulates": False})),
        (
            {"device_memory": 7, "accumulation": 2, "context": 5, "checkpoint": "Block"},
            ("largest", "net", 7, {"context": 5, "accumulates": True, "checkpoint": "Block"}),
        ),
        ({}, ("estimate", "net", {"backward": True})),
        ({"optimizer": "sgd"}, ("estimate", "net", {"backward": True, "optimizer": "sgd"})),
    ],
)
def test_a_model_whose_batch_is_open_is_captured_at_the_largest(monkeypatch, options, expected):
    found = Captured(monkeypatch)
    stage = TrainingLedger().add("training", "net", OPEN, **options)
    assert found.asked == [expected]
    assert stage.largest == ("the largest" if "device_memory" in options else None)
    assert stage.tokens == options.get("accumulation", 1)


def test_the_memory_of_the_device_of_a_ledger_is_that_of_its_batch(monkeypatch):
    found = Captured(monkeypatch)
    ledger = TrainingLedger(device="l4")
    ledger.add("own", "net", OPEN)
    ledger.add("stated", "net", OPEN, device_memory=7)
    ledger.add("closed", "net", (3, 4), device_memory=7)
    assert [each[0] for each in found.asked] == ["largest", "largest", "estimate"]
    assert [each[2] for each in found.asked[:2]] == [24 * 10**9, 7]


@pytest.mark.parametrize(("factor", "is_accepted"), [(1, True), (1.0, True), (0.999, False), (None, True)])
def test_a_capacity_is_at_least_one(factor, is_accepted):
    if is_accepted:
        assert TrainingLedger(toy_step(), capacity_factor=factor).stages[0].step.capacity_flops == 0
    else:
        with pytest.raises(ValueError, match="capacity_factor must be at least 1"):
            TrainingLedger(toy_step(), capacity_factor=factor)


@pytest.mark.parametrize(("value", "expected"), [(0, 0.0), (0.999, 0.999), (1, None), (-0.001, None)])
def test_shares_of_padding(value, expected):
    if expected is None:
        with pytest.raises(ValueError, match="share must be at least 0 and less than 1"):
            TrainingLedger(STEP, padding_share=value)
    else:
        assert TrainingLedger(STEP, padding_share=value).stages[0].padding_share == expected


@pytest.mark.parametrize(("value", "expected"), [(1, 1), (3.8e25, 38 * 10**24), (2.0, 2), (1e22, 10**22)])
def test_whole_numbers_as_they_are_written(value, expected):
    assert TrainingLedger(STEP, tokens=value).tokens == expected


@pytest.mark.parametrize("value", [0, -1, 0.5, float("inf"), float("nan")])
def test_numbers_that_are_not_whole(value):
    with pytest.raises(ValueError, match="tokens must be a positive whole number"):
        TrainingLedger(STEP, tokens=value)


def test_an_mfu_of_one_is_a_share():
    """96 FLOPs at 1000 FLOP/s."""
    assert TrainingLedger(STEP, peak=1000).days(mfu=1) == pytest.approx(0.096 / 86_400)


def test_a_ledger_without_a_model_takes_nothing_else():
    for given in ({"tokens": 1}, {"inputs": (1, 2)}):
        with pytest.raises(TypeError, match=f"takes no {next(iter(given))}: give them to add"):
            TrainingLedger(**given)
    assert repr(TrainingLedger()) == "<TrainingLedger: 0 stages, 0.000e+00 model FLOPs (all pairs)>"
    with pytest.raises(ValueError, match=r"stage= is needed \(stages: none\)"):
        TrainingLedger().mfu(1.0)


def test_documents_need_the_sequence_of_an_attention():
    """Sequences of 5 tokens, also of attention that is written as products."""
    with pytest.raises(ValueError, match="between 1 and the sequence of 5"):
        TrainingLedger(toy_step(), document_lengths=[6, 4])
    with pytest.raises(ValueError, match="document_lengths needs a model with attention"):
        TrainingLedger(STEP, document_lengths=[1])


def test_figures_of_a_device_need_one():
    ledger = TrainingLedger(STEP)
    for wrong in ({"mfu": 0}, {"price": -1}, {"watts": float("inf")}):
        with pytest.raises(ValueError, match="must be a positive number"):
            TrainingLedger(STEP, peak=1.0).show(io.StringIO(), **wrong)
    for given in ({"mfu": 0.5}, {"price": 1.0}, {"watts": 1.0}):
        with pytest.raises(CostError, match="needs device= or peak="):
            ledger.show(io.StringIO(), **given)
    out = io.StringIO()
    TrainingLedger(STEP, peak=1e12).show(out)
    assert "at 40 % MFU, an assumption, on 1 x 1.0 TFLOP/s" in out.getvalue() and "device-hours" in out.getvalue()
    assert "GPU-hours" in shown(TrainingLedger(STEP, device="l4"))
    assert "device-hours" in shown(TrainingLedger(STEP, device="tpu-v4"))


def shown(ledger):
    out = io.StringIO()
    ledger.show(out)
    return out.getvalue()
