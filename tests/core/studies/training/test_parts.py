"""Parts of a training ledger by hand: its step, pairs of attention, utilization, tables, thresholds, largest batch."""

from __future__ import annotations

import io
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from costcore import CostError, Layer, Operations, Tensor, TrainingLedger
from costcore.ir import Cost, prod
from costcore.studies.batch_inputs import Limit
from costcore.studies.batch_size import LargestBatch
from costcore.studies.training import ledger
from costcore.studies.training.figures import Threshold, crossings, thresholds
from costcore.studies.training.ledger import Rates, answer_of
from costcore.studies.training.step import (
    Packing,
    Products,
    Step,
    allowed_pairs,
    check_documents,
    limits_of,
    mfu,
    peak_flops,
    within_documents,
)
from tests.core.analyses.timing.toy_device import Printed, device
from tests.core.results import Formatted
from tests.core.studies.training.test_ledger import STEP
from tests.core.studies.training.toy_transformer import toy_step
from tests.core.traces import Call, Recorder, report_of


def test_parameters_of_idle_experts_are_found_in_the_forward_pass_alone():
    """Two tokens, each sent to one of four experts of 3 x 5: 2 x 15 MACs forward, and twice as many backward."""
    recorder = Recorder()
    weight = recorder.parameter(4 * 3 * 5)
    inputs = {"x": Tensor((2, 3)), "w": Tensor((4, 3, 5), role="param"), "b": Tensor((4, 5), role="param")}
    for op, phase, macs in (("grouped_matmul", "forward", 30), ("grouped_matmul_backward", "backward", 60)):
        layer = recorder.intern(Layer(op, inputs, [Tensor((2, 5))]))
        call = Call(
            layer, op, module="experts", phase=phase, inputs=(50, weight, 0), outputs=(51,), parameters=(weight,)
        )
        recorder.record(call, Cost(Operations(fma=macs), 0, 0, {}, macs))
    step = Step(report_of(recorder), Packing(), tokens=2)
    assert step.macs("forward", "experts") == 30
    assert step.idle_expert_parameters == 60 - 30 // 2
    assert step.parameters.active == step.parameters.total - 45


def test_no_expert_is_idle_if_tokens_choose_all():
    """Two tokens, each sent to all of four experts of 3 x 5."""
    recorder = Recorder()
    weight = recorder.parameter(4 * 3 * 5)
    layer = Layer("grouped_matmul", {"x": Tensor((8, 3)), "w": Tensor((4, 3, 5), role="param")}, [Tensor((8, 5))])
    call = Call(recorder.intern(layer), "mm", inputs=(50, weight), outputs=(51,), parameters=(weight,))
    recorder.record(call, Cost(Operations(fma=120), 0, 0, {}, 120))
    step = Step(report_of(recorder), Packing(), tokens=2)
    assert (step.idle_expert_parameters, step.parameters.active) == (0, 60)


@pytest.mark.parametrize("lead", [(), (2,), (2, 3), (2, 3, 5)])
def test_scores_are_attention_in_the_last_two_axes(lead):
    """Scores of 6 queries and 6 keys of 4 features, with a softmax in their module: 21 of 36 pairs are causal."""
    recorder = Recorder()
    x0, x1, scores = Tensor((*lead, 1, 6, 4)), Tensor((*lead, 1, 4, 6)), Tensor((*lead, 1, 6, 6))
    n = prod(lead)
    for op, inputs, output, ids, macs in (
        ("matmul", {"x0": x0, "x1": x1}, scores, (1, 2, 3), n * 6 * 6 * 4),
        ("softmax", {"x": scores}, scores, (3, 4), 0),
        ("matmul", {"x0": scores, "x1": x0}, x0, (4, 5, 6), n * 6 * 6 * 4),
    ):
        layer = recorder.intern(Layer(op, inputs, [output]))
        call = Call(layer, op, module="heads", inputs=ids[:-1], outputs=ids[-1:])
        recorder.record(call, Cost(Operations(fma=macs), 0, 0, {}, macs))
    report = report_of(recorder)
    step = Step(report, Packing(masks_are_causal=True), tokens=6)
    assert step.macs("forward", "attention") == 2 * n * 6 * 6 * 4
    assert step.macs("forward", "attention", "causal") == 2 * n * 21 * 4
    assert (step.masked, Step(report, Packing(), tokens=6).masked) == (0, 1)


