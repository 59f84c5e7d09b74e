"""Operators that ONNX Runtime adds: shapes and costs, by hand."""

from __future__ import annotations

from typing import Any

import pytest
from onnx import TensorProto, helper

from costcore.ir import Operations, Tensor
from costcore.pricing import Pricer
from costcore.registry import calculators
from tests.frontends.onnx.reading import read

FLOAT, FLOAT16, UINT8, INT8, INT32, INT64 = (
    TensorProto.FLOAT,
    TensorProto.FLOAT16,
    TensorProto.UINT8,
    TensorProto.INT8,
    TensorProto.INT32,
    TensorProto.INT64,
)


def priced(op: str, *inputs: Any, domain: str = "com.microsoft", outputs: int = 1, **attrs: Any):
    """The layer and the cost of one node; an input is a shape, (type, shape), None, or a constant as a list.

    A shape in a set of one, ``{(3, 4)}``, is a stored tensor.
    """
    names, given, stored = [], [], []
    for i, x in enumerate(inputs):
        name = f"x{i}" if x is not None else ""
        names.append(name)
        if x is None:
            continue
        if isinstance(x, list):
            kind = FLOAT if isinstance(x[0], float) else INT32
            stored.append(helper.make_tensor(name, kind, (len(x),), x))
            continue
        is_stored = isinstance(x, set)
        (spec,) = x if is_stored else (x,)
        kind, shape = spec if len(spec) == 2 and isinstance(spec[1], tuple) else (FLOAT, spec)
        if is_stored:
            tensor = TensorProto(name=name, dims=shape, data_type=kind, data_location=TensorProto.EXTERNAL)
            tensor.external_data.add(key="location", value="absent")
            stored.append(tensor)
        else:
            given.append(helper.make_tensor_value_info(name, kind, shape))
    made = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, made, domain=domain, **attrs)
    results = [helper.make_tensor_value_info(name, FLOAT, None) for name in made]
    graph = helper.make_graph([node], "graph", given, results, stored)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1), helper.make_opsetid(domain, 1)]
    recorder = read(helper.make_model(graph, opset_imports=opsets, ir_version=9))
    (call,) = recorder.calls
    answer = Pricer(calculators())(call)
    assert answer.cost is not None, answer.reason
    return call.layer, answer.cost, recorder


def shapes(layer) -> list[Any]:
    return [tensor.shape for tensor in layer.outputs]


# B 2, S 5, H 4, D 8, E 32
def test_attention_projects_and_attends():
    layer, cost, recorder = priced("Attention", (2, 5, 32), {(32, 96)}, {(96,)}, num_heads=4)
    assert shapes(layer) == [(2, 5, 32)]
    assert cost.macs == 2 * 5 * 32 * 96 + 2 * (2 * 4 * 5 * 5 * 8)
    assert recorder.n_params_model == 32 * 96 + 96


def test_attention_with_a_past_meets_all_keys():
    layer, cost, _ = priced(
        "Attention", (2, 1, 32), {(32, 96)}, {(96,)}, None, (2, 2, 4, 7, 8), outputs=2, num_heads=4, unidirectional=1
    )
    assert shapes(layer) == [(2, 1, 32), (2, 2, 4, 8, 8)]
    assert cost.macs == 2 * 1 * 32 * 96 + 2 * (2 * 4 * 1 * 8 * 8)


def test_attention_with_sizes_of_its_own():
    layer, cost, _ = priced("Attention", (1, 3, 8), {(8, 20)}, num_heads=2, qkv_hidden_sizes=[8, 8, 4])
    assert shapes(layer) == [(1, 3, 4)]
    assert cost.macs == 3 * 8 * 20 + 2 * 3 * 3 * (4 + 2)


@pytest.mark.parametrize(
    "inputs",
    [
        ((2, 5, 32), (2, 7, 32), (2, 7, 16)),
        ((2, 5, 32), (2, 4, 7, 8), (2, 4, 7, 4)),
    ],
)
def test_multi_head_attention_has_no_projection(inputs):
    layer, cost, _ = priced("MultiHeadAttention", *inputs, num_heads=4)
    assert shapes(layer) == [(2, 5, 16)]
    assert cost.macs == 2 * 4 * 5 * 7 * (8 + 4)
    assert cost.mread == 4 * 2 * (5 * 32 + 7 * 32 + 7 * 16)


