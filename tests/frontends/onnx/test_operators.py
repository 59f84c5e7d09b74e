"""Operators of the standard beyond the usual layers: one node each, by hand."""

from __future__ import annotations

from typing import Any

import pytest
from onnx import TensorProto

from costcore.counting.pricing import Pricer
from costcore.ir import Operations
from costcore.registry.calculators import calculators
from tests.frontends.onnx.read_model import read
from tests.whole_networks.onnx_models import Graph

FLOAT, STRING, INT64, UINT8, INT8 = (
    TensorProto.FLOAT,
    TensorProto.STRING,
    TensorProto.INT64,
    TensorProto.UINT8,
    TensorProto.INT8,
)


def priced(op: str, *inputs: Any, outputs: int = 1, opset: int = 26, **attrs: Any) -> Any:
    """The layer and the cost of one node; an input is a shape, (type, shape), None, or a constant (list or number)."""
    g = Graph(opset)
    names, given = [], {}
    for i, x in enumerate(inputs):
        if x is None:
            names.append("")
        elif isinstance(x, (int, float, list)):
            elements = x if isinstance(x, list) else [x]
            kind = FLOAT if isinstance(elements[0], float) else INT64
            names.append(g.number(*elements, dtype=kind, scalar=not isinstance(x, list)))
        else:
            names.append(f"x{i}")
            given[f"x{i}"] = x
    made = g(op, *names, outputs=outputs, **attrs)
    call = read(g.model(given, made)).calls[-1]
    answer = Pricer(calculators())(call)
    assert answer.cost is not None, answer.reason
    return call.layer, answer.cost


def test_fourier_transforms_of_real_and_complex_signals():
    # 2 signals of 16 points: 4 stages of 2 mul and 3 add a point
    stages = 2 * 16 * 4 * Operations(mul=2, add=3)
    layer, cost = priced("DFT", (2, 16, 2), None, 1)
    assert (layer["x"].shape, layer["x"].dtype, layer.out.shape) == ((2, 16), "complex64", (2, 16, 2))
    assert cost.flops == stages
    layer, cost = priced("DFT", (2, 16, 1), None, 1, onesided=1)
    assert (layer["x"].shape, layer["x"].dtype, layer.out.shape) == ((2, 16), "float32", (2, 9, 2))
    assert (cost.flops, cost.mread, cost.mwrite) == (stages, 4 * 32, 4 * 36)


def test_fourier_transforms_of_another_length():
    padded = 2 * 16 * 4 * Operations(mul=2, add=3)
    layer, cost = priced("DFT", (2, 10, 1), 16, 1)
    assert (layer.out.shape, cost.flops) == ((2, 16, 2), padded)
    layer, cost = priced("DFT", (2, 9, 2), None, 1, inverse=1, onesided=1)
    assert (layer.out.shape, cost.flops) == ((2, 16, 1), padded + Operations(mul=64))


def test_short_time_fourier_transform():
    layer, cost = priced("STFT", (1, 64, 1), 8, (16,), None)
    assert layer.out.shape == (1, 7, 9, 2)
    assert cost.flops == 7 * 16 * 4 * Operations(mul=2, add=3) + Operations(mul=7 * 16)
    layer, cost = priced("STFT", (1, 16, 1), 8, None, None)
    assert layer.out.shape == (1, 1, 9, 2), "one frame, the whole signal"
    assert cost.flops == 16 * 4 * Operations(mul=2, add=3)


def test_a_signal_whose_parts_have_no_number_is_real():
    layer, cost = priced("STFT", (1, 64, "parts"), 8, (16,), None)
    assert layer["x"].shape == (1, 64)
    assert cost.flops == 7 * 16 * 4 * Operations(mul=2, add=3) + Operations(mul=7 * 16)


def test_frames_of_unknown_length_have_no_price():
    g = Graph(17)
    y = g("STFT", "x", g.number(8, scalar=True), "", "length")
    recorder = read(g.model({"x": (1, 64, 1), "length": (INT64, ())}, y))
    answer = Pricer(calculators())(recorder.calls[-1])
    assert (answer.cost, answer.reason) == (None, "no calculator for 'ai.onnx::STFT'")
    batch, frames, bins, parts = recorder.calls[-1].layer.out.shape
    assert (batch, parts) == (1, 2)
    assert (str(frames), str(bins)) == (f"{y}_1", f"{y}_2")


def test_groups_of_channels_that_have_no_places():
    # 2 * 2 groups of 2 channels: mean 1+1, variance 2+1+1+1, eps, root and its inverse 3, scale 2, weight and bias 2
    layer, cost = priced("GroupNormalization", (2, 4), (4,), (4,), opset=21, num_groups=2)
    assert (layer.op, layer.out.shape) == ("group_norm", (2, 4))
    assert cost.flops == 4 * Operations(fma=3, mul=3, add=4, div=3, special=1)


