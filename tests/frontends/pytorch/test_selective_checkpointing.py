"""Selective activation checkpointing: what runs again is counted, and nothing that was saved."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts
from torch.utils.flop_counter import FlopCounterMode

from costcore import ComputationalCostHook, estimate

ATEN = torch.ops.aten
SAVE, RECOMPUTE = CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_RECOMPUTE


class Attention(nn.Module):
    def __init__(self, is_fused: bool) -> None:
        super().__init__()
        self.qkv, self.out, self.is_fused = nn.Linear(32, 96), nn.Linear(32, 32), is_fused

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (4, 8)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        if self.is_fused:
            y = functional.scaled_dot_product_attention(q, k, v)
        else:
            y = (q @ k.transpose(-1, -2)).softmax(-1) @ v
        return self.out(y.transpose(1, 2).flatten(2))


class Selective(nn.Module):
    def __init__(self, net, policy) -> None:
        super().__init__()
        self.net, self.context = net, partial(create_selective_checkpoint_contexts, policy)

    def forward(self, x):
        return checkpoint(self.net, x, use_reentrant=False, context_fn=self.context)


NETWORKS = {
    "linear": (lambda: nn.Sequential(nn.Linear(16, 32, bias=False), nn.GELU(), nn.Linear(32, 8, bias=False)), (4, 16)),
    "biased": (lambda: nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.Linear(32, 16)), (4, 7, 16)),
    "conv": (
        lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.ReLU(), nn.Conv2d(8, 4, 3)),
        (2, 3, 9, 9),
    ),
    "attention": (partial(Attention, False), (2, 5, 32)),
}
POLICIES = {
    "mm": [ATEN.mm.default],
    "all products": [ATEN.mm.default, ATEN.addmm.default, ATEN.bmm.default, ATEN.convolution.default],
    "nothing": [ATEN.tanh.default],
    "all but products": lambda _, op, *args, **kwargs: (
        RECOMPUTE if op in (ATEN.mm.default, ATEN.addmm.default, ATEN.convolution.default) else SAVE
    ),
}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("network", NETWORKS)
def test_products_that_run_again(network, policy):
    """The judge sees every product on its way to the device; two FLOPs are one MAC of it."""
    make, shape = NETWORKS[network]
    net = Selective(make(), POLICIES[policy])
    with FlopCounterMode(display=False) as counter:
        net(torch.randn(shape, requires_grad=True)).sum().backward()
    net.zero_grad()  # whose gradients a second pass would add to
    x = torch.randn(shape, requires_grad=True)
    with ComputationalCostHook() as cch:
        net(x).sum().backward()
    report = estimate(net, x.detach().requires_grad_(), loss=torch.sum)
    assert 2 * cch.total_report["macs"] == counter.get_total_flops()
    assert report.total_report.items() >= cch.total_report.items()


def recomputed(report):
    return report.by("phase")["recompute"]["macs"] if "recompute" in report.by("phase") else 0


def test_a_policy_for_a_gpu_saves_attention_in_an_estimate():
    """Its scores and values are 2 x 4 x 5 x 5 x 8 products each; qkv are 10 x 32 x 96, and out is not needed again."""
    saving = [getattr(ATEN, f"_scaled_dot_product_{name}_attention").default for name in ("flash", "efficient")]
    of_gpu, of_none = (Selective(Attention(True), names) for names in (saving, [ATEN.tanh.default]))
    attention, projection = 2 * (2 * 4 * 5 * 5 * 8), 10 * 32 * 96
    assert recomputed(estimate(of_none, (2, 5, 32), backward=True)) == projection + attention
    assert recomputed(estimate(of_gpu, (2, 5, 32), backward=True)) == projection
