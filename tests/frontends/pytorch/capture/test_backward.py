"""The backward pass against its products written out by hand, and a whole training step."""

from __future__ import annotations

import contextlib
import copy
from functools import partial
from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from costcore import ComputationalCostHook, CostError, Tensor, estimate
from tests.frontends.pytorch.differences import COPIES_WATCHED_SPARSE_GRADIENTS
from tests.frontends.pytorch.runs import estimated, macs, record


class Attention(nn.Module):
    """Queries, keys and values by one projection, four heads."""

    def __init__(self) -> None:
        super().__init__()
        self.project, self.out = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x):
        q, k, v = self.project(x).view(2, 10, 3, 4, 8).permute(2, 0, 3, 1, 4)
        return self.out(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(2, 10, 32))


def perceptron(*sizes: int) -> nn.Module:
    return nn.Sequential(*(m for i, o in pairwise(sizes) for m in (nn.Linear(i, o), nn.ReLU())))


MACS = {
    # per layer N*I*O forward, the same again for the weight and, from the second layer on, for the input
    "perceptron": (
        partial(perceptron, 12, 20, 30, 5),
        (7, 12),
        7 * (12 * 20 + 20 * 30 + 30 * 5),
        7 * (12 * 20 + 2 * 20 * 30 + 2 * 30 * 5),
    ),
    # forward |y|*(Cin/G)*k, the same for the weight, and for the input of the second layer
    "convolutions": (
        lambda: nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, stride=2, groups=4)),
        (2, 3, 9, 9),
        2 * 8 * 81 * 3 * 9 + 2 * 8 * 16 * 2 * 9,
        2 * 8 * 81 * 3 * 9 + 2 * (2 * 8 * 16 * 2 * 9),
    ),
    # forward |x|*(Cout/G)*k, the same for the weight and none for the input, which needs no gradient
    "transposed convolution": (
        lambda: nn.ConvTranspose2d(6, 4, 3, stride=2, groups=2),
        (2, 6, 5, 5),
        2 * 6 * 25 * 2 * 9,
        2 * 6 * 25 * 2 * 9,
    ),
    # two projections of N*T rows; attention's two products, and their four in the backward pass
    "attention": (
        Attention,
        (2, 10, 32),
        20 * 32 * 96 + 20 * 32 * 32 + 2 * (2 * 4 * 10 * 10 * 8),
        20 * 32 * 96 + 2 * 20 * 32 * 32 + 4 * (2 * 4 * 10 * 10 * 8),
    ),
    # an embedding has no products, and what it reads needs no gradient; then a linear layer
    "norms": (
        lambda: nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 4), nn.BatchNorm1d(4)),
        (6, 8),
        6 * 8 * 4,
        2 * 6 * 8 * 4,
    ),
}


@pytest.mark.parametrize("name", MACS)
def test_macs_are_those_of_the_products(name):
    build, shape, forward, backward = MACS[name]
    model = build()
    recorder = estimated(model, shape, backward=True)
    assert macs([call for call in recorder.calls if call.phase == "forward"]) == forward
    assert macs([call for call in recorder.calls if call.phase == "backward"]) == backward

    def run():
        model(torch.ones(shape)).sum().backward()

    real = record(run)
    assert macs([call for call in real.calls if call.phase == "backward"]) == backward


@pytest.mark.parametrize("name", MACS)
def test_a_backward_pass_without_data_is_that_of_a_cpu(name):
    build, shape, *_ = MACS[name]
    model = build()

    def run(module, x):
        y = module(x)
        torch.autograd.backward(y, torch.ones_like(y))

    real = record(lambda: run(model, torch.ones(shape)))
    skipped = {"ones", "ones_like"}
    found = [
        [(call.type, call.module, call.phase, call.layer) for call in recorder.calls if call.type not in skipped]
        for recorder in (real, estimated(model, shape, backward=True))
    ]
    assert found[0] == found[1]


def test_all_floating_point_outputs_are_summed():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 3, bias=False), nn.Linear(4, 5, bias=False)

        def forward(self, x):
            return {"a": self.a(x), "rest": [self.b(x), x.argmax(-1), None]}

    recorder = estimated(Two(), (2, 4), backward=True)
    assert macs([call for call in recorder.calls if call.phase == "backward"]) == 2 * 4 * 3 + 2 * 4 * 5
    assert [call.module for call in recorder.calls if call.phase == "backward" and call.type == "mm"] == ["b", "a"]


