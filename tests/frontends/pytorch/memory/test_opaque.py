"""Memory of what PyTorch runs out of sight of Python: it is that of a run, or said to be approximate."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from costcore import ComputationalCostHook, estimate

from .profiler import Run, profiled_peaks

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*torch.jit:DeprecationWarning", "ignore::torch.jit.TracerWarning", "ignore::costcore.CostWarning"
)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        y = self.a(x)
        return torch.tanh(self.b(torch.relu(y) + y * 2))


class WithCompiledPart(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.part, self.last = nn.Linear(16, 16), torch.jit.script(Net()), nn.Linear(16, 16)

    def forward(self, x):
        return self.last(self.part(self.first(x)))


TORCHSCRIPT = {
    "script": lambda: torch.jit.script(Net()),
    "trace": lambda: torch.jit.trace(Net(), torch.ones(8, 16)),
    "part": WithCompiledPart,
}

X = torch.ones(8, 16)


def step(net, trains):
    with torch.set_grad_enabled(trains):
        y = net(X)
        if trains:
            loss = y.sum()
            loss.backward()
            return y, loss
    return y


@pytest.mark.parametrize("trains", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("name", TORCHSCRIPT)
def test_a_module_of_torchscript_has_the_measured_peak(name, trains):
    net = TORCHSCRIPT[name]().train(trains)
    for _ in range(3):  # TorchScript rewrites a graph in its first runs
        step(net, trains)
        net.zero_grad()
    measured = profiled_peaks({name: Run(partial(step, net, trains), net.zero_grad)})[name]
    net.zero_grad()
    with ComputationalCostHook(memory=True) as hook:
        hook.watch(net, X)
        held = step(net, trains)
    del held
    options = {"backward": True, "loss": lambda y: y.sum()} if trains else {}
    report = estimate(net, X, memory=True, **options)
    assert report.memory.is_exact
    assert report.memory.base == hook.memory.base
    assert report.memory.peak - report.memory.base == hook.memory.peak - hook.memory.base == measured
    for column in ("flops", "macs", "mread", "mwrite", "n_layers", "n_params"):
        assert report.total_report[column] == hook.total_report[column]
    assert all(parameter.device.type == "cpu" for parameter in net.parameters())


@pytest.mark.filterwarnings("ignore:flex_attention called without:UserWarning")
def test_flex_attention_is_said_to_be_approximate():
    flex = pytest.importorskip("torch.nn.attention.flex_attention")

    class Attention(nn.Module):
        def forward(self, x):
            return flex.flex_attention(x, x, x)

    x = torch.ones(1, 2, 256, 16)
    memory = estimate(Attention(), x, memory=True).memory
    assert not memory.is_exact
    assert "flex_attention is counted as one kernel that keeps no scores" in memory.notes[0]
    assert memory.peak - memory.base < 4 * 2 * 256 * 256  # the scores of two heads
    with ComputationalCostHook(memory=True) as hook:
        hook.watch(x)
        Attention()(x)
    assert not hook.memory.is_exact
    assert hook.memory.peak == memory.peak


def test_a_packed_sequence_is_said_to_be_approximate():
    class Packed(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.GRU(5, 7, batch_first=True)

        def forward(self, x):
            return self.layer(pack_padded_sequence(x, torch.tensor([4, 2]), batch_first=True))[1]

    memory = estimate(Packed(), (2, 4, 5), memory=True).memory
    assert not memory.is_exact
    assert any("packed sequence" in note for note in memory.notes)
