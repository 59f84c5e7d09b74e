"""Mixtures of experts that ONNX Runtime adds."""

from __future__ import annotations

from costcore.ir import Operations, Tensor
from tests.frontends.onnx.contrib.single_node import UINT8, priced, shapes
from tests.frontends.onnx.contrib.test_quantization import JOIN, ROUTER


def test_mixture_of_experts_runs_k_of_them():
    layer, cost, _ = priced(
        "MoE", (6, 8), (6, 4), {(4, 16, 8)}, {(4, 16)}, {(4, 8, 16)}, {(4, 8)}, k=2, activation_type="relu"
    )
    assert shapes(layer) == [(6, 8)]
    assert cost.macs == 6 * 2 * (16 * 8 + 8 * 16)
    assert cost.flops == ROUTER + Operations(fma=12 * 256) + Operations(cmp=12 * 16) + JOIN


def test_experts_that_no_token_reaches_are_not_read():
    _, cost, _ = priced("MoE", (1, 8), (1, 4), {(4, 16, 8)}, None, {(4, 8, 16)}, k=2)
    assert cost.mread == 4 * (8 + 4 + 2 * 2 * 128)


def test_swiglu_doubles_the_first_layer():
    _, cost, _ = priced(
        "MoE", (6, 8), (6, 4), {(4, 32, 8)}, None, {(4, 8, 16)}, k=2, activation_type="swiglu", swiglu_fusion=1
    )
    assert cost.macs == 12 * (32 * 8 + 8 * 16)
    gate = 12 * 16 * Operations(mul=3, add=3, div=1, special=1)
    products = Operations(mul=12 * 32, fma=12 * 32 * 7) + Operations(mul=12 * 8, fma=12 * 8 * 15)
    assert cost.flops == ROUTER + products + gate + JOIN


def test_packed_experts():
    inputs = [(6, 8), (6, 4), {(UINT8, (4, 16, 4))}, {(4, 16)}, None, {(UINT8, (4, 8, 8))}, {(4, 8)}]
    layer, cost, recorder = priced("QMoE", *inputs, k=2, expert_weight_bits=4, activation_type="silu")
    assert layer["w0"] == Tensor((4, 16, 8), "uint4", "param")
    assert cost.macs == 12 * (16 * 8 + 8 * 16)
    assert recorder.n_params_model == 4 * 128 * 2
    # every expert is reached: 4 * 256 weights minus 8, times their scale; 12 rows through 16 SiLUs
    products = Operations(mul=12 * 16, fma=12 * 16 * 7) + Operations(mul=12 * 8, fma=12 * 8 * 15)
    real, gate = Operations(mul=1024, add=1024), 12 * 16 * Operations(mul=1, add=2, div=1, special=1)
    assert cost.flops == ROUTER + products + real + gate + JOIN
