"""Operators in place are shown as such, and count as those out of place."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

from costcore import ComputationalCostHook, Cost, Report, estimate


class InPlace(nn.Module):
    """Four operators in place, and one that is not."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        y.add_(1)
        y[torch.tensor([0, 1])] = 1.0
        return torch.relu_(y).addmm_(y, y)


class OutOfPlace(nn.Module):
    """The same operators out of place."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = (x + 1) + 1
        y = y.index_put((torch.tensor([0, 1]),), torch.tensor(1.0))
        y = torch.relu(y)
        return y.addmm(y, y)


def test_the_native_name_tells_the_form():
    report = estimate(InPlace(), (4, 4))
    natives = {name: group["n_layers"] for name, group in report.by("native").items()}
    in_place = ["aten::add_", "aten::index_put_", "aten::relu_", "aten::addmm_"]
    assert natives == {"aten::add": 1, **dict.fromkeys(in_place, 1)}
    assert [call.operator for call in report.calls[1:]] == [name.removesuffix("_") for name in in_place]
    assert [call.type for call in report.calls] == ["add", "add", "index_put", "relu", "addmm"]
    assert report.total_report["flops"] == estimate(OutOfPlace(), (4, 4)).total_report["flops"]
    again = Report.from_json(report.to_json())
    assert again.by("native") == report.by("native")


def test_a_name_with_two_underscores_is_whole():
    class And(nn.Module):
        def forward(self, x):
            return (x > 0).__iand__(x < 1)

    (call,) = [call for call in estimate(And(), (4,)).calls if "and" in call.native]
    assert call.native in ("aten::__iand__", "aten::bitwise_and_")
    assert call.operator == {"aten::bitwise_and_": "aten::bitwise_and"}.get(call.native, call.native)


ADDS = ["aten::add", "aten::add_", torch.add, torch.Tensor.add_, torch.ops.aten.add_, torch.ops.aten.add_.Tensor]


@pytest.mark.parametrize("operator", ADDS, ids=lambda operator: getattr(operator, "__name__", str(operator)))
@pytest.mark.filterwarnings("ignore:.*replaces the built-in calculator")
def test_a_calculator_of_either_form_counts_both(operator):
    report = estimate(InPlace(), (4, 4), calculators={operator: lambda layer: Cost(7, 0, 0, {})})
    assert [(e["type"], e["flops"]) for e in report.layer_report.values()][:2] == [("add", 7), ("add", 7)]
    assert report.notes == []


@pytest.mark.parametrize("convention", ["torch", "fvcore", "ptflops", "deepspeed", "thop"])
def test_a_convention_counts_what_it_counts_of_a_file_that_does_not_tell_the_form(convention):
    report = estimate(InPlace(), (4, 4))
    data = json.loads(report.to_json())
    for call in data["calls"]:
        call["native"] = call["native"].removesuffix("_")  # as earlier versions wrote it
    earlier = Report.from_json(json.dumps(data))
    assert "aten::add_" not in earlier.by("native")
    assert earlier.under(convention).total == report.under(convention).total


def steps(x):
    outputs = torch.zeros(3, *x.shape)
    for i in range(3):
        outputs[i] = x * i
    return outputs[1:].reshape(-1, 4).log_softmax(-1)


@pytest.mark.parametrize(
    "write",
    [
        steps,
        lambda x: torch.empty(2, 4).copy_(x) * 2,
        lambda x: torch.ones(2, 4).mul_(x) * 2,
        lambda x: torch.full_like(torch.zeros(2, 4), 0.5).add_(x) * 2,
    ],
)
def test_results_written_into_new_tensors_have_gradients(write):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.line = nn.Linear(8, 4)

        def forward(self, x):
            return write(self.line(x))

    report = estimate(Net(), (2, 8), loss=torch.sum)
    model, x = Net(), torch.randn(2, 8)
    with ComputationalCostHook() as hook:
        model(x).sum().backward()
    counted = [
        {phase: (costs["flops"], costs["mrw"]) for phase, costs in each.by("phase").items()}
        for each in (report, hook.report)
    ]
    assert counted[0] == counted[1]
    assert report.status == "complete"