def test_a_model_of_shapes_only_has_no_backward_pass():
    with pytest.raises(CostError, match="no backward pass"):
        estimated(nn.Flatten(), (2, 3, 4), backward=True)


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("foreach", [False, True])
def test_a_step_of_training_by_phase(device, foreach):
    model = perceptron(4, 5, 3).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=foreach)
    x = torch.ones(2, 4, device=device)
    with ComputationalCostHook() as cch:
        optimizer.zero_grad()
        loss = functional.mse_loss(model(x), torch.zeros(2, 3, device=device))
        loss.backward()
        optimizer.step()
    entries = list(cch.layer_report.values())
    phases = ("forward", "backward", "optimizer")
    by_phase = {phase: [entry for entry in entries if entry["phase"] == phase] for phase in phases}
    assert sum(entry["macs"] for entry in by_phase["forward"]) == 2 * (4 * 5 + 5 * 3)
    assert sum(entry["macs"] for entry in by_phase["backward"]) == 2 * (4 * 5 + 2 * 5 * 3)
    # w -= 0.1 * gradient, a product and a sum for each parameter
    assert sum(entry["operations"]["fma"] for entry in by_phase["optimizer"]) == 4 * 5 + 5 + 5 * 3 + 3
    assert sum(map(len, by_phase.values())) == len(entries)
    assert cch.ignored_layers == {}


class Cautious(torch.optim.SGD):
    """Takes a step with another optimizer first, and a number of its own; may fail then."""

    def __init__(self, first, fails):
        super().__init__([torch.nn.Parameter(torch.ones(3))], lr=0.1)
        self.first, self.fails = first, fails

    @torch.no_grad()
    def step(self, closure=None):
        if self.first is not None:
            with contextlib.suppress(ArithmeticError):
                self.first.step()
        torch.ones(3).exp()
        if self.fails:
            raise ArithmeticError("no step")


@pytest.mark.parametrize("inner_fails", [False, True])
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("frames", [False, True])
def test_a_step_ends_with_its_function_however_that_ends(frames, fails, inner_fails):
    outer = Cautious(Cautious(None, inner_fails), fails)

    def run():
        for _ in range(2):
            with contextlib.suppress(ArithmeticError):
                outer.step()
            with torch.no_grad():
                torch.ones(3).log()

    calls = record(run, has_composites=frames).calls
    found = [(call.layer.op, call.phase) for call in calls if call.layer.op in ("exp", "log")]
    assert found == 2 * [("exp", "optimizer"), ("exp", "optimizer"), ("log", "forward")]


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_sparse_gradient_costs_the_copy_of_its_rows(device):
    """6 tokens of 4 float32: the gradient refers to the indices and rows; a copy of the rows has 6 * 4 * 4 bytes."""
    table, ids = nn.Embedding(10, 4, sparse=True, device=device), torch.zeros(6, dtype=torch.int64, device=device)
    x = torch.ones(6, 4, device=device)

    def run():
        y = table(ids)
        torch.autograd.backward(y, x)

    with ComputationalCostHook() as hook:
        run()
    entries = [entry for entry in hook.layer_report.values() if entry["phase"] == "backward"]
    copies = [6 * 4 * 4] if COPIES_WATCHED_SPARSE_GRADIENTS else []
    assert [entry["mwrite"] for entry in entries if entry["mrw"]] == copies
    assert not hook.ignored_layers


@pytest.mark.parametrize(
    ("optimizer", "flops"),
    [
        ("sgd", 12),  # 3 rows of 4 values, an fma each
        (lambda p: torch.optim.Adagrad(p, foreach=False), 6 * 12 + 1),  # and the step counter
        (torch.optim.SparseAdam, 14 * 12),
    ],
)
@pytest.mark.filterwarnings("ignore:Sparse invariant")
def test_a_step_on_sparse_gradients_updates_a_row_per_index(optimizer, flops):
    net = nn.Sequential(nn.Embedding(10, 4, sparse=True), nn.Linear(4, 2).requires_grad_(False))
    report = estimate(net, Tensor((3,), "int64"), optimizer=optimizer)
    assert report.by("phase")["optimizer"]["flops"] == flops


def test_adam_does_not_take_sparse_gradients():
    with pytest.raises(CostError, match="Adam does not support sparse gradients, please consider SparseAdam"):
        estimate(nn.Embedding(10, 4, sparse=True), Tensor((3,), "int64"), optimizer="adam")


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_recomputation_costs_another_forward_pass(device):
    model = perceptron(4, 8, 4).to(device)
    x = torch.ones(2, 4, device=device, requires_grad=True)

    def run():
        y = checkpoint(copy.deepcopy(model), x, use_reentrant=True)
        torch.autograd.backward(y, torch.ones_like(y))

    calls = record(run).calls
    forward = 2 * (4 * 8 + 8 * 4)
    found = {phase: macs([call for call in calls if call.phase == phase]) for phase in ("forward", "recompute")}
    assert found == {"forward": forward, "recompute": forward}
    assert macs([call for call in calls if call.phase == "backward"]) == 2 * forward
