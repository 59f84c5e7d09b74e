"""Experts and attention of a training step, by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest

from costcore import CostError, Layer, Operations, Tensor
from costcore.api.hook import make_report
from costcore.ir import Cost, prod
from costcore.registry import CustomCalculators
from costcore.studies.batch_inputs import Limit
from costcore.studies.batch_size import LargestBatch
from costcore.studies.training import ledger
from costcore.studies.training.step import Packing, Products, Step
from tests.core.traces import Call, Recorder


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
    step = Step(make_report(recorder, CustomCalculators(), True, "framework"), Packing(), tokens=2)
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
    step = Step(make_report(recorder, CustomCalculators(), True, "framework"), Packing(), tokens=2)
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
    report = make_report(recorder, CustomCalculators(), True, "framework")
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
    report = make_report(recorder, CustomCalculators(), True, "framework")
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
    report = make_report(recorder, CustomCalculators(), True, "framework")
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
    step = Step(make_report(recorder, CustomCalculators(), True, "framework"), Packing((1, 4)), tokens=5)
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
    report = make_report(recorder, CustomCalculators(), True, "framework")
    found = [(product.kind, product.macs) for product in Products(report.trace, Packing())]
    assert found == [("attention", 120), (kind, 3 * macs)]


def test_a_forward_product_of_as_many_macs_decides_nothing():
    """Products of the same number in one module, but of other sizes: of 2 x 3 x 5 x 4 and of 2 x 6 x 5 x 2."""
    recorder = Recorder()
    for phase, x0, x1, out in (
        ("forward", (2, 3, 5), (2, 5, 4), (2, 3, 4)),
        ("backward", (2, 6, 5), (2, 5, 2), (2, 6, 2)),
    ):
        layer = recorder.intern(Layer("matmul", {"x0": Tensor(x0), "x1": Tensor(x1)}, [Tensor(out)]))
        recorder.record(Call(layer, "m", module="m", phase=phase), Cost(Operations(fma=120), 0, 0, {}, 120))
    report = make_report(recorder, CustomCalculators(), True, "framework")
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
    step = Step(make_report(recorder, CustomCalculators(), True, "framework"), Packing(), tokens=2)
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
        with pytest.raises(CostError, match=r"not even the smallest batch fits: it needs 12 MiB of 953.67 MiB"):
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
    step = Step(make_report(recorder, CustomCalculators(), True, "framework"), Packing())
    assert (step.unit, step.tokens) == ("sample", 4)
