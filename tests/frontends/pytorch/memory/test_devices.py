"""Memory on several devices: the CPU, and the meta device in the place of another one."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks

from costcore import ComputationalCostHook


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
