"""Rows of the gradients of layers, with costs worked out by hand."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from costcore.ir import Operations
from tests.frontends.pytorch.rows.recorded_costs import costs, leaf, trained
from tests.frontends.pytorch.runs import macs


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(("kind", "transposed"), [(nn.Conv2d, False), (nn.ConvTranspose2d, True)])
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_convolution_has_a_product_for_each_gradient(kind, transposed, groups, device):
    layer = kind(4, 6, 3, groups=groups, device=device)
    positions = 5 * 5 if not transposed else 7 * 7
    products = 2 * 7 * 7 * 4 * (6 // groups) * 9 if transposed else 2 * positions * 6 * (4 // groups) * 9
    x = leaf(2, 4, 7, 7, device=device)
    ((both, cost),) = costs(trained(layer, x), "convolution_backward")
    assert both.op == ("conv_transpose_backward" if transposed else "conv_backward")
    assert both.attrs["needs"] == ("x", "w", "b")
    assert [y.shape for y in both.outputs] == [(2, 4, 7, 7), tuple(layer.weight.shape), (6,)]
    assert cost.macs == 2 * products
    ((weights, cost),) = costs(trained(layer, x.detach()), "convolution_backward")
    assert (weights.attrs["needs"], cost.macs) == (("w", "b"), products)
    layer.requires_grad_(False)
    ((data, cost),) = costs(trained(layer, x), "convolution_backward")
    assert (data.attrs["needs"], cost.macs) == (("x",), products)


@pytest.mark.parametrize(
    ("make", "shape", "native", "op"),
    [
        (lambda: nn.BatchNorm1d(3), (4, 3), "native_batch_norm_backward", "batch_norm_backward"),
        (lambda: nn.LayerNorm(3), (4, 3), "native_layer_norm_backward", "layer_norm_backward"),
        (lambda: nn.GroupNorm(3, 6), (4, 6, 2), "native_group_norm_backward", "group_norm_backward"),
        (lambda: nn.InstanceNorm1d(3, affine=True), (4, 3, 5), "native_batch_norm_backward", "batch_norm_backward"),
    ],
)
def test_norms_compute_the_gradients_that_are_needed(make, shape, native, op):
    layer = make()
    ((found, cost),) = costs(trained(layer, leaf(*shape)), native)
    assert (found.op, found.attrs["needs"]) == (op, ("x", "w", "b"))
    layer.requires_grad_(False)
    ((found, less),) = costs(trained(layer, leaf(*shape)), native)
    assert found.attrs["needs"] == ("x",)
    assert less.flops.add <= cost.flops.add


def test_a_batch_norm_at_inference_scales_its_gradient():
    ((layer, cost),) = costs(
        trained(nn.BatchNorm1d(3).eval().requires_grad_(False), leaf(4, 3)), "native_batch_norm_backward"
    )
    assert (layer.attrs["training"], cost.flops) == (False, Operations(mul=12))


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_attention_has_four_products_backward(device):
    q, k = leaf(2, 4, 3, 8, device=device), leaf(2, 4, 5, 8, device=device)
    recorder = trained(functional.scaled_dot_product_attention, q, k, k)
    ((layer, cost),) = costs(recorder, "_scaled_dot_product_flash_attention_for_cpu_backward")
    assert layer.op == "attention_backward"
    assert cost.macs == 4 * (2 * 4 * 3 * 5 * 8)
    # q, k, v, dy and y, and a logarithm for each query; dq, dk, dv
    assert cost.mread == 4 * (3 * 192 + 2 * 320 + 24)
    assert cost.mwrite == 4 * (192 + 2 * 320)


@pytest.mark.parametrize("mode", ["LSTM", "GRU", "RNN"])
def test_a_recurrent_layer_has_two_products_for_each(mode):
    layer = getattr(nn, mode)(3, 4)
    state = leaf(1, 2, 4)
    recorder = trained(lambda x: layer(x, (state, state) if mode == "LSTM" else state)[0], leaf(5, 2, 3))
    forward = macs([call for call in recorder.calls if call.phase == "forward"])
    backward = macs([call for call in recorder.calls if call.phase == "backward"])
    assert forward == {"LSTM": 4, "GRU": 3, "RNN": 1}[mode] * 5 * 2 * 4 * (3 + 4)
    assert backward == 2 * forward


def test_losses_are_reduced_as_their_gradients_are():
    recorder = trained(functional.mse_loss, leaf(3, 4), torch.ones(3, 4))
    ((layer, cost),) = costs(recorder, "mse_loss_backward")
    assert layer.attrs["reduction"] == "mean"
    assert cost.flops == Operations(mul=24, add=12, div=1)


def test_a_bilinear_gradient_contracts_one_operand_after_another():
    layer = nn.Bilinear(3, 4, 5)
    recorder = trained(layer, leaf(2, 3), leaf(2, 4))
    found = [cost.macs for layer, cost in costs(recorder, "_trilinear")]
    assert found and all(found)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_an_embedding_bag_adds_a_row_for_every_index(device):
    layer = nn.EmbeddingBag(7, 2, mode="sum", device=device)
    rows = torch.ones(3, 4, dtype=torch.int64, device=device)
    name, n_offsets = "_embedding_bag_backward", 3  # the start of each bag
    if torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "CompositeImplicitAutograd"):
        name, n_offsets = "_embedding_bag_dense_backward", 12  # PyTorch before 2.6 finds the bag of each index apart
    ((found, cost),) = costs(trained(layer, rows), name)
    assert cost.flops == Operations(add=12 * 2)
    assert (cost.mread, cost.mwrite) == (4 * 3 * 2 + 8 * 12 + 8 * n_offsets, 4 * 7 * 2)
    assert found.outputs[0].shape == (7, 2)
