"""Steps of optimizers on the meta device have the memory that the profiler of PyTorch measures on a CPU."""

from __future__ import annotations

import pytest
import torch
from torch import optim

from costcore import estimate

from .cases import mlp
from .profiler import Run, profiled_peaks

OPTIMIZERS = {
    "adamw_fused": lambda p: optim.AdamW(p, fused=True),
    "sgd_fused": lambda p: optim.SGD(p, 0.1, 0.9, fused=True),
    "adagrad_fused": lambda p: optim.Adagrad(p, fused=True),
    "asgd": lambda p: optim.ASGD(p, foreach=False),
    "nadam_foreach": lambda p: optim.NAdam(p, foreach=True),
    "rprop": optim.Rprop,
}
if hasattr(optim, "Adafactor"):  # since PyTorch 2.5
    OPTIMIZERS["adafactor"] = lambda p: optim.Adafactor(p, foreach=False)


def measured_step(make):
    net, x = mlp("cpu")
    optimizer = make(net.parameters())

    def run():
        y = net(x)
        loss = y.sum()
        loss.backward()
        optimizer.step()
        return y, loss

    return Run(run, net.zero_grad)


@pytest.fixture(scope="module")
def measured():
    return profiled_peaks({name: measured_step(make) for name, make in OPTIMIZERS.items()})


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_has_the_measured_peak(name, measured):
    net, _ = mlp("cpu")
    report = estimate(net, (4, 8), memory=True, optimizer=OPTIMIZERS[name], loss=torch.sum)
    ledger = report.memory.ledger
    peak = max(ledger._replace(blocks=tuple(block for block in ledger.blocks if block.born)).live())
    assert 0 <= measured[name] - peak <= 8
    assert any(call.phase == "optimizer" for call in report.calls)
