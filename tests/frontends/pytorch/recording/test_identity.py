"""Ids of values, memory and parameters."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from costcore import ComputationalCostHook, estimate
from tests.frontends.pytorch.runs import record


def test_a_value_has_the_id_of_the_operator_that_made_it():
    x, layer = torch.ones(2, 4), nn.Linear(4, 4)
    first, relu, second, add = record(lambda: (y := layer(x), layer(torch.relu(y)) + y)[1]).calls
    assert first.inputs[0] != relu.inputs[0] == first.outputs[0] == add.inputs[1]
    assert second.inputs[0] == relu.outputs[0]
    assert second.inputs[1:] == first.inputs[1:]
    assert add.inputs[0] == second.outputs[0]


def test_storage_ids_distinguish_views_and_writes_from_new_memory():
    x = torch.ones(2, 4)
    view, write, new = record(lambda: (x.view(8), x.add_(1), x + 1)).calls
    assert view.outputs[0] != view.inputs[0]
    assert write.outputs[0] != write.inputs[0] == view.inputs[0]
    assert new.inputs[0] == write.outputs[0]
    assert view.storages == (view.storages[0],) * 2 == (write.storages[0], write.storages[-1])
    assert new.storages[-1] != new.storages[0] == view.storages[0]


def test_a_parameter_counts_once_whole():
    w = nn.Parameter(torch.ones(6, 4))

    def run():
        x = torch.ones(2, 4)
        functional.linear(x, w)
        functional.linear(x, w[:3])
        return x @ w.t()

    recorder = record(run)
    linear, part, product = (call for call in recorder.calls if call.layer.op in ("linear", "matmul"))
    assert linear.parameters == part.parameters == product.parameters
    assert list(recorder.parameters.values()) == [24]
    assert [part.layer["w"].role, part.layer["w"].size, product.layer["x1"].role] == ["param", 12, "param"]


def test_tied_parameters_count_once():
    words, decode = nn.Embedding(10, 4), nn.Linear(4, 10, bias=False)
    decode.weight = words.weight
    recorder = record(lambda: decode(words(torch.tensor([1, 2]))))
    assert list(recorder.parameters.values()) == [40]
    assert recorder.calls[0].parameters == recorder.calls[1].parameters


class WithBuffers(nn.Module):
    """A layer of 16 parameters, and fixed weights: a kernel, a view of one, and one that is cast."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4, bias=False)
        self.register_buffer("fixed", torch.ones(4, 4))
        self.register_buffer("stacked", torch.ones(2, 4, 4), persistent=False)
        self.register_buffer("wide", torch.ones(4, 4, dtype=torch.float64))
        self.register_buffer("scale", torch.ones(4))
        self.norm = nn.BatchNorm1d(4, affine=False)

    def forward(self, x):
        x = functional.linear(self.layer(x), self.fixed)
        x = functional.linear(x, self.stacked[1].t())
        x = functional.linear(x, self.wide.to(x.dtype))
        return self.norm(functional.layer_norm(x, (4,), self.scale))


@pytest.mark.parametrize("run", ["hook", "estimate"])
def test_buffers_that_are_weights_are_not_parameters(run):
    model = WithBuffers().eval()
    if run == "hook":
        with ComputationalCostHook() as report:
            nn.MSELoss()(torch.ones(2, 4), torch.ones(2, 4))  # another outermost module before
            model(torch.ones(2, 4))
    else:
        report = estimate(model, (2, 4))
    assert report.total_report["n_params"] == 16
    assert [call["n_params"] for call in report.layer_report.values() if call["op"] == "linear"] == [16, 0, 0, 0]
    recorder = record(lambda: model(torch.ones(2, 4)))
    roles = [call.layer["w"].role for call in recorder.calls if "w" in call.layer]
    assert roles == ["param", "state", "state", "data", "state"]
    (norm,) = [call.layer for call in recorder.calls if call.type == "batch_norm"]
    assert (norm["mean"].role, norm["var"].role) == ("state", "state")


def test_buffers_without_memory_of_their_own_do_not_disturb_a_run():
    """Three models run as one: their stacked buffers are in the module as tensors of ``vmap``."""
    models = [nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).eval() for _ in range(3)]
    states = torch.func.stack_module_state(models)
    with ComputationalCostHook() as hook:
        torch.func.vmap(lambda *state: torch.func.functional_call(models[0], state, torch.ones(2, 4)))(*states)
    assert hook.total_report["macs"] == 3 * 2 * 4 * 4

    class Sparse(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("matrix", torch.eye(4).to_sparse())

        def forward(self, x):
            return self.matrix @ x

    with ComputationalCostHook() as hook:
        Sparse()(torch.ones(4, 2))
    assert hook.total_report["macs"] == 4 * 2
