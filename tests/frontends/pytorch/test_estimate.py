"""Estimates neither modify nor copy the model of the caller, and report what depends on data."""

from __future__ import annotations

import threading

import numpy
import pytest
import torch
from torch import nn
from torch.nn import functional

from costcore import CostError, Tensor, estimate
from tests.frontends.pytorch.runs import estimated, macs, state_of_torch, types


@pytest.fixture(autouse=True)
def nothing_is_left_behind():
    before = state_of_torch()
    yield
    assert state_of_torch() == before


class Call(nn.Module):
    """A function as a module with one parameter."""

    def __init__(self, function) -> None:
        super().__init__()
        self.function, self.w = function, nn.Parameter(torch.ones(4))

    def forward(self, *args, **kwargs):
        return self.function(*args, **kwargs)


def test_the_model_is_left_as_it_was():
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout())
    model[1].eval()
    seen = []
    model[0].register_forward_hook(lambda module, args, output: seen.append(module))
    model[0].weight.requires_grad_(False)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    attributes = [dict(vars(module)) for module in model.modules()]
    recorder = estimated(model, (2, 4), backward=True)
    assert "dropout" in types(recorder)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert [dict(vars(module)) for module in model.modules()] == attributes
    assert [module.training for module in model.modules()] == [True, True, False, True]
    assert [parameter.grad for parameter in model.parameters()] == [None] * 4
    assert len(seen) == 1
    assert seen[0] is not model[0]


def test_the_random_state_is_left_as_it_was():
    model, state = nn.Sequential(nn.Dropout(), Call(lambda x: x + torch.rand(4))), torch.get_rng_state()
    estimated(model, (2, 4))
    assert torch.equal(torch.get_rng_state(), state)


def test_no_weight_is_copied():
    model = nn.Linear(2**20, 2**15, device="meta")  # 128 GiB
    assert macs(estimated(model, (1, 2**20)).calls) == 2**35
    real = nn.Linear(8, 8)
    twins = []
    real.register_forward_pre_hook(lambda module, args: twins.append(module.weight))
    estimated(real, (2, 8))
    assert twins[0].is_meta
    assert twins[0] is not real.weight


def test_what_cannot_be_copied_is_shared():
    model = nn.Linear(4, 4)
    model.lock = threading.Lock()
    assert types(estimated(model, (2, 4))) == ["linear"]


@pytest.mark.parametrize(
    "inputs",
    [
        (2, 4),
        [2, 4],
        ((2, 4),),
        [(2, 4)],
        {"input": (2, 4)},
        torch.ones(2, 4),
        numpy.ones((2, 4), "float32"),
        Tensor((2, 4)),
        [torch.ones(2, 4)],
    ],
    ids=str,
)
def test_inputs_in_any_form(inputs):
    (call,) = estimated(nn.Linear(4, 5), inputs).calls
    assert call.layer["x"].shape == (2, 4)
    assert call.layer["x"].dtype == "float32"


def test_nested_and_named_inputs():
    recorder = estimated(nn.LSTM(3, 4), ((5, 2, 3), ((1, 2, 4), (1, 2, 4))))
    assert [t.role for t in recorder.calls[0].layer.inputs.values()][:3] == ["data", "state", "state"]
    model = Call(lambda x, pair, flag, scale=1.0: x * scale if flag else pair["a"])
    recorder = estimated(model, {"x": (2, 3), "pair": {"a": (5,)}, "flag": True, "scale": 2.0})
    assert types(recorder) == ["mul"]
    assert types(estimated(Call(lambda: torch.ones(3)), None)) == ["ones"]


@pytest.mark.parametrize("inputs", [((2, 3), torch.int64), [((2, 3), torch.int64)], {"input": ((2, 3), torch.int64)}])
def test_inputs_of_whole_numbers(inputs):
    model = nn.Embedding(10, 4)
    assert estimated(model, inputs).calls[0].layer["x"].dtype == "int64"
    assert estimated(model, (2, 3), dtype="int64").calls[0].layer["x"].dtype == "int64"
    with pytest.raises(CostError, match=r"integer inputs need a dtype: .*\"int64\".*--input 1x128:int64$"):
        estimated(model, (2, 3))
    with pytest.raises(ValueError, match="dtype: unknown dtype 'integer'"):
        estimated(model, (2, 3), dtype="integer")