def test_multi_head_attention_packed_reads_once():
    layer, cost, _ = priced("MultiHeadAttention", (2, 5, 4, 3, 8), num_heads=4)
    assert shapes(layer) == [(2, 5, 32)]
    assert cost.macs == 2 * (2 * 4 * 5 * 5 * 8)
    assert cost.mread == 4 * 2 * 5 * 4 * 3 * 8
    _, packed, _ = priced("MultiHeadAttention", (2, 5, 32), (2, 7, 4, 2, 8), num_heads=4)
    assert packed.mread == 4 * 2 * (5 * 32 + 7 * 4 * 2 * 8)


def test_multi_head_attention_adds_its_bias_and_its_past():
    layer, cost, _ = priced(
        "MultiHeadAttention", *[(1, 2, 8)] * 3, {(24,)}, None, None, (1, 2, 3, 4), (1, 2, 3, 4), outputs=3, num_heads=2
    )
    assert shapes(layer) == [(1, 2, 8), (1, 2, 5, 4), (1, 2, 5, 4)]
    assert cost.macs == 2 * (2 * 2 * 5 * 4)
    scores = 2 * 2 * 5
    # dot products of 4 and of 5, the scale, the softmax of 4 rows of 5, the bias on 3 times 16 elements
    expected = Operations(mul=scores, fma=scores * 3) + Operations(mul=16, fma=16 * 4) + Operations(mul=scores)
    expected += Operations(add=scores - 4, div=scores, special=scores) + Operations(add=48)
    assert cost.flops == expected
    assert cost.mread == 4 * (3 * 16 + 24 + 2 * 24)


# Llama-like: 8 query heads on 2 key heads of 4 features, one new token on a cache of 10 of which 6 are in use
CACHE = (1, 2, 10, 4)


@pytest.mark.parametrize("past", [3, None])
def test_keys_and_values_may_go_into_the_cache_they_come_from(past):
    # 2 sequences, 4 heads of 8 features, a cache of 8 places: onnxruntime makes it of 8 places again
    q, cache = (2, 1, 32), (2, 4, 8, 8)
    used = [past] if past else (INT32, (1,))
    given = (q, q, q, None, None, cache, cache, used)
    op = "DecoderMaskedMultiHeadAttention"
    layer, cost, _ = priced(op, *given, outputs=3, num_heads=4, past_present_share_buffer=1)
    assert [y.shape for y in layer.outputs] == [q, cache, cache]
    keys = 4 if past else 8  # what is there and the new one, or all that fits
    assert cost.macs == 2 * 4 * keys * (8 + 8)
    assert cost.mread == 4 * (3 * 64 + 2 * 64 * (keys - 1))
    assert cost.mwrite == 4 * 3 * 64


@pytest.mark.parametrize("packed", [False, True])
def test_grouped_attention_counts_the_keys_in_use(packed):
    query = [(1, 1, 48), None, None] if packed else [(1, 1, 32), (1, 1, 8), (1, 1, 8)]
    layer, cost, _ = priced(
        "GroupQueryAttention", *query, CACHE, CACHE, [5], [6], outputs=3, num_heads=8, kv_num_heads=2
    )
    assert shapes(layer) == [(1, 1, 32), CACHE, CACHE]
    assert cost.macs == 2 * (8 * 1 * 6 * 4)
    # the new query, key and value; five keys and values of the past (two heads of four features)
    assert cost.mread == 4 * (48 + 2 * 5 * 8)
    # the output, one new key and value into the cache
    assert cost.mwrite == 4 * (32 + 2 * 8)


def as_it_lies() -> Any:
    """Grouped attention whose queries and keys are not turned."""
    given = [(1, 3, 32), (1, 3, 8), (1, 3, 8), None, None, [2], [3]]
    return priced("GroupQueryAttention", *given, num_heads=8, kv_num_heads=2)[1]


