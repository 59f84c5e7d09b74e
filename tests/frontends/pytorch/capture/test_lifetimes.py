"""A capture keeps no tensor alive longer than the run itself."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.frontends.pytorch.differences import CHECKPOINTS_META_TENSORS
from tests.frontends.pytorch.runs import capturing


class Block(nn.Module):
    """A residual block in which the recomputation ends within a module."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.wide, self.narrow = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)
        self.inner = nn.Sequential(nn.GELU(), nn.Sequential(self.narrow, nn.SiLU()))

    def forward(self, x):
        return x + self.inner(self.wide(self.norm(x)))


class Checkpointed(nn.Module):
    """Blocks whose activations are computed again in the backward pass."""

    def __init__(self, use_reentrant: bool) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.use_reentrant = use_reentrant

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=self.use_reentrant)
        return x


@contextmanager
def _without_collector() -> Iterator[None]:
    gc.collect()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _watch(net):
    """Return weak references to the output of every module that runs from now on."""
    seen = []

    def hook(module, args, output):
        seen.append(weakref.ref(output))

    for module in net.modules():
        module.register_forward_hook(hook)
    return seen


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("use_reentrant", [False, True])
@pytest.mark.parametrize("is_captured", [False, True])
def test_recomputed_activations_die_with_their_block(is_captured, use_reentrant, device):
    is_needed = device == "meta" and not CHECKPOINTS_META_TENSORS
    if is_needed and not is_captured:
        pytest.skip("this PyTorch checkpoints no meta tensors")
    net = Checkpointed(use_reentrant).to(device)
    x = torch.ones(2, 8, device=device, requires_grad=True)
    with capturing() if is_needed else nullcontext():
        net(x).sum().backward()  # PyTorch imports modules in the first one
    seen = _watch(net)
    with _without_collector(), capturing() if is_captured else nullcontext():
        net(x).sum().backward()
        alive = [reference for reference in seen if reference() is not None]
    assert len(seen) >= 2 * 3 * 6
    assert alive == []


def test_an_exception_that_is_caught_keeps_nothing_alive():
    class Failing(nn.Module):
        def forward(self, x):
            y = x * 2
            seen.append(weakref.ref(y))
            raise ValueError("odd")

    seen: list = []
    net = nn.Sequential(nn.Linear(8, 8), nn.Sequential(Failing()))
    with _without_collector(), capturing():
        for _ in range(2):
            with suppress(ValueError):
                net(torch.ones(2, 8))
            assert seen[-1]() is None


def test_a_training_step_keeps_nothing_alive():
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2))
    optimizer = torch.optim.Adam(net.parameters())
    seen = _watch(net)
    with _without_collector(), capturing():
        net(torch.ones(2, 3, 6, 6)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        assert [reference for reference in seen if reference() is not None] == []