def test_padding_that_is_not_said_is_the_stated_one():
    layer, cost = priced("MaxPool", (2, 4, 8), kernel_shape=[3], auto_pad="")
    assert (layer.out.shape, cost.flops) == ((2, 4, 6), Operations(cmp=2 * 4 * 6 * 2))


@pytest.mark.parametrize(
    ("op", "each"),
    [
        ("HannWindow", Operations(mul=2, add=1, special=1)),
        ("HammingWindow", Operations(mul=2, add=1, special=1)),
        ("BlackmanWindow", Operations(mul=4, add=2, special=2)),
    ],
)
def test_windows(op, each):
    layer, cost = priced(op, 10)
    assert (layer.out.shape, cost.flops, cost.mread) == ((10,), 10 * each, 0)


def test_mel_weights():
    layer, cost = priced("MelWeightMatrix", 8, 64, 8192, 0.0, 4096.0)
    assert layer.out.shape == (33, 8)
    assert cost.flops == 10 * Operations(mul=3, add=2, div=2, cmp=1, special=1) + 264 * Operations(add=1, div=1)


def test_determinants():
    # of a matrix of 3: below the pivots 2 and 1 quotients and comparisons, 4 and 1 products subtracted; 2 products
    layer, cost = priced("Det", (4, 3, 3))
    assert (layer.out.shape, cost.flops) == ((4,), 4 * Operations(fma=5, mul=2, div=3, cmp=3))


def test_random_numbers_are_free_and_choices_are_not():
    for op in ("RandomNormal", "RandomUniform"):
        layer, cost = priced(op, shape=[3, 4])
        assert (layer.out.shape, cost.flops, cost.mwrite) == ((3, 4), Operations(), 48)
    for op in ("RandomNormalLike", "RandomUniformLike"):
        assert priced(op, (3, 4))[1][:3] == (Operations(), 0, 48)
    assert priced("Bernoulli", (3, 4))[1].flops == Operations(cmp=12)
    layer, cost = priced("Multinomial", (2, 8), sample_size=5)
    assert layer.out.shape == (2, 5)
    assert cost.flops == Operations(add=14, special=16) + 10 * Operations(mul=1, cmp=3)


def test_places_of_what_is_not_zero():
    layer, cost = priced("NonZero", (3, 4))
    assert (str(layer.out.shape), cost.flops) == ("(2, NonZero_0_0_1)", Operations(cmp=12))
    assert str(cost.mwrite) == "16*NonZero_0_0_1"


def test_known_elements_say_how_many_are_picked():
    assert priced("Compress", (3, 4), [1, 0, 1], axis=0)[0].out.shape == (2, 4)
    assert priced("Compress", (3, 4), [0, 1, 1, 1])[0].out.shape == (3,)
    layer, cost = priced("NonZero", [5, 0, 7])
    assert (layer.op, layer.out.shape, cost.flops) == ("constant", (1, 2), Operations())
    assert [y.shape for y in priced("Unique", (1,), outputs=4)[0].outputs] == [(1,)] * 4
    first, _, inverse, _ = priced("Unique", (3, 2), outputs=4, axis=1)[0].outputs
    assert (str(first.shape), inverse.shape) == ("(3, Unique_0_0_1)", (2,))
    assert priced("StringSplit", (STRING, (0,)), outputs=2)[0].out.shape == (0, 0)


def test_pools_that_no_model_of_the_corpus_has():
    layer, cost = priced("GlobalLpPool", (1, 3, 4, 4), p=2)
    assert (layer.out.shape, cost.flops) == ((1, 3, 1, 1), 3 * Operations(mul=1, fma=15, special=1))
    layer, _ = priced("MaxRoiPool", (1, 3, 8, 8), (5, 5), pooled_shape=[2, 2])
    assert layer.out.shape == (5, 3, 2, 2)


def test_texts():
    words = (STRING, (2, 3))
    assert priced("StringConcat", words, (STRING, (3,)))[0].out.shape == (2, 3)
    layer, cost = priced("StringSplit", words, outputs=2)
    assert [str(y.shape) for y in layer.outputs] == ["(2, 3, StringSplit_0_0_2)", "(2, 3)"]
    assert (cost.flops, cost.mread, cost.mwrite) == (Operations(), 0, 8 * 6)
    assert priced("RegexFullMatch", words, pattern="a*")[1].mwrite == 6
    assert priced("StringNormalizer", (STRING, (3,)))[0].out.shape == (3,)
    assert str(priced("StringNormalizer", (STRING, (3,)), stopwords=["a"])[0].out.shape) == "(StringNormalizer_0_0_0,)"