def test_grouped_attention_turns_queries_and_keys():
    layer, cost, recorder = priced(
        "GroupQueryAttention",
        *[(1, 3, 32), (1, 3, 8), (1, 3, 8), (1, 2, 0, 4), (1, 2, 0, 4), [2], [3], {(64, 2)}, {(64, 2)}],
        outputs=3,
        num_heads=8,
        kv_num_heads=2,
        do_rotary=1,
    )
    plain = as_it_lies()
    assert layer.attrs["rotary_dim"] == 4
    assert isinstance(cost.flops, Operations) and isinstance(plain.flops, Operations)
    assert cost.flops == plain.flops + (96 + 24) * Operations(mul=2, add=1), "an empty past is none"
    assert recorder.assumptions == []


def test_grouped_attention_turned_without_a_cache():
    _, cost, _ = priced(
        "GroupQueryAttention",
        *[(1, 3, 32), (1, 3, 8), (1, 3, 8), None, None, [2], [3], {(64, 2)}, {(64, 2)}],
        num_heads=8,
        kv_num_heads=2,
        do_rotary=1,
    )
    plain = as_it_lies()
    assert isinstance(cost.flops, Operations) and isinstance(plain.flops, Operations)
    assert cost.flops == plain.flops + (96 + 24) * Operations(mul=2, add=1)
    assert cost.mread == plain.mread + 2 * 3 * 2 * 4, "one row of each table a position"
    assert cost.macs == 2 * 8 * 3 * 3 * 4


def test_a_quantised_cache_is_read_at_its_width_and_made_real():
    cache = (INT8, CACHE)
    inputs = [(FLOAT16, (1, 1, 32)), (FLOAT16, (1, 1, 8)), (FLOAT16, (1, 1, 8)), cache, cache, [5], [6]]
    layer, cost, _ = priced(
        "GroupQueryAttention", *inputs, *[None] * 5, {(1,)}, {(1,)}, outputs=3, num_heads=8, kv_num_heads=2
    )
    assert [tensor.dtype for tensor in layer.outputs] == ["float16", "int8", "int8"]
    assert cost.mread == 2 * 48 + 2 * 5 * 8
    assert cost.mwrite == 2 * 32 + 2 * 8


def test_the_keys_in_use_may_be_unknown():
    _, cost, recorder = priced(
        "GroupQueryAttention",
        *[(1, 1, 32), (1, 1, 8), (1, 1, 8), CACHE, CACHE, (INT32, (1,)), (INT32, (1,))],
        outputs=3,
        num_heads=8,
        kv_num_heads=2,
    )
    assert cost.macs == 2 * (8 * 11 * 4)
    assert [a.what for a in recorder.assumptions] == [
        "the number of keys in use depends on data: the whole cache and the new ones count"
    ]


def test_paged_attention_takes_the_longest_its_pages_allow():
    pages = (FLOAT, (20, 16, 2, 4))  # 20 pages of 16 keys
    layer, cost, recorder = priced(
        "PagedAttention",
        *[(6, 32), (6, 8), (6, 8), pages, pages, (INT32, (3,)), (INT32, (2,)), (INT32, (2, 4))],
        outputs=3,
        num_heads=8,
        kv_num_heads=2,
    )
    assert shapes(layer) == [(6, 32), (20, 16, 2, 4), (20, 16, 2, 4)]
    assert cost.macs == 2 * (6 * 8 * (4 * 16) * 4)
    # two tables of 64 places, 6 of them new: 122 of the past, of 2 heads of 4; 6 new ones are written
    assert cost.mread == 4 * (6 * 48 + 2 * 122 * 8)
    assert cost.mwrite == 4 * (6 * 32 + 2 * 6 * 8)
    assert len(recorder.assumptions) == 1


