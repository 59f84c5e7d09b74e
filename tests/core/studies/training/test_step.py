"""Experts and attention of a training step, by hand."""

from __future__ import annotations

import pytest

from costcore import Layer, Operations, Tensor
from costcore.api.build_report import make_report
from costcore.ir import Cost, prod
from costcore.registry.custom import CustomCalculators
from costcore.studies.training.products import Packing
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