def test_counts_of_ngrams():
    # rows of 6: pairs with no, one or two between them, 5 + 4 + 3
    layer, cost = priced(
        "TfIdfVectorizer",
        (INT64, (2, 6)),
        mode="TFIDF",
        max_skip_count=2,
        min_gram_length=2,
        max_gram_length=2,
        ngram_counts=[0, 4],
        ngram_indexes=[0, 1, 2],
        pool_int64s=[2, 3, 5, 4, 5, 6, 7, 8, 6, 7],
        weights=[1.0, 2.0, 3.0],
    )
    assert (layer.out.shape, cost.flops) == ((2, 3), Operations(add=2 * 12, mul=6))


def test_images_are_as_large_as_their_data_says():
    layer, cost = priced("ImageDecoder", (UINT8, (1000,)))
    assert str(layer.out.shape) == "(ImageDecoder_0_0_0, ImageDecoder_0_0_1, 3)"
    assert (cost.flops, cost.mread) == (Operations(), 1000)


def test_products_of_integers():
    layer, cost = priced("MatMulInteger", (UINT8, (3, 4)), (UINT8, (4, 5)), None, (UINT8, (5,)))
    assert (layer.out.shape, layer.out.dtype) == ((3, 5), "int32")
    assert (cost.macs, cost.flops) == (60, Operations(mul=15, fma=45, add=20))
    layer, cost = priced("ConvInteger", (UINT8, (1, 2, 5, 5)), (UINT8, (3, 2, 3, 3)), (UINT8, ()))
    assert (layer.out.shape, cost.macs) == ((1, 3, 3, 3), 27 * 18)
    assert cost.flops == Operations(mul=27, fma=27 * 17, add=50)


def test_quantised_products():
    scale, zero = 0.5, (UINT8, ())
    layer, cost = priced("QLinearMatMul", (UINT8, (3, 4)), scale, zero, (UINT8, (4, 5)), scale, zero, scale, zero)
    assert layer.out.dtype == "uint8"
    assert cost.flops == Operations(mul=15 + 15, fma=45, add=12 + 20 + 15, cmp=45)
    x, w = (UINT8, (1, 2, 5, 5)), (INT8, (3, 2, 3, 3))
    layer, cost = priced("QLinearConv", x, scale, zero, w, scale, (INT8, ()), scale, zero, (TensorProto.INT32, (3,)))
    assert (layer.out.shape, cost.macs) == ((1, 3, 3, 3), 27 * 18)
    assert cost.flops == Operations(fma=27 * 18, mul=27, add=50 + 54 + 27, cmp=81)
    assert cost.mread == 50 + 54 + 12 + 3, "zero points that are computed are one byte each"


def test_rotary_embedding_of_packed_heads():
    layer, cost = priced("RotaryEmbedding", (1, 3, 16), (9, 2), (9, 2), (INT64, (1, 3)), num_heads=4)
    assert layer["x"].shape == (1, 4, 3, 4)
    assert cost.flops == 48 * Operations(mul=2, add=1)
    assert cost.mread == 4 * (48 + 2 * 3 * 2) + 8 * 3
    turned = priced("RotaryEmbedding", (1, 4, 3, 8), (9, 2), (9, 2), (INT64, (1, 3)), rotary_embedding_dim=4)[1]
    assert turned.flops == 48 * Operations(mul=2, add=1)


def test_layers_with_a_state():
    layer, cost = priced(
        "LinearAttention",
        *[(2, 5, 8), (2, 5, 4), (2, 5, 6)],
        outputs=2,
        opset=27,
        q_num_heads=4,
        kv_num_heads=2,
        update_rule="linear",
    )
    assert [y.shape for y in layer.outputs] == [(2, 5, 12), (2, 2, 2, 3)]
    assert cost.macs == 2 * 5 * (2 + 4) * 2 * 3
    layer, cost = priced("CausalConvWithState", (2, 3, 7), (3, 1, 4), (3,), outputs=2, opset=27, activation="swish")
    assert [y.shape for y in layer.outputs] == [(2, 3, 7), (2, 3, 3)]
    assert cost.macs == 42 * 4
    assert cost.flops == Operations(fma=168) + 42 * Operations(mul=1, add=2, div=1, special=1)


def test_attention_with_a_past():
    layer, cost = priced(
        "Attention",
        *[(1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4), None, (1, 2, 5, 4), (1, 2, 5, 4)],
        outputs=3,
        opset=24,
    )
    assert [y.shape for y in layer.outputs] == [(1, 2, 3, 4), (1, 2, 8, 4), (1, 2, 8, 4)]
    assert cost.macs == 2 * (2 * 3 * 8 * 4)
    assert cost.mread == 4 * (24 + 2 * (24 + 40))
    assert cost.mwrite == 4 * (24 + 2 * 64)
