"""What rows of gradients, optimizers, sparse tensors and linear algebra say, by hand."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from costcore.counting.pricing import Pricer
from costcore.ir import Operations
from costcore.registry.calculators import calculators
from tests.frontends.pytorch.runs import macs, record


def costs(recorder, native):
    """Costs of all calls of an operator, with their layers."""
    pricer = Pricer(calculators())
    return [(call.layer, pricer(call).cost) for call in recorder.calls if call.native == f"aten::{native}"]


def trained(run, *inputs):
    def train():
        result = run(*inputs)
        torch.autograd.backward(result, torch.ones_like(result))

    return record(train)


def leaf(*shape, **settings):
    return torch.full(shape, 0.5, requires_grad=True, **settings)


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
def test_norms_make_the_gradients_that_are_needed(make, shape, native, op):
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


@pytest.mark.parametrize(
    ("make", "flops", "moments"),
    [
        (lambda p: torch.optim.SGD(p, 0.1, fused=True), Operations(fma=1), 0),
        (lambda p: torch.optim.SGD(p, 0.1, 0.9, fused=True), Operations(fma=2), 1),
        (lambda p: torch.optim.SGD(p, 0.1, 0.9, nesterov=True, fused=True), Operations(fma=3), 1),
        (lambda p: torch.optim.Adam(p, fused=True), Operations(fma=2, mul=4, add=2, div=1, special=1), 2),
        (lambda p: torch.optim.AdamW(p, fused=True), Operations(fma=2, mul=5, add=2, div=1, special=1), 2),
        (
            lambda p: torch.optim.Adam(p, amsgrad=True, fused=True),
            Operations(fma=2, mul=4, add=2, div=1, cmp=1, special=1),
            3,
        ),
        (lambda p: torch.optim.Adagrad(p, fused=True), Operations(fma=1, mul=1, add=2, div=1, special=1), 1),
    ],
)
def test_fused_steps(make, flops, moments):
    parameters = [leaf(2, 3), leaf(4)]
    optimizer = make(parameters)
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    pricer = Pricer(calculators())
    steps = [pricer(c).cost for c in record(optimizer.step).calls if c.native.startswith("aten::_fused")]
    assert [step.flops for step in steps] == [10 * flops]
    assert [(step.mread, step.mwrite) for step in steps] == [(40 * (2 + moments), 40 * (1 + moments))]


@pytest.mark.parametrize("make", [torch.Tensor.to_sparse_csr, torch.Tensor.to_sparse])
@pytest.mark.filterwarnings("ignore:Sparse")
def test_sparse_products_multiply_the_values_they_have(make):
    matrix, x = make(torch.eye(3)), torch.ones(3, 2)
    ((layer, cost),) = costs(record(lambda: torch.mm(matrix, x)), "mm")
    assert layer.op == "sparse_dense_matmul"
    indices = 3 * 2 if matrix.layout is torch.sparse_coo else 4 + 3
    assert (cost.macs, cost.mread) == (3 * 2, 4 * (3 + 6) + 8 * indices)


def test_linear_algebra():
    a = torch.eye(4) + torch.ones(4, 4)
    run = {
        "solve": lambda: torch.linalg.solve(a, torch.ones(4, 2)),
        "singular_values": lambda: torch.linalg.svd(a, full_matrices=False),
        "symmetric_eigen": lambda: torch.ops.aten._linalg_eigh(a, "L", False),
        "cholesky": lambda: torch.linalg.cholesky(a),
    }
    for op, function in run.items():
        assert op in [call.layer.op for call in record(function).calls]
    # values of a 4 x 4 matrix: 2/3 of 64, rounded down
    ((_, cost),) = costs(record(run["symmetric_eigen"]), "_linalg_eigh")
    assert cost.flops == Operations(fma=42)


def test_real_and_complex_transforms():
    ((_, cost),) = costs(record(lambda: torch.fft.rfft2(torch.ones(3, 4, 8))), "_fft_r2c")
    # per matrix: 4 rows of 8 elements, half of 3 stages; 5 columns of 4 elements, 2 stages
    assert cost.flops == 3 * (4 * 3 * 2 * Operations(mul=4, add=6) + 20 * 2 * Operations(mul=2, add=3))
    ((_, cost),) = costs(record(lambda: torch.fft.ifft(torch.ones(8, dtype=torch.complex64))), "_fft_c2c")
    assert cost.flops == 3 * 8 * Operations(mul=2, add=3) + Operations(mul=16)


def test_a_bilinear_gradient_contracts_one_operand_after_another():
    layer = nn.Bilinear(3, 4, 5)
    recorder = trained(layer, leaf(2, 3), leaf(2, 4))
    found = [cost.macs for layer, cost in costs(recorder, "_trilinear")]
    assert found and all(found)


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_quantisation_and_back():
    x = torch.ones(3, 4)
    ((layer, cost),) = costs(record(lambda: torch.quantize_per_tensor(x, 0.1, 3, torch.quint8)), "quantize_per_tensor")
    assert (layer.op, cost.flops, cost.mread, cost.mwrite) == ("quantize", Operations(add=12, div=12, cmp=36), 48, 12)
    quantised = torch.quantize_per_tensor(x, 0.1, 3, torch.quint8)
    ((layer, cost),) = costs(record(quantised.dequantize), "dequantize")
    assert (layer.op, cost.flops, cost.mread, cost.mwrite) == ("dequantize", Operations(add=12, mul=12), 12, 48)
    faked = record(lambda: torch.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 255))
    assert "fake_quantize" in [call.layer.op for call in faked.calls]


def test_a_call_whose_output_depends_on_data_tells_nothing_of_another():
    def run():
        for row in (torch.tensor([1, 0, 0]), torch.tensor([1, 1, 1])):
            torch.nonzero(row)
            torch.masked_select(row, row > 0)
            functional.one_hot(row)

    found = [call.layer.out.shape for call in record(run).calls if call.layer.op != "greater"]
    assert found == [(1, 1), (1,), (3, 2), (3, 1), (3,), (3, 2)]
    wider = record(lambda: [functional.one_hot(torch.tensor([n])) for n in (1, 4)])
    assert [call.layer.out.shape for call in wider.calls if call.layer.op == "one_hot"] == [(1, 2), (1, 5)]


@pytest.mark.parametrize(("device", "told"), [("cpu", 3), ("meta", 12)], ids=["where bags start", "bags of all"])
def test_an_embedding_bag_adds_a_row_for_every_index(device, told):
    layer = nn.EmbeddingBag(7, 2, mode="sum", device=device)
    rows = torch.ones(3, 4, dtype=torch.int64, device=device)
    ((found, cost),) = costs(trained(layer, rows), "_embedding_bag_backward")
    assert cost.flops == Operations(add=12 * 2)
    assert (cost.mread, cost.mwrite) == (4 * 3 * 2 + 8 * 12 + 8 * told, 4 * 7 * 2)
    assert found.outputs[0].shape == (7, 2)