def test_questions_about_data_are_answered_and_noted():
    def model(x):
        if (x > 0).all():
            x = x * x.sum().item()
        return x[x > 0]

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Call(model)

        def forward(self, x):
            return self.inner(x)

    recorder = estimated(Outer(), (2, 3))
    assert recorder.calls[-1].layer.out.shape == (6,)
    assert [(a.what.partition(" ")[2][:5], a.where) for a in recorder.assumptions] == [
        ("branc", "inner"),
        ("numbe", "inner"),
        ("mask ", "inner"),
    ]


def test_sizes_that_depend_on_data_are_the_largest():
    def model(x):
        return x.nonzero(), x.masked_select(x > 0), torch.unique(x), torch.unique(x, dim=0)

    recorder = estimated(Call(model), (2, 3))
    shapes = [call.layer.outputs[0].shape for call in recorder.calls if call.type != "gt"]
    assert shapes == [(6, 2), (6,), (6,), (2, 3)]


def test_constants_without_a_device_meet_the_model():
    recorder = estimated(Call(lambda x: functional.softmax(x + torch.ones(3), -1)), (2, 3))
    assert types(recorder) == ["ones", "add", "softmax"]


class WithHead(nn.Module):
    """A body, and a head that runs in training only."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 5)
        self.head = nn.Sequential(nn.Linear(5, 3), nn.BatchNorm1d(3))
        self.scale = nn.Parameter(torch.ones(2))

    def forward(self, x):
        y = self.body(x)
        return (y, self.head(y), self.scale * 2) if self.training else y


def test_parameters_that_no_call_reads_are_noted():
    notes = estimate(WithHead().eval(), (2, 4)).notes
    # head: 5 x 3 + 3, and 2 x 3 of the norm; the scale has 2; the body 4 x 5 + 5
    assert notes == ["no call reads 26 of the 51 parameters: the model itself, head"]
    assert estimate(WithHead().train(), (2, 4)).notes == []


def test_a_failure_names_the_module_and_the_reason():
    model = nn.Sequential(nn.Linear(4, 5), nn.Sequential(nn.ReLU(), nn.Linear(4, 5)))
    with pytest.raises(CostError, match=r"Sequential, module 1\.1 \(Linear\): .* raised RuntimeError: ") as failure:
        estimated(model, (2, 4))
    assert isinstance(failure.value.__cause__, RuntimeError)


@pytest.mark.parametrize("inputs", ["x", 3])
def test_other_inputs_are_refused(inputs):
    with pytest.raises(TypeError, match="a shape"):
        estimated(nn.Linear(4, 5), inputs)


def test_unknown_options_are_refused_and_the_expected_ones_listed():
    with pytest.raises(TypeError, match=r"'depth' .*backward, dtype, regroup"):
        estimate(nn.Linear(4, 5), (2, 4), depth=3)
    with pytest.raises(TypeError) as caught:
        estimate(nn.Linear(4, 5), (2, 4), backwards=True)
    options = "backward, dtype, regroup, memory, optimizer, step, loss, checkpoint, precision, "
    options += "mesh, plan, rank, device, nonzero"
    expected = f"unknown option 'backwards' for the pytorch frontend (expected {options})"
    assert str(caught.value) == f"{expected}. Did you mean 'backward'?"


class HeldWeights(nn.Module):
    """Weights in a plain attribute, which the model does not hold as parameters."""

    def __init__(self):
        super().__init__()
        self.w = torch.zeros(5, 4)

    def forward(self, x):
        return nn.functional.linear(x, self.w)


def test_weights_that_are_no_parameters_are_told_apart():
    report = estimate(nn.Sequential(nn.Linear(4, 4), HeldWeights()), (2, 4))
    assert report.total_report["n_params_model"] == 4 * 4 + 4
    assert report.total_report["n_params"] == 4 * 4 + 4 + 5 * 4
    assert report.notes == ["n_params includes 20 elements of weights that are not parameters of the model"]


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (nn.functional.conv2d, ((2, 3, 4, 4), (5, 3, 2, 2))),
        (lambda x: nn.functional.conv2d(x, x[:1]), (2, 3, 4, 4)),
        (lambda x: nn.functional.layer_norm(x, (4,), x[0], x[1]), (2, 4)),
    ],
    ids=["kernel", "part of the image as kernel", "scale and offset"],
)
def test_an_input_is_never_a_parameter(function, shapes):
    report = estimate(Call(function), shapes)
    assert report.total_report["n_params"] == 0
    assert report.notes == []
