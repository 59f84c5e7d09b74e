"""Operators that ONNX Runtime adds: one node each, its cost worked out by hand."""

from __future__ import annotations

import pytest
from onnx import TensorProto, helper

from tests.frontends.onnx.contrib.lines import Line, O, S, Z, check
from tests.frontends.onnx.contrib.single_node import INT8, INT32, INT64, UINT8, priced, shapes
from tests.frontends.onnx.read_model import read
from tests.registered import price

STRING = TensorProto.STRING
NB = (UINT8, (5, 1, 4))  # 5 outputs of 8 inputs, four bits each


LINES = (
    Line("ExpandDims", [(2, 3), [1]], {}, "reshape", O(), 0, 0, 0, [(2, 1, 3)]),
    Line("ExpandDims", [(2, 3), [-1]], {}, "reshape", O(), 0, 0, 0, [(2, 3, 1)]),
    Line("SampleOp", [(2, 3)], {}, "identity", O(), 0, 0, 0, [(2, 3)]),
    # 2 signals of 16 points, 4 stages: 1 mul and 3/2 add a point and stage
    Line("Rfft", [(2, 16)], {}, "real_fft", O(mul=128, add=192), 0, 4 * 32, 4 * 36, [(2, 9, 2)]),
    Line("Irfft", [(2, 9, 2)], {"signal_ndim": 1}, "inverse_real_fft", O(mul=160, add=192), 0, 144, 128, [(2, 16)]),
    Line("UnfoldTensor", [(2, 7)], {"size": 3, "step": 2}, "unfold", O(), 0, 4 * 14, 4 * 18, [(2, 3, 3)]),
    Line(
        *("CropAndResize", [(1, 2, 4, 4), (3, 4), (INT32, (3,)), [2, 2]], {}, "crop_and_resize"),
        *(24 * O(mul=3, add=6), 0, 4 * 32 + 48 + 12, 96, [(3, 2, 2, 2)]),
    ),
    # 2 * 2 + 1 * 1 + 1 = 6, less 1 at the end
    Line(
        *("ConvTransposeWithDynamicPads", [(1, 2, 3, 3), {(2, 4, 2, 2)}, [0, 0, 1, 1], {(4,)}], {"strides": [2, 2]}),
        *("conv_transpose", O(fma=18 * 4 * 4), 288, 4 * (18 + 32 + 4), 400, [(1, 4, 5, 5)]),
    ),
    Line(
        *("CDist", [(3, 4), (5, 4)], {}, "squared_distances"),
        *(O(add=60, mul=15, fma=45), 0, 4 * 32, 60, [(3, 5)]),
    ),
    Line(
        *("CDist", [(3, 4), (5, 4)], {"metric": "euclidean"}, "pairwise_distances"),
        *(O(add=60, mul=15, fma=45, special=15), 0, 4 * 32, 60, [(3, 5)]),
    ),
    Line(
        *("ComplexMul", [(2, 3, 2), (3, 2)], {}, "complex_pairs_mul"),
        *(O(mul=24, add=12), 0, 4 * 18, 48, [(2, 3, 2)]),
    ),
    Line(
        *("ComplexMulConj", [(3, 2), (3, 2)], {}, "complex_pairs_mul_conj"),
        *(O(mul=12, add=6), 0, 4 * 12, 24, [(3, 2)]),
    ),
    Line(
        *("MulInteger", [(UINT8, (2, 3)), Z, (UINT8, (3,))], {}, "integer_mul"),
        *(O(mul=6, add=6), 0, 9, 24, [(2, 3)]),
    ),
    Line(
        *("QuantizeWithOrder", [(2, 4), S], {"order_input": 1, "order_output": 2}, "quantize"),
        *(O(div=8, cmp=24), 0, 32, 8, [(2, 4)]),
    ),
    Line("DequantizeWithOrder", [(INT8, (2, 4)), S], {"to": 10}, "dequantize", O(mul=8), 0, 8, 16, [(2, 4)]),
    Line(
        *("DequantizeBFP", [(UINT8, (20,)), [2, 4], [4, 1]], {"bfp_type": 0}, "dequantize_blocks"),
        *(O(mul=8), 0, 20, 32, [(2, 4)]),
    ),
    # 30 units, 120 gates of 9 products onto the bias; 240 products made real; 24 inputs, and 10 states before each of
    # 3 steps, quantised: 2n + 2 add, n + 2 div, 5n + 3 cmp
    Line(
        *("DynamicQuantizeLSTM", [(3, 2, 4), {(INT8, (1, 4, 20))}, {(INT8, (1, 5, 20))}, {(1, 40)}]),
        *({"hidden_size": 5}, "dynamic_quantized_lstm"),
        30 * O(fma=37, mul=2, add=6, div=3, special=5) + O(mul=240, add=50 + 3 * 22, div=26 + 3 * 12, cmp=123 + 3 * 53),
        *(1080, 96 + 80 + 100 + 160, 200, [(3, 1, 2, 5), (1, 2, 5), (1, 2, 5)]),
    ),
    # gates 6 * (200 + 100) onto the bias; 42 keys of 6, 18 queries of 5, 42 scores of 3, 36 contexts of 7
    Line(
        "AttnLSTM",
        [(3, 2, 4), {(1, 20, 10)}, {(1, 20, 5)}, {(1, 40)}, *[None] * 4, {(1, 5, 3)}, {(1, 6, 3)}, {(1, 3)}, (2, 7, 6)],
        {"hidden_size": 5},
        "attention_lstm",
        O(fma=1800)
        + 30 * O(fma=1, mul=2, add=6, div=3, special=5)
        + O(mul=42 + 18 + 42 + 36, fma=210 + 72 + 84 + 216)
        + O(add=126, special=126)
        + O(add=36, div=42, special=42),
        1800 + 252 + 90 + 126 + 252,
        4 * (24 + 200 + 100 + 40 + 15 + 18 + 3 + 84),
        200,
        [(3, 1, 2, 5), (1, 2, 5), (1, 2, 5)],
    ),
    # 16 sums, an RMS norm of 2 rows of 8, twice 10 dot products of 8, 80 weights less 8 and made real, SiLU and product
    Line(
        "MatMulNBitsMlp",
        [(2, 8), (2, 8), {(8,)}, {NB}, {(5,)}, None, {NB}, {(5,)}],
        {"K": 8, "N": 5, "bits": 4, "block_size": 32, "activation": "silu"},
        "packed_projections",
        O(add=16)
        + O(fma=14, mul=34, add=2, div=4, special=2)
        + O(mul=20, fma=140)
        + O(mul=80, add=80)
        + 10 * O(mul=2, add=2, div=1, special=1),
        160,
        64 + 64 + 32 + 2 * (20 + 20),
        40 + 64,
        [(2, 5), (2, 8)],
    ),
    Line(
        "MatMulNBitsQkv",
        [
            *[(2, 8), None, {(8,)}, {(UINT8, (6, 1, 4))}, {(6,)}, None],
            *[{(UINT8, (2, 1, 4))}, {(2,)}, None, {(UINT8, (2, 1, 4))}, {(2,)}],
        ],
        {"K": 8, "Nq": 6, "Nkv": 2, "bits": 4, "block_size": 32},
        "packed_projections",
        O(fma=14, mul=34, add=2, div=4, special=2) + O(mul=20, fma=140) + O(mul=80, add=80),
        160,
        64 + 32 + 40 + 40,
        80,
        [(2, 6), (2, 2), (2, 2)],
    ),
    Line(
        *("QOrderedMatMul", [(INT8, (1, 3, 4)), S, {(INT8, (4, 5))}, S, S, {(5,)}], {}, "quantized_matmul"),
        *(O(fma=60, mul=15, cmp=45), 60, 12 + 20 + 20, 15, [(1, 3, 5)]),
    ),
    Line(
        *("QOrderedMatMul", [(INT8, (3, 4)), S, {(INT8, (4, 5))}, S, S], {}, "quantized_matmul"),
        *(O(mul=15 + 15, fma=45, cmp=45), 60, 12 + 20, 15, [(3, 5)]),
    ),
    Line(
        *("QOrderedGelu", [(INT8, (2, 3)), S, S], {}, "quantized_gelu"),
        *(6 * O(mul=4, add=1, special=1, div=1, cmp=3), 0, 6, 6, [(2, 3)]),
    ),
    # 2 rows of 4: 2c - 1 fma, c + 1 mul, 2c add, 3 div, 1 special
    Line(
        *("QOrderedLayerNormalization", [(INT8, (2, 4)), S, {(4,)}, {(4,)}, S], {}, "quantized_layer_norm"),
        *(O(fma=14, mul=10 + 8, add=16, div=6 + 8, special=2, cmp=24), 0, 8 + 32, 8, [(2, 4)]),
    ),
    Line(
        *("ScaledSiLU", [(2, 3)], {"alpha": 2.0}, "scaled_silu"),
        *(6 * O(mul=2, add=2, div=1, special=1), 0, 24, 24, [(2, 3)]),
    ),
    # 6 words of 4: two sums, norms of 4, and 24 + 12 + 24 + 4 + 4 elements made real
    Line(
        "QEmbedLayerNormalization",
        [
            *[(INT32, (2, 3)), (INT32, (2, 3)), {(UINT8, (50, 4))}, {(UINT8, (16, 4))}, {(UINT8, (2, 4))}],
            *[{(UINT8, (4,))}, {(UINT8, (4,))}, None, S, S, S, S, S, Z, Z, Z, Z, Z],
        ],
        {},
        "quantized_embed_norm",
        6 * O(fma=7, mul=5, add=8, div=3, special=1) + O(add=48) + O(mul=68, add=68),
        0,
        24 + 24 + 60 + 8,
        96 + 8,
        [(2, 3, 4), (2,)],
    ),
    Line("BitmaskDropout", [(2, 40)], {}, "dropout", O(), 0, 0, 0, [(2, 40), (3,)]),
    Line(
        *("BitmaskDropout", [(2, 40), S, [1]], {}, "dropout"),
        *(O(mul=80, cmp=80), 0, 320, 320 + 12, [(2, 40), (3,)]),
    ),
    Line(
        *("BitmaskBiasDropout", [(2, 4), {(4,)}, (2, 4)], {}, "biased_dropout"),
        *(O(add=16), 0, 80, 32, [(2, 4)]),
    ),
    Line("IsAllFinite", [(2, 3), (4,)], {}, "all_finite", O(add=10, cmp=10 + 9), 0, 40, 1, [()]),
    Line("IsAllFinite", [(2, 3)], {"isnan_only": 1}, "all_finite", O(cmp=6 + 5), 0, 24, 1, [()]),
    Line(
        *("MaxpoolWithMask", [(1, 1, 4, 4), (INT32, (1, 1, 4, 4))], {"kernel_shape": [2, 2], "strides": [2, 2]}),
        *("masked_max_pool", O(cmp=4 * 3 + 16), 0, 128, 16, [(1, 1, 2, 2)]),
    ),
    Line("MurmurHash3", [(INT32, (2, 3))], {}, "hash", O(), 0, 24, 24, [(2, 3)]),
    Line(
        *("NGramHashMapping", [(INT64, (2, 5)), {(INT64, (3,))}, {(INT64, (4,))}]),
        *({"max_ngram_size": 3, "n_head_per_ngram": 2, "pad_id": 0}, "hash_ngrams"),
        *(O(), 0, 80 + 24 + 32, 320 + 32, [(2, 5, 4), (2, 2)]),
    ),
    Line(
        *("VarlenNGramHashMapping", [(INT64, (6,)), {(INT64, (3,))}, {(INT64, (4,))}, (INT32, (3,))]),
        *({"max_ngram_size": 3, "n_head_per_ngram": 2, "pad_id": 0}, "hash_ngrams"),
        *(O(), 0, 48 + 24 + 32, 192 + 32, [(6, 4), (2, 2)]),
    ),
    Line(
        *("NGramRepeatBlock", [(INT64, (2, 6)), (2, 50)], {"ngram_size": 3}, "block_ngrams"),
        *(O(cmp=2 * 4 * 2), 0, 96 + 400, 400, [(2, 50)]),
    ),
    # 2 words of 6 letters: 5 places, 3 filters of 2 * 4
    Line(
        *("WordConvEmbedding", [(INT32, (2, 6)), {(3, 1, 2, 4)}, {(3,)}, {(30, 4)}], {}, "word_convolution"),
        *(O(fma=30 * 8, special=30, cmp=24), 240, 48 + 96 + 12 + 12 * 16, 24, [(2, 3)]),
    ),
)


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.native)
def test_one_operator(line: Line):
    check(line)