@pytest.mark.parametrize("lead", [(6,), (2, 3)])
def test_gradients_of_attention_are_products_of_its_sizes(lead):
    """5 queries of 4 features see 7 keys, whose values have 6 features, in six heads.

    The gradients of scores are products of (5, 6, 7), those of queries and keys of (4, 5, 7), in whichever order; a
    product of other sizes, or of other batches, multiplies weights.
    """
    recorder = Recorder()
    inputs = {"q": Tensor((*lead, 5, 4)), "k": Tensor((*lead, 7, 4)), "v": Tensor((*lead, 7, 6))}
    attention = Layer("attention", inputs, [Tensor((*lead, 5, 6))])
    recorder.record(Call(recorder.intern(attention), "a"), Cost(Operations(fma=6 * 350), 0, 0, {}, 6 * 350))
    for rows, inner, columns, batch in (
        (5, 6, 7, 6),
        (7, 5, 6, 6),
        (5, 7, 4, 6),
        (7, 5, 4, 6),
        (5, 7, 7, 6),
        (5, 6, 7, 3),
    ):
        operands = {"x0": Tensor((batch, rows, inner)), "x1": Tensor((batch, inner, columns))}
        layer = recorder.intern(Layer("matmul", operands, [Tensor((batch, rows, columns))]))
        macs = batch * rows * inner * columns
        recorder.record(Call(layer, "m", phase="backward"), Cost(Operations(fma=macs), 0, 0, {}, macs))
    report = report_of(recorder)
    kinds = [product.kind for product in Products(report.trace, Packing())]
    assert kinds == ["attention"] * 5 + ["weights"] * 2


@pytest.mark.parametrize(
    ("has_mask", "is_causal", "masked"), [(True, False, 1), (True, True, 0), (False, True, 0), (False, False, 0)]
)
def test_masks_of_unknown_content_are_counted(has_mask, is_causal, masked):
    """A mask beside the flag for causal attention adds nothing that is not known."""
    recorder = Recorder()
    inputs = {name: Tensor((1, 2, 6, 4)) for name in "qkv"} | ({"mask": Tensor((6, 6))} if has_mask else {})
    layer = recorder.intern(Layer("attention", inputs, [Tensor((1, 2, 6, 4))], {"causal": is_causal}))
    recorder.record(Call(layer, "a"), Cost(Operations(fma=2 * 36 * 8), 0, 0, {}, 2 * 36 * 8))
    report = report_of(recorder)
    assert Step(report, Packing(), tokens=6).masked == masked
    assert Step(report, Packing(masks_are_causal=True), tokens=6).masked == 0


def attended(lead, dims=(5, 7, 4, 6), **attrs):
    queries, keys, width, values = dims
    inputs = {
        "q": Tensor((*lead, queries, width)),
        "k": Tensor((*lead, keys, width)),
        "v": Tensor((*lead, keys, values)),
    }
    return Layer("attention", inputs, [Tensor((*lead, queries, values))], attrs)


@pytest.mark.parametrize("lead", [(), (6,), (2, 3), (1, 2, 3)])
def test_pairs_are_of_the_last_two_axes(lead):
    """5 queries see 7 keys; the first at most 1, the last 5: 15 of 35 pairs."""
    recorder = Recorder()
    layer = recorder.intern(attended(lead, causal=True))
    recorder.record(Call(layer, "a"), Cost(Operations(fma=3500), 0, 0, {}, 3500))
    step = Step(report_of(recorder), Packing((1, 4)), tokens=5)
    assert step.macs("forward", "attention") == 3500
    assert step.macs("forward", "attention", "causal") == 3500 * 15 // 35
    assert step.macs("forward", "attention", "packed") == 1500  # of a cache, which is not packed


