"""Fused operators and mixtures of experts that ONNX Runtime adds, by hand."""

from __future__ import annotations

import pytest

from costcore.ir import Operations, Tensor
from tests.frontends.onnx.contrib.single_node import INT32, INT64, UINT8, priced, shapes
from tests.frontends.onnx.contrib.test_quantization import JOIN, ROUTER

# one row of 4: layer norm 2c-1 fma, c+1 mul, 2c add, 3 div, 1 special
NORM = Operations(fma=7, mul=5, add=8, div=3, special=1)
RMS = Operations(fma=3, mul=9, add=1, div=2, special=1)


def test_norms_of_sums_write_the_sum():
    layer, cost, _ = priced("SkipLayerNormalization", (2, 4), (2, 4), {(4,)}, {(4,)}, {(4,)})
    assert shapes(layer) == [(2, 4)]
    assert cost.flops == 2 * NORM + Operations(add=16)
    node = ["SkipSimplifiedLayerNormalization", (2, 4), (2, 4), {(4,)}]
    layer, cost, _ = priced(*node, outputs=4)
    assert shapes(layer) == [(2, 4), (2, 1), (2, 1), (2, 4)]
    assert cost.flops == 2 * RMS + Operations(add=8)
    layer, cost, _ = priced("SimplifiedLayerNormalization", (2, 4), {(4,)}, domain="", axis=-1)
    assert (layer.op, cost.flops) == ("rms_norm", 2 * RMS)
    layer, cost, _ = priced("GatedRMSNorm", (2, 8), {(4,)}, (2, 8))
    assert cost.flops == 4 * RMS + 16 * (Operations(mul=1) + Operations(mul=1, add=2, div=1, special=1))


def test_group_norms():
    inputs = [(1, 2, 2, 4), {(4,)}, {(4,)}]  # channels last, two groups of 8 elements
    layer, cost, _ = priced("GroupNorm", *inputs, groups=2, activation=1, channels_last=1)
    norm = Operations(fma=14 + 16, mul=2 + 16, add=32, div=6, special=2)
    assert cost.flops == norm + 16 * Operations(mul=1, add=2, div=1, special=1)
    layer, cost, _ = priced("SkipGroupNorm", *inputs, (1, 2, 2, 4), {(4,)}, outputs=2, groups=2, activation=0)
    assert shapes(layer) == [(1, 2, 2, 4)] * 2
    assert cost.flops == norm + Operations(add=32)


def test_embeddings_of_bert():
    ids = (INT32, (2, 3))
    tables = [{(50, 4)}, {(16, 4)}, {(2, 4)}]
    layer, cost, recorder = priced("EmbedLayerNormalization", ids, ids, *tables, {(4,)}, {(4,)}, outputs=2)
    assert shapes(layer) == [(2, 3, 4), (2,)]
    assert cost.flops == 6 * NORM + Operations(add=48)
    assert cost.mread == 4 * (6 + 6) + 4 * (24 + 12 + 24 + 8)
    assert recorder.n_params_model == 4 * (50 + 16 + 2 + 2)


GELU = Operations(mul=3, add=1, special=1)


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "flops"),
    [
        ("BiasGelu", [(2, 4), {(4,)}], {}, 8 * (GELU + Operations(add=1))),
        ("FastGelu", [(2, 4), {(4,)}], {}, 8 * Operations(mul=6, add=3, special=1)),
        ("FastGelu", [(2, 4)], {}, 8 * Operations(mul=6, add=2, special=1)),
        ("QuickGelu", [(2, 4)], {}, 8 * Operations(mul=2, add=2, div=1, special=1)),
        ("Gelu", [(2, 4)], {}, 8 * GELU),
        ("BiasSplitGelu", [(2, 8), {(8,)}], {}, Operations(add=16) + 8 * (GELU + Operations(mul=1))),
        ("BiasAdd", [(2, 4, 4), {(4,)}, (2, 4, 4)], {}, Operations(add=64)),
        ("BiasSoftmax", [(2, 4), (2, 4)], {"axis": 1}, Operations(add=8 + 6, div=8, special=8)),
        ("BiasDropout", [(2, 4), {(4,)}, (2, 4)], {}, Operations(add=16)),
        ("RotaryEmbedding", [(1, 2, 3, 4), (INT64, (1, 3)), {(9, 2)}, {(9, 2)}], {}, 24 * Operations(mul=2, add=1)),
        (
            "MRotaryEmbedding",
            [(1, 3, 8), (INT64, (3, 1, 3)), {(9, 2)}, {(9, 2)}],
            {"num_heads": 2},
            24 * Operations(mul=2, add=1),
        ),
        ("Trilu", [(4, 4)], {}, Operations()),
        ("TorchEmbedding", [{(9, 4)}, (INT64, (3,))], {}, Operations()),
        ("GridSample", [(1, 2, 4, 4), (1, 3, 3, 2)], {}, 18 * Operations(mul=3, add=6)),
    ],
)
def test_pointwise_and_others(op, inputs, attrs, flops):
    assert priced(op, *inputs, **attrs)[1].flops == flops


@pytest.mark.parametrize(
    ("a", "b", "attrs", "y", "macs"),
    [
        ((2, 3, 4), (2, 4, 5), {}, (2, 3, 5), 2 * 3 * 5 * 4),
        ((2, 4, 3), (2, 5, 4), {"transA": 1, "transB": 1}, (2, 3, 5), 2 * 3 * 5 * 4),
        ((3, 2, 4), (2, 4, 5), {"transBatchA": 1}, (2, 3, 5), 2 * 3 * 5 * 4),
        ((4, 2, 3), (5, 2, 4), {"transA": 1, "transBatchA": 1, "transB": 1, "transBatchB": 1}, (2, 3, 5), 120),
    ],
)
def test_fused_matrix_products(a, b, attrs, y, macs):
    layer, cost, _ = priced("FusedMatMul", a, b, alpha=0.5, **attrs)
    assert (shapes(layer), cost.macs) == ([y], macs)
    assert cost.flops == Operations(mul=30, fma=30 * 3) + Operations(mul=30)
    fused = priced("FusedMatMulActivation", a, b, alpha=0.5, activation="Relu", **attrs)[1]
    assert fused.flops == cost.flops + Operations(cmp=30)


def test_fused_gemm():
    layer, cost, _ = priced("FusedGemm", (3, 4), {(5, 4)}, {(5,)}, transB=1, activation="Tanh")
    assert shapes(layer) == [(3, 5)]
    assert cost.flops == Operations(fma=60, special=15)
    layer, cost, _ = priced("GemmFastGelu", (3, 4), {(4, 5)}, {(5,)})
    assert cost.flops == Operations(fma=60) + 15 * Operations(mul=6, add=2, special=1)


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
