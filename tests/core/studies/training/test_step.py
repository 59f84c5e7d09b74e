"""Experts of a training step, by hand."""

from __future__ import annotations

from costcore import Layer, Operations, Tensor
from costcore.api.build_report import make_report
from costcore.ir import Cost
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
