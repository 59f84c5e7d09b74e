"""Experts and attention of a training step, by hand."""

from __future__ import annotations

import pytest

from costcore import Layer, Operations, Tensor
from costcore.api.build_report import make_report
from costcore.ir import Cost, prod
from costcore.registry.custom import CustomCalculators
from costcore.studies.training.products import Packing, Products
from costcore.studies.training.step import Step
from costcore.trace.call import Call
from costcore.trace.recorder import Recorder


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