@pytest.mark.parametrize(
    ("op", "phase", "macs", "kind"),
    [
        ("matmul", "backward", 120, "attention"),  # by as many products in the module
        ("einsum", "backward", 120, "attention"),
        ("einsum", "backward", 121, "weights"),
        ("matmul", "backward", 121, "weights"),
    ],
)
def test_gradients_of_an_einsum_are_found_by_their_products(op, phase, macs, kind):
    """An einsum in a module with a softmax multiplies 120 times; three executions of a call count one of them."""
    recorder = Recorder()
    operands = {"x0": Tensor((2, 3, 5)), "x1": Tensor((2, 5, 4))}
    for name, output, each, made, times in (
        ("softmax", (2, 3, 4), "forward", 0, 1),
        ("einsum", (2, 3, 4), "forward", 120, 1),
        (op, (2, 9, 4), phase, macs, 3),
    ):
        inputs = {"x": Tensor(output)} if name == "softmax" else operands
        if each == "backward":
            inputs = {"x0": Tensor((2, 9, 7)), "x1": Tensor((2, 7, 4))}
        layer = recorder.intern(Layer(name, inputs, [Tensor(output)]))
        recorder.record(
            Call(layer, name, module="m", phase=each, times=times), Cost(Operations(fma=made), 0, 0, {}, made)
        )
    report = report_of(recorder)
    found = [(product.kind, product.macs) for product in Products(report.trace, Packing())]
    assert found == [("attention", 120), (kind, 3 * macs)]


def test_gradients_of_products_of_matrices_are_found_by_their_sizes():
    """Scores of 3 queries and 4 keys of 5 features, without a batch; the gradient of the queries is 3 x 4 by 4 x 5."""
    recorder = Recorder()
    for op, phase, x0, x1, out, macs in (
        ("softmax", "forward", (3, 4), (), (3, 4), 0),
        ("matmul", "forward", (3, 5), (5, 4), (3, 4), 60),
        ("matmul", "backward", (3, 4), (4, 5), (3, 5), 60),
    ):
        inputs = {"x0": Tensor(x0), "x1": Tensor(x1)} if x1 else {"x": Tensor(x0)}
        layer = recorder.intern(Layer(op, inputs, [Tensor(out)]))
        recorder.record(Call(layer, op, module="m", phase=phase), Cost(Operations(fma=macs), 0, 0, {}, macs))
    assert [product.kind for product in Products(report_of(recorder).trace, Packing())] == ["attention"] * 2


def test_a_forward_product_of_as_many_macs_decides_nothing():
    """Products of the same number in one module, but of other sizes: of 2 x 3 x 5 x 4 and of 2 x 6 x 5 x 2."""
    recorder = Recorder()
    for phase, x0, x1, out in (
        ("forward", (2, 3, 5), (2, 5, 4), (2, 3, 4)),
        ("backward", (2, 6, 5), (2, 5, 2), (2, 6, 2)),
    ):
        layer = recorder.intern(Layer("matmul", {"x0": Tensor(x0), "x1": Tensor(x1)}, [Tensor(out)]))
        recorder.record(Call(layer, "m", module="m", phase=phase), Cost(Operations(fma=120), 0, 0, {}, 120))
    report = report_of(recorder)
    assert [product.kind for product in Products(report.trace, Packing())] == ["activations", "weights"]