def test_paged_attention_of_prompts_reads_no_past():
    pages = (FLOAT, (20, 16, 2, 4))
    _, cost, _ = priced(
        "PagedAttention",
        *[(200, 32), (200, 8), (200, 8), pages, pages, (INT32, (3,)), (INT32, (2,)), (INT32, (2, 4))],
        outputs=3,
        num_heads=8,
        kv_num_heads=2,
    )
    assert (cost.mread, cost.mwrite) == (4 * 200 * 48, 4 * 200 * 48)


def test_packed_attention_pads_no_queries():
    layer, cost, _ = priced("PackedAttention", (7, 8), {(8, 24)}, {(24,)}, (INT32, (2, 5)), (INT32, (3,)), num_heads=2)
    assert shapes(layer) == [(7, 8)]
    assert cost.macs == 7 * 8 * 24 + 2 * (2 * 7 * 5 * 4)


def test_quantised_attention_subtracts_and_scales():
    inputs = [(UINT8, (1, 3, 8)), {(INT8, (8, 24))}, {(24,)}, [0.1], [0.2], None, (UINT8, (1,)), {(INT8, (1,))}]
    layer, cost, _ = priced("QAttention", *inputs, num_heads=2)
    plain = priced("Attention", (1, 3, 8), {(8, 24)}, {(24,)}, num_heads=2)[1]
    assert layer.outputs == (Tensor((1, 3, 8), "float32"),)
    assert cost.macs == plain.macs
    assert isinstance(plain.flops, Operations)
    assert cost.flops == plain.flops + Operations(mul=3 * 24, add=24 + 8 * 24)


def test_weights_of_few_bits_count_as_what_they_are():
    # K 64, N 10, four bits, blocks of 32: [N, 2 blocks, 16 bytes], 20 scales, 10 bytes of zero points
    layer, cost, recorder = priced(
        "MatMulNBits", (3, 5, 64), {(UINT8, (10, 2, 16))}, {(20,)}, {(UINT8, (10,))}, K=64, N=10, bits=4, block_size=32
    )
    assert shapes(layer) == [(3, 5, 10)]
    assert layer["w"] == Tensor((10, 64), "uint4", "param")
    assert cost.macs == 15 * 64 * 10
    assert cost.mread == 4 * 15 * 64 + 10 * 64 // 2 + 4 * 20 + 10
    expected = Operations(mul=150, fma=150 * 63) + Operations(mul=640, add=640)
    assert cost.flops == expected
    assert recorder.n_params_model == 640 + 20


@pytest.mark.parametrize(
    ("op", "weight", "more", "attrs"),
    [
        ("MatMulBnb4", (UINT8, (320,)), [{(10,)}], {"K": 64, "N": 10, "block_size": 64, "quant_type": 1}),
        ("MatMulFpQ4", (UINT8, (400,)), [[64, 10]], {"blk_quant_type": 1}),
        ("MatMulBlockQuantizedFp4Weight", (UINT8, (10, 32)), [(INT8, (10, 4)), [1.0]], {}),
        ("MatMulBlockQuantizedFp8Weight", (TensorProto.FLOAT8E4M3FN, (10, 64)), [{(10, 1)}], {"block_size": 64}),
    ],
)
def test_other_packed_weights(op, weight, more, attrs):
    layer, cost, _ = priced(op, (5, 64), {weight}, *more, **attrs)
    assert shapes(layer) == [(5, 10)]
    assert layer["w"].shape == (10, 64)
    assert cost.macs == 5 * 64 * 10


def test_rows_of_a_packed_table():
    inputs = [{(UINT8, (100, 16))}, (INT64, (2, 3)), {(100, 2)}]
    layer, cost, _ = priced("GatherBlockQuantized", *inputs, block_size=16, bits=4, quantize_axis=1)
    assert shapes(layer) == [(2, 3, 32)]
    assert cost.flops == Operations(mul=6 * 32)
    assert cost.mread == 8 * 6 + 6 * 32 // 2 + 4 * 6 * 2


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


