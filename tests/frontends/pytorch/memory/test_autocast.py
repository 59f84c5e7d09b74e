"""Under autocast, estimates and runs without data cost what a run on a CPU costs, and need its memory."""

from __future__ import annotations

import gc
from contextlib import nullcontext

import pytest
import torch
from torch import nn

from costcore import ComputationalCostHook, estimate
from tests.frontends.pytorch.differences import RUNS_A_FUSED_LAYER_IN_BFLOAT16

from .autocast_networks import NETWORKS
from .profiler import Run, profiled_peaks

COLUMNS = ("flops", "macs", "mread", "mwrite", "n_layers", "n_params")

NUMBERS = 8
"""Bytes of a Python number that an operator turns into a tensor, which no dispatch mode sees."""

pytestmark = pytest.mark.filterwarnings("ignore::costcore.CostWarning")


@pytest.fixture(scope="module", autouse=True)
def _fast_collector():
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def loss_of(y):
    return y.float().sum()


class InsideOfTheModel(nn.Module):
    """A model that enters autocast itself, so that its backward pass is outside."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            return self.net(x)


def figures_of(report):
    memory = report.memory
    return [report.total_report[name] for name in COLUMNS] + [memory.base, memory.peak, memory.end]


def step(net, x, trains):
    with torch.set_grad_enabled(trains):
        y = net(x)
        if trains:
            loss = loss_of(y)
            loss.backward()
            return y, loss
    return y


def recorded(net, x, trains, n_runs=2):
    """Return the report of a run after a first one, in which PyTorch imports modules."""
    for _ in range(n_runs):
        net.zero_grad()
        gc.collect()
        with around(net), ComputationalCostHook(memory=True) as hook:
            hook.watch(net, x)
            held = step(net, x, trains)
        del held
    return hook.report


def around(net):
    return nullcontext() if isinstance(net, InsideOfTheModel) else torch.autocast("cpu", torch.bfloat16)


@pytest.mark.parametrize("trains", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("name", NETWORKS)
def test_an_estimate_equals_a_run(name, trains):
    """In every other network the model enters autocast itself: its backward pass is outside."""
    is_inside = (list(NETWORKS).index(name) + trains) % 2 == 1
    net, x = NETWORKS[name]()
    net = (InsideOfTheModel(net) if is_inside else net).train(trains)
    expected = recorded(net, x, trains)
    options = {"backward": True, "loss": loss_of} if trains else {}
    with around(net):
        found = estimate(net, x, memory=True, **options)
    assert figures_of(found) == figures_of(expected)
    assert found.memory.is_exact
    assert figures_of(recorded(net.to("meta"), x.to("meta"), trains, 1)) == figures_of(expected)


def test_sixteen_weights_are_all_alive_at_the_end():
    """The copies of sixteen weights of 64 * 64 numbers, 2 bytes each, and the input and output of the last layer."""
    net, x = NETWORKS["sixteen_linears"]()
    with torch.autocast("cpu", torch.bfloat16):
        memory = estimate(net, x, memory=True).memory
    assert memory.peak - memory.base == 16 * 64 * 64 * 2 + 2 * 2 * 64 * 2


@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("name", ["one_layer_four_times", "nested_blocks"])
def test_a_run_has_the_measured_peak(name, trains):
    net, x = NETWORKS[name]()
    net = InsideOfTheModel(net).train(trains)
    measured = profiled_peaks({name: Run(lambda: step(net, x, trains), net.zero_grad)})[name]
    net.zero_grad()
    with ComputationalCostHook(memory=True) as hook:
        hook.watch(net, x)
        held = step(net, x, trains)
    del held
    assert 0 <= measured - (hook.memory.peak - hook.memory.base) <= NUMBERS


def test_copies_are_cleared_with_those_of_pytorch():
    """A weight of 8 * 8 numbers is cast for each of the three blocks: its copy has 128 bytes."""
    weight, x = nn.Parameter(torch.ones(8, 8, device="meta")), torch.ones(1, 8, device="meta")
    with ComputationalCostHook() as hook:
        for _ in range(3):
            with torch.autocast("cpu", torch.bfloat16), torch.autocast("cpu", torch.bfloat16):
                (x @ weight).float() @ weight
    casts = [call for call in hook.calls if call.type == "to" and call.layer.out.shape == (8, 8)]
    assert len(casts) == 3


@pytest.mark.skipif(not RUNS_A_FUSED_LAYER_IN_BFLOAT16, reason="the layer does not run under autocast")
def test_a_fused_transformer_layer_is_said_to_be_approximate():
    net = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval()
    x = torch.ones(2, 6, 32)
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        with ComputationalCostHook(memory=True) as hook:
            net(x)
        memories = hook.memory, estimate(net, x, memory=True).memory
    assert not any(memory.is_exact for memory in memories)
    assert all("autocast" in " ".join(memory.notes) for memory in memories)