@pytest.mark.parametrize("shape", [(4, 15), (4, 3, 5)])
def test_matrices_of_experts_have_two_axes_or_three(shape):
    """Two tokens, each sent to one of four experts of 15 weights: 60 - 30 // 2 are idle; biases are no matrices."""
    recorder = Recorder()
    weight = recorder.parameter(60)
    inputs = {"x": Tensor((2, 3)), "w": Tensor(shape, role="param"), "b": Tensor((4, 5), role="param")}
    inputs |= {"s": Tensor((60,), role="param")}
    layer = recorder.intern(Layer("moe", inputs, [Tensor((2, 5))]))
    call = Call(layer, "moe", inputs=(50, weight, 0, 0), outputs=(51,), parameters=(weight,))
    recorder.record(call, Cost(Operations(fma=30), 0, 0, {}, 30))
    step = Step(report_of(recorder), Packing(), tokens=2)
    assert step.idle_expert_parameters == 45
    assert step.parameters.multiplying == 15
    assert Step(step.report, Packing(), tokens=7).parameters.multiplying is None  # 30 of 7 tokens


@pytest.mark.parametrize(("fits", "accumulates"), [(3, False), (3, True), (0, False)])
def test_the_largest_step_that_fits(monkeypatch, fits, accumulates):
    """What is asked of the search, which is replaced here."""
    asked = {}
    limit = Limit(10**9, 5 << 20, 0, Fraction(0), "cuda")

    class Captures:
        def __init__(self, model, inputs, options):
            asked.update(model=model, inputs=inputs, options=options)

        def report(self, batch):
            return f"the report of {batch}"

    found = LargestBatch(fits, 7 << 20, None, limit, None, {}, (), True, ())
    monkeypatch.setattr(ledger, "Captures", Captures)
    monkeypatch.setattr(ledger, "find_largest", lambda captures, limit: found)
    monkeypatch.setattr(ledger, "check_model", lambda model: asked.update(checked=model))
    monkeypatch.setattr(ledger, "model_and_inputs", lambda model, inputs, is_step: (f"{model} {is_step}", inputs))
    monkeypatch.setattr(ledger, "inputs_of_batch", lambda inputs: f"inputs {inputs}")
    monkeypatch.setattr(ledger, "step_options", lambda *arguments: {"given": arguments})
    options = {"accumulates": accumulates, "optimizer": "sgd", "checkpoint": "Block"}
    if fits:
        assert ledger.largest_step("net", (1, 2), "1 GB", **options) == (found, "the report of 3")
    else:
        with pytest.raises(CostError, match=r"not even the smallest batch fits: it needs 12 MiB of 953.7 MiB"):
            ledger.largest_step("net", (1, 2), "1 GB", **options)
    given = (True, "sgd", None, {"checkpoint": "Block"}, "tensors")
    step = {"step": "accumulated"} if accumulates else {}
    assert asked == {
        "checked": "net True",
        "model": "net True",
        "inputs": "inputs (1, 2)",
        "options": {"given": given, **step},
    }


def test_the_batch_is_that_of_the_first_data_of_the_forward_pass():
    """Neither the weight nor a number beside it has a batch, and gradients are not looked at."""
    recorder = Recorder()
    operands = {"w": Tensor((16, 8), role="param"), "alpha": Tensor(()), "x": Tensor((4, 8))}
    for phase, inputs in (("backward", {"x": Tensor((9, 8))}), ("forward", operands)):
        layer = recorder.intern(Layer("linear", inputs, [Tensor((4, 16))]))
        recorder.record(Call(layer, "linear", phase=phase), Cost(Operations(fma=512), 0, 0, {}, 512))
    step = Step(report_of(recorder), Packing())
    assert (step.unit, step.tokens) == ("sample", 4)


@pytest.mark.parametrize(
    ("sizes", "limits", "expected"),
    [
        ((4, 4), (None, None), 16),
        ((4, 4), (None, 0), 1 + 2 + 3 + 4),
        ((4, 4), (1, 0), 1 + 2 + 2 + 2),  # itself and the one before
        ((4, 4), (1, 1), 2 + 3 + 3 + 2),
        ((4, 4), (0, None), 4 + 3 + 2 + 1),
        ((2, 5), (None, 0), 1 + 2),  # the first query is at the first key
        ((5, 2), (None, 0), 1 + 2 + 2 + 2 + 2),
        ((5, 2), (1, 0), 1 + 2 + 1),  # the last two queries are too far behind the two keys
        ((2, 5), (0, 2), 3 + 3),
    ],
)
def test_limits_leave_pairs(sizes, limits, expected):
    assert allowed_pairs(*sizes, *limits) == expected