@pytest.mark.parametrize(
    ("op", "inputs", "outputs", "attrs", "made", "operations"),
    [
        # a sort of 6, and 5 neighbours
        ("Unique", [(INT64, (6,))], 3, {}, "[(Unique_0_0_0,), (6,), (Unique_0_2_0,)]", O(cmp=6 * 3 + 5)),
        ("Tokenizer", [(STRING, (2, 3))], 1, {}, "[(2, 3, Tokenizer_0_0_2)]", O()),
        ("QuantizeBFP", [(2, 4)], 3, {}, "[(QuantizeBFP_0_0_0,), (2,), (2,)]", 8 * O(mul=1, add=1, cmp=4)),
        ("DynamicTimeWarping", [(4, 5)], 1, {}, "[(2, DynamicTimeWarping_0_0_1)]", 20 * O(add=1, cmp=2)),
        # 6 tokens against the draft, then 6 places of 1, 5 of 2 and 4 of 3
        (
            "BifurcationDetector",
            [(INT64, (6,)), (INT64, (3,)), (INT64, ()), (INT64, (7,))],
            2,
            {},
            "[(BifurcationDetector_0_0_0,), ()]",
            O(cmp=6 + 6 + 10 + 12),
        ),
        ("RemovePadding", [(2, 3, 4), (INT32, (2,))], 4, {}, "[(RemovePadding_0_0_0, 4), (2, 3), (3,), (1,)]", O()),
        (
            "ConvTransposeWithDynamicPads",
            [(1, 2, 3, 3), {(2, 4, 2, 2)}, (INT64, (4,))],
            1,
            {},
            "[(1, 4, ConvTransposeWithDynamicPads_0_0_2, ConvTransposeWithDynamicPads_0_0_3)]",
            O(fma=288),
        ),
        (
            "CropAndResize",
            [(1, 2, 4, 4), (3, 4), (INT32, (3,)), (INT32, (2,))],
            1,
            {"mode": "nearest"},
            "[(3, 2, CropAndResize_0_0_2, CropAndResize_0_0_3)]",
            O(),
        ),
    ],
)
def test_sizes_that_depend_on_data_are_symbols(op, inputs, outputs, attrs, made, operations):
    layer, cost, recorder = priced(op, *inputs, outputs=outputs, **attrs)
    assert str(shapes(layer)).replace("y0_", f"{op}_0_0_").replace("y2_", f"{op}_0_2_") == made
    assert cost.flops == operations
    assert any("depends on data" in a.what for a in recorder.assumptions)


def test_a_sparse_matrix_has_as_many_products_as_it_stores():
    values = helper.make_tensor("a", TensorProto.FLOAT, (2,), [1.0, 2.0])
    places = helper.make_tensor("places", TensorProto.INT64, (2,), [1, 7])
    node = helper.make_node("SparseToDenseMatMul", ["a", "b"], ["y"], domain="com.microsoft", transB=1)
    given, made = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("b", (5, 4)), ("y", None)))
    sparse = helper.make_sparse_tensor(values, places, (3, 4))
    graph = helper.make_graph([node], "graph", [given], [made], sparse_initializer=[sparse])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    (call,) = read(helper.make_model(graph, opset_imports=opsets, ir_version=9)).calls
    cost = price(call).cost
    assert call.layer.out.shape == (3, 5)
    assert cost is not None and (cost.flops, cost.macs) == (O(fma=2 * 5), 10)
