"""Results that keep more memory than their elements need, as kernels of the CPU leave them."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from costcore import ComputationalCostHook, estimate
from tests.frontends.pytorch.differences import refuses

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


def test_what_a_cpu_never_holds_of_an_operator_is_not_counted():
    """Mish makes its result and a gradient, of 4 * 5 values each, beside the loss and the gradient of that."""
    assert agree(nn.Mish(), torch.rand(4, 5, requires_grad=True), backward=True) <= 4 * (2 * 20 + 2) + NUMBERS
    images = torch.rand(1, 4, 3, 3, requires_grad=True)
    if not refuses(lambda: nn.ChannelShuffle(2)(images).sum().backward()):  # PyTorch 2.4 has no gradient of it
        agree(nn.ChannelShuffle(2), images, backward=True)
    assert agree(Of(torch.linalg.svdvals), torch.rand(5, 5)) == 5 * 4
    assert agree(Of(torch.linalg.eigvalsh), torch.rand(5, 5)) == 5 * 4


def test_layers_that_run_otherwise_on_a_cpu_are_said_to_be_approximate():
    lengths = torch.tensor([5, 5]), torch.tensor([3, 2])
    loss = nn.CTCLoss()
    with torch.no_grad():
        report = estimate(Of(loss), [torch.rand(5, 2, 4), torch.ones(2, 3, dtype=torch.long), *lengths], memory=True)
    assert not report.memory.is_exact and "ctc_loss" in " ".join(report.memory.notes)
    for net in nn.LSTM(3, 5, proj_size=2), nn.LSTM(3, 5).double():
        shape = (4, 2, 3)
        assert estimate(net, shape, memory=True).memory.is_exact
        trained = estimate(net, shape, memory=True, backward=True).memory
        assert not trained.is_exact and "oneDNN" in " ".join(trained.notes)


class First(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)[0]


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize("settings", [{}, {"bidirectional": True, "num_layers": 2}, {"batch_first": True}])
def test_lstm_layers_that_onednn_does_not_compute(settings):
    x = torch.ones(4, 2, 3)
    agree(First(nn.LSTM(3, 5, **settings).double()), x.double())
    agree(First(nn.LSTM(3, 5, proj_size=2, **settings)), x)