@pytest.mark.parametrize(
    ("attributes", "is_causal", "expected"),
    [
        ({}, False, (None, None)),
        ({}, True, (None, 0)),
        ({"causal": True}, False, (None, 0)),
        ({"window": 4}, False, (3, None)),  # of four tokens, itself is one
        ({"window": (2, 1)}, False, (2, 1)),
        ({"window": (-1, 0)}, False, (None, 0)),
        ({"window": (0, -1)}, False, (0, None)),
        ({"window": (2, 1), "causal": True}, False, (2, 0)),
    ],
)
def test_attributes_limit_pairs(attributes, is_causal, expected):
    tensor = Tensor((1, 1, 4, 2))
    layer = Layer("attention", {"q": tensor, "k": tensor, "v": tensor}, [tensor], attributes)
    assert limits_of(layer, is_causal) == expected


def test_documents_attend_within_themselves():
    """Three and one of four tokens: 1 + 2 + 3 and 1 of 16 pairs; twice as many sequences, twice as many documents."""
    assert within_documents((3, 1), (None, 0), 4, 4) == (7, 16)
    assert within_documents((3, 1, 4), (None, 0), 4, 4) == (7 + 10, 32)
    assert within_documents((3, 1), (None, 0), 2, 4) == (1 + 2, 8)  # of a cache, which is not packed


@pytest.mark.parametrize(
    ("lengths", "error", "message"),
    [
        ([True, 3], TypeError, "document_lengths must be integers"),
        (["4"], TypeError, "document_lengths must be integers"),
        ([2.0, 2], TypeError, "document_lengths must be integers"),
        ([0, 4], ValueError, "between 1 and the sequence of 4"),
        ([5, 3], ValueError, "between 1 and the sequence of 4"),
        ([3], ValueError, "whole sequences of 4 tokens"),
        ([], ValueError, "whole sequences of 4 tokens"),
    ],
)
def test_documents_fill_sequences(lengths, error, message):
    with pytest.raises(error, match=message):
        check_documents(lengths, 4)


def test_whole_sequences_are_accepted():
    check_documents([1, 3, 4], 4)


def test_palm_states_its_mfu():
    # arXiv:2204.02311: 238.3e3 tokens/s on 6144 TPU v4, 6N + 12LHQT per token with N = 540.35e9, L = 118, H = 48,
    # Q = 256, T = 2048; printed MFU 46.2 %.
    flops = int(6 * 540.35e9) + 12 * 118 * 48 * 256 * 2048
    assert round(100 * mfu(flops * 238_300, 1.0, 6144, peak_flops("tpu-v4", "bfloat16")), 1) == 46.2


@pytest.mark.parametrize(
    ("name", "dtype", "tera"),
    [
        ("h100-sxm5-80gb", "float16", 989.4),  # NVIDIA H100 data sheet, dense
        ("h100-sxm5-80gb", "bfloat16", 989.4),  # printed for float16 only, equal by the data sheet
        ("h100-sxm5-80gb", "float8_e5m2", 1978.9),
        ("h100-sxm5-80gb", "tfloat32", 494.7),
        ("h100-sxm5-80gb", "float32", 66.9),  # vector engine
        ("a100-sxm4-80gb", "bfloat16", 312),  # NVIDIA A100 data sheet
        ("tpu-v4", "bfloat16", 275),  # Cloud TPU documentation
    ],
)
def test_peaks_are_those_of_data_sheets(name, dtype, tera):
    assert peak_flops(name, dtype) == pytest.approx(1e12 * tera, rel=1e-12)


def test_a_peak_that_is_not_printed_is_that_of_the_file():
    assert peak_flops(device(), "float16") == 8e12
    printed = device(printed=(Printed("matrix", "float16", 6.0), Printed("vector", "float32", 0.5)))
    assert peak_flops(printed, "float16") == 6e12
    assert peak_flops(printed, "float32") == 0.5e12
    assert peak_flops(printed, "tfloat32") == 4e12


