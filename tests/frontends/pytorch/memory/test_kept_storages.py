"""Results that keep more memory than their elements need, as kernels of the CPU leave them."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from costcore import ComputationalCostHook, estimate

pytestmark = pytest.mark.filterwarnings("ignore:Using a target size")

NUMBERS = 8
"""Bytes of Python numbers that autograd stores, which no dispatch mode sees."""


class Of(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def grown(memory):
    return memory.peak - memory.base


def run(net, inputs, with_gradient):
    with torch.set_grad_enabled(with_gradient), ComputationalCostHook(memory=True) as hook:
        hook.watch(net, *inputs)
        y = net(*inputs)
        if with_gradient:
            y.sum().backward()
    return hook.memory


def agree(net, *inputs, backward=False):
    loss = {"loss": lambda y: y.sum()} if backward else {}
    estimated = estimate(net, inputs, memory=True, **loss).memory
    assert estimated.is_exact
    assert 0 <= grown(estimated) - grown(run(net, inputs, backward)) <= (NUMBERS if backward else 0)
    return grown(estimated)


LOSSES = ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "soft_margin_loss", "binary_cross_entropy"]


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("name", LOSSES)
def test_losses(name, reduction, backward):
    loss = getattr(functional, name)
    x, y = torch.rand(3, 4, requires_grad=backward), torch.rand(3, 4)
    agree(Of(lambda x, y: loss(x, y, reduction=reduction)), x, y, backward=backward)


def test_a_mean_keeps_what_it_is_the_mean_of():
    """The squares of 3 * 4 differences, 4 bytes each, behind one number."""
    assert agree(Of(functional.mse_loss), torch.rand(3, 1), torch.rand(1, 4)) == 3 * 4 * 4
    assert agree(Of(functional.mse_loss), torch.rand(0, 4), torch.rand(0, 4)) == 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 1])
@pytest.mark.parametrize("has_last", [False, True])
@pytest.mark.parametrize("trains", [False, True])
def test_bags(dtype, mode, padding, has_last, trains):
    net = nn.EmbeddingBag(9, 4, mode=mode, padding_idx=padding, include_last_offset=has_last, dtype=dtype)
    net.requires_grad_(trains)
    offsets = torch.tensor([0, 2, 3, 7] if has_last else [0, 2, 3])
    agree(net, torch.tensor([0, 2, 3, 4, 5, 6, 7]), offsets)


def test_bags_with_factors():
    indices, offsets = torch.tensor([0, 2, 3]), torch.tensor([0, 2])
    for factors in (torch.ones(3), torch.ones(3, 2)[:, 0]):
        agree(nn.EmbeddingBag(9, 4, mode="sum"), indices, offsets, factors)


def test_patches_and_their_sums():
    """The 8 * 16 values of patches are summed up in their memory; one patch of an image has the memory of the image."""
    x = torch.rand(1, 2, 5, 5)
    assert agree(Of(lambda x: functional.fold(x, (5, 5), 2)), torch.rand(1, 8, 16)) == 8 * 16 * 4
    assert agree(Of(lambda x: functional.unfold(x, 2, stride=5)), x) == 2 * 5 * 5 * 4
    assert agree(Of(lambda x: functional.fold(functional.unfold(x[0], 2), (5, 5), 2)), x) == 2 * 8 * 16 * 4
