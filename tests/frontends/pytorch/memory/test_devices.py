"""Memory on several devices: the CPU, and the meta device in the place of another one."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks

from costcore import ComputationalCostHook, Report, estimate


def offloaded():
    """Return the memory of a run on the CPU whose saved tensors move to another device until the backward pass."""
    net = nn.Sequential(*[nn.Tanh() for _ in range(4)])
    x = torch.ones(8, 8, requires_grad=True)
    with ComputationalCostHook(memory=True) as hook:
        hook.watch(net, x)
        with saved_tensors_hooks(lambda y: y.to("meta"), lambda y: torch.zeros(y.shape)):
            y = net(x)
        y.sum().backward()
    return hook.memory


def test_every_device_has_its_peak():
    memory = offloaded()
    # Elsewhere: the result of each of 4 layers, 256 bytes.
    # Here, in the backward pass: x and y 256 each, the sum and its gradient 4 each. The gradient of a layer is made
    # from that of the next one and from the tensor that came back: 3 * 256. That of the last layer is expanded from 4.
    assert memory.by_device == {"cpu": 2 * 256 + 8 + 3 * 256, "meta": 4 * 256}
    assert memory.peak < sum(memory.by_device.values())  # which are reached at different moments
    assert {block["device"] for block in memory.blocks()} == {"cpu", "meta"}


def test_the_ledger_of_one_device():
    memory = offloaded()
    here, there = memory.ledger.on("cpu"), memory.ledger.on("meta")
    assert [a + b for a, b in zip(here.live(), there.live(), strict=True)] == memory.ledger.live()
    assert memory.allocator(device="meta").requested == 4 * 256
    assert memory.allocator(device="cpu").requested == 2 * 256 + 8 + 3 * 256
    assert memory.allocator().requested == 4 * 256  # the CPU has no such allocator
    with pytest.raises(ValueError, match="unknown device 'cuda'"):
        memory.allocator(device="cuda")


def test_devices_are_saved():
    net = nn.Sequential(nn.Linear(8, 16, bias=False), nn.Linear(16, 4, bias=False))
    report = estimate(net, (2, 8), memory=True, optimizer="adamw")
    # PyTorch keeps the number of the step of every parameter on the CPU.
    assert report.memory.by_device["cpu"] == 2 * 4
    assert Report.from_json(report.to_json()).memory == report.memory
    blocks = report.to_dict()["memory"]["blocks"]
    assert [block["device"] for block in blocks if "device" in block] == ["cpu"] * 2


def test_an_estimate_has_one_device():
    class Offloaded(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(8, 8, bias=False), nn.Tanh(), nn.Tanh())

        def forward(self, x):
            with save_on_cpu():
                return self.net(x)

    memory = estimate(Offloaded(), (4, 8), memory=True, backward=True).memory
    assert [*memory.by_device] == ["meta"]
    assert any("treated as a no-op" in note for note in memory.notes)