def test_a_dtype_without_a_peak_is_an_error():
    with pytest.raises(CostError, match=r"'a100-sxm4-80gb' has no peak for float8_e4m3fn .*Give peak="):
        peak_flops("a100-sxm4-80gb", "float8_e4m3fn")


def test_an_unknown_dtype_is_an_error():
    with pytest.raises(ValueError, match="unknown dtype 'bf16'"):
        peak_flops("a100-sxm4-80gb", "bf16")


@pytest.mark.parametrize("wrong", [{"seconds": 0}, {"devices": -1}, {"peak": float("inf")}])
def test_arguments_must_be_positive(wrong):
    (name,) = wrong
    with pytest.raises(ValueError, match=f"{name} must be a positive number"):
        mfu(10, **{"seconds": 1.0, "devices": 1, "peak": 1.0, **wrong})


@pytest.mark.frontend("onnx")  # brings sympy
def test_symbolic_flops_have_no_utilization():
    from sympy import Symbol

    with pytest.raises(CostError, match=r"report\.subs \(got 2\*batch\)"):
        mfu(2 * Symbol("batch", integer=True, positive=True), 1.0, 1, 1.0)


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


TEN = Threshold("ten", "", "", "read", "", "2026-01-01", value=10)


THIRD = Threshold("third", "", "", "read", "", "2026-01-01", share_of_base=Fraction(1, 3))


def test_a_threshold_says_which_counts_exceed_it():
    (found,) = crossings({"all pairs": 11, "causal": 10}, None, [TEN])
    assert found.exceeded == {"all pairs": True, "causal": False}
    assert found.depends_on_count
    (cumulative,) = crossings({"all pairs": 11, "causal": 10}, 1, [TEN])
    assert cumulative.exceeded == {"all pairs": True, "causal": True}
    assert not cumulative.depends_on_count


def test_a_modification_is_compared_with_a_share_of_its_base():
    (found,) = crossings({"all pairs": 11, "causal": 10}, 30, [THIRD])
    assert (found.value, found.exceeded) == (10, {"all pairs": True, "causal": False})
    (unknown,) = crossings({"all pairs": 11}, None, [THIRD])
    assert (unknown.value, unknown.exceeded) == (None, {})


def test_thresholds_are_dated_and_have_sources():
    assert {threshold.value for threshold in thresholds()} == {10**25, 10**23, 10**26, None}
    assert all(threshold.source and threshold.as_of >= "2025" for threshold in thresholds())
    assert all((threshold.value is None) != (threshold.share_of_base is None) for threshold in thresholds())


def test_the_largest_batch_is_stated():
    """Of 10^9 bytes 524,288,000 are of the process and 1000 of a workspace; a peak of 7000 loses an eighth of it."""
    made = TrainingLedger(toy_step(), device=device(), dtype="float16")
    limit = Limit(10**9, 500 << 20, 1000, Fraction(1, 8), "tensors")
    memory: Any = None
    largest = LargestBatch(6, 7000, 8000, limit, memory, {}, (), True, ())
    made.stages[0] = replace(made.stages[0], largest=largest)
    document = made.to_dict()["stages"][0]["largest_batch"]
    needed = 7000 * 9 // 8 + 1000 + (500 << 20)
    assert document == {"batch": 6, "needed": needed, "next_peak": 8000, "limit": limit.to_dict()}
    out = io.StringIO()
    made.show(out)
    figure, remark = (line for line in out.getvalue().splitlines() if "argest" in line or "limit" in line)
    assert figure.split() == ["Largest", "batch", "per", "rank", "6", "500", "MiB", "of", "953.7", "MiB"]
    assert remark == f"training: limit: {limit.describe()}"
    made.add("second", toy_step())
    out = io.StringIO()
    made.show(out)
    assert "Largest batch per rank of training" in out.getvalue()