@pytest.mark.parametrize("domain", ["com.microsoft", "com.microsoft.nchwc"])
def test_fused_convolution(domain):
    op = "FusedConv" if domain == "com.microsoft" else "Conv"
    inputs = [(1, 3, 8, 8), {(4, 3, 3, 3)}, {(4,)}, (1, 4, 6, 6)]
    layer, cost, _ = priced(op, *inputs, domain=domain, activation="Relu")
    assert shapes(layer) == [(1, 4, 6, 6)]
    assert cost.macs == 144 * 27
    assert cost.flops == Operations(fma=144 * 27, add=144, cmp=144)
    layer, cost, _ = priced(op, *inputs[:3], domain=domain)
    assert layer.op == "conv"


@pytest.mark.parametrize("weight", [(4, 3, 3, 3), (4, 3, 3, 2)])
def test_channels_last(weight):
    channels = 3 if weight[3] == 3 else 2
    layer, cost, _ = priced("NhwcConv", (1, 8, 9, channels), {weight}, {(4,)}, kernel_shape=[3, 3])
    assert shapes(layer) == [(1, 6, 7, 4)]
    assert layer["x"].shape == (1, channels, 8, 9)
    assert cost.macs == 4 * 6 * 7 * 9 * channels
    layer, cost, _ = priced("NhwcMaxPool", (INT8, (1, 8, 8, 3)), kernel_shape=[2, 2], strides=[2, 2])
    assert shapes(layer) == [(1, 4, 4, 3)]
    assert cost.flops == Operations(cmp=48 * 3)


def test_quantised_convolution_with_channels_last():
    scale, zero = [0.5], (UINT8, (1,))
    inputs = [(UINT8, (1, 8, 8, 3)), scale, zero, {(UINT8, (4, 3, 3, 3))}, scale, zero, scale, zero, {(INT32, (4,))}]
    layer, cost, _ = priced("QLinearConv", *inputs, channels_last=1)
    assert layer.outputs == (Tensor((1, 6, 6, 4), "uint8"),)
    assert cost.macs == 144 * 27
    # the products onto the bias; both zero points; then scale, round, limit twice, zero point
    assert cost.flops == Operations(fma=144 * 27, add=192 + 108 + 144, mul=144, cmp=3 * 144)


def test_quantised_operators_are_made_real_and_quantised():
    scale, zero = [0.5], (UINT8, (1,))
    x = (UINT8, (2, 3))
    real, again = Operations(mul=6, add=6), 6 * Operations(div=1, cmp=3, add=1)
    _, cost, _ = priced("QLinearAdd", x, scale, zero, x, scale, zero, scale, zero)
    assert cost.flops == real * 2 + Operations(add=6) + again
    _, cost, _ = priced("QLinearSigmoid", x, scale, zero, scale, zero)
    assert cost.flops == real + 6 * Operations(add=2, div=1, special=1) + again
    layer, cost, _ = priced("QLinearConcat", scale, zero, x, scale, zero, x, scale, zero, axis=1)
    assert shapes(layer) == [(2, 6)]
    assert cost.flops == real * 2 + again * 2
    layer, cost, _ = priced("QLinearSoftmax", x, scale, zero, scale, zero, axis=-1, opset=13)
    assert cost.flops == real + Operations(add=4, div=6, special=6) + again
    layer, cost, _ = priced("QLinearReduceMean", x, scale, zero, scale, zero, axes=[1], keepdims=0)
    assert shapes(layer) == [(2,)]
    assert cost.flops == real + Operations(add=4, div=2) + 2 * Operations(div=1, cmp=3, add=1)
    layer, cost, _ = priced("QLinearWhere", (TensorProto.BOOL, (2, 3)), x, scale, zero, x, scale, zero, scale, zero)
    assert cost.flops == real * 2 + Operations(cmp=6) + again
    layer, cost, _ = priced("QLinearGlobalAveragePool", (UINT8, (1, 2, 3, 3)), scale, zero, scale, zero)
    assert shapes(layer) == [(1, 2, 1, 1)]
    assert cost.flops == Operations(mul=18, add=18) + Operations(add=16, div=2) + 2 * Operations(div=1, cmp=3, add=1)


def test_quantised_products_to_floats():
    zero = (UINT8, (1,))
    layer, cost, _ = priced("QGemm", (UINT8, (3, 4)), [0.5], zero, {(UINT8, (5, 4))}, [0.5], zero, transB=1)
    assert layer.outputs == (Tensor((3, 5), "float32"),)
    assert cost.flops == Operations(mul=15, fma=45) + Operations(add=12 + 20, mul=15)
    layer, cost, _ = priced("MatMulIntegerToFloat", (UINT8, (3, 4)), {(UINT8, (4, 5))}, [0.5], [0.5])
    assert cost.flops == Operations(mul=15 + 15, fma=45)
    layer, cost, _ = priced("DynamicQuantizeMatMul", (3, 4), {(UINT8, (4, 5))}, [0.5])
    # the range of 12 elements, their quantisation, their zero point, the product, its scale
    assert cost.flops == Operations(add=14, div=14, cmp=63) + Operations(add=12) + Operations(mul=30, fma=45)


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


def test_gemma_turns_queries_and_keys_by_angles():
    heads = (1, 2, 3, 4)
    layer, cost, _ = priced("GemmaRotaryEmbedding", (1, 3, 4), heads, heads, heads, heads, outputs=2)
    assert shapes(layer) == [heads, heads]
    assert cost.flops == Operations(special=24) + 48 * Operations(mul=2, add=1)


# 6 tokens of 8 features, 4 experts of 16 hidden units, two a token
ROUTER = Operations(add=18, div=24, special=24) + Operations(cmp=6 * 8)
JOIN = Operations(mul=48, fma=48)


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
    assert recorder.n_params_model == 4 * 128 * 2 + 4 * (16 + 8)


def test_states_along_a_sequence():
    inputs = [(1, 3, 8), (1, 3, 8), (1, 3, 4), None, (1, 3, 2), (1, 3, 2)]
    layer, cost, _ = priced("LinearAttention", *inputs, outputs=2, q_num_heads=2, kv_num_heads=2)
    assert shapes(layer) == [(1, 3, 4), (1, 2, 4, 2)]
    cells = 3 * 2 * 4 * 2
    assert cost.macs == 3 * cells  # k^T S, the outer product, q^T S
    layer, cost, _ = priced(
        "GatedDeltaNet", (3, 2, 4), (3, 2, 4), (3, 4, 2), None, (3, 4), (3, 4), (1, 4, 2, 4), outputs=2
    )
    assert shapes(layer) == [(3, 4, 2), (1, 4, 2, 4)]
    layer, cost, _ = priced("CausalConvWithState", (1, 6, 5), {(6, 1, 4)}, {(6,)}, outputs=2, activation="silu")
    assert shapes(layer) == [(1, 6, 5), (1, 6, 3)]
    assert cost.flops == Operations(fma=120) + 30 * Operations(mul=1, add=2, div=1, special=1)


@pytest.mark.parametrize("op", ["EPContext", "Snpe"])
def test_what_is_opaque_is_named(op):
    with pytest.raises(AssertionError, match=f"no calculator for 'com.microsoft::{op}'"):
        priced(op, (1, 4))


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "message"),
    [
        ("MatMulNBits", [(2, 8), {(UINT8, (4, 1, 4))}, {(4,)}], {"N": 4}, "has no K"),
        (
            "MatMulNBits",
            [(2, 9), {(UINT8, (4, 1, 4))}, {(4,)}],
            {"N": 4, "K": 8},
            "multiplies rows of 9 by a weight of 8",
        ),
        ("MatMulNBits", [(2, 8), {(UINT8, (4, 1, 4))}, {(4,)}], {"N": 4, "K": 8, "bits": 9}, "weights of 9 bits"),
        ("Attention", [(1, 3, 8), {(8, 24)}], {}, "has no num_heads"),
        ("MultiHeadAttention", [(1, 3, 8)], {"num_heads": 2}, "has no keys"),
        ("NhwcConv", [(1, 8, 8, 3), {(4, 3)}], {}, "needs weights of the rank of its input"),
    ],
)
def test_what_is_wrong_is_said(op, inputs, attrs, message):
    with pytest.raises(ValueError, match=message):
        priced(op, *inputs, **attrs)
