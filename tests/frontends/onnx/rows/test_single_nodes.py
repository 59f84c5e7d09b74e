"""Operators of the standard: one node each, its shapes and costs worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from costcore import CostError, estimate
from costcore.ir import Operations
from tests.frontends.onnx.read_model import read, shapes, total
from tests.frontends.onnx.rows.single_node import INT8, INT64, STRING, UINT8, priced
from tests.registered import price
from tests.whole_networks.onnx_models import Graph


def test_rotary_embedding_of_packed_heads():
    layer, cost = priced("RotaryEmbedding", (1, 3, 16), (9, 2), (9, 2), (INT64, (1, 3)), num_heads=4)
    assert layer["x"].shape == (1, 4, 3, 4)
    assert cost.flops == 48 * Operations(mul=2, add=1)
    assert cost.mread == 4 * (48 + 2 * 3 * 2) + 8 * 3
    turned = priced("RotaryEmbedding", (1, 4, 3, 8), (9, 2), (9, 2), (INT64, (1, 3)), rotary_embedding_dim=4)[1]
    assert turned.flops == 48 * Operations(mul=2, add=1)


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


def test_known_elements_say_how_many_are_picked():
    assert priced("Compress", (3, 4), [1, 0, 1], axis=0)[0].out.shape == (2, 4)
    assert priced("Compress", (3, 4), [0, 1, 1, 1])[0].out.shape == (3,)
    assert priced("Compress", (3, 2), [0, 1, 1], axis=1)[0].out.shape == (3, 1)  # the third is of no column
    layer, cost = priced("NonZero", [5, 0, 7])
    assert (layer.op, layer.out.shape, cost.flops) == ("constant", (1, 2), Operations())
    assert [y.shape for y in priced("Unique", (1,), outputs=4)[0].outputs] == [(1,)] * 4
    first, _, inverse, _ = priced("Unique", (3, 2), outputs=4, axis=1)[0].outputs
    assert (str(first.shape), inverse.shape) == ("(3, Unique_0_0_1)", (2,))
    assert priced("StringSplit", (STRING, (0,)), outputs=2)[0].out.shape == (0, 0)


def test_no_axes_at_all_are_all_axes_of_size_1():
    g = Graph()
    g.stored.append(helper.make_tensor("axes", TensorProto.INT64, (0,), []))
    assert read(g.model({"x": (1, 3, 1)}, g("Squeeze", "x", "axes"))).calls[0].layer.out.shape == (3,)
    assert priced("Squeeze", (1, 3, 1))[0].out.shape == (3,)
    assert priced("Squeeze", (1, 3, 1), [0])[0].out.shape == (3, 1)


def test_determinants():
    # of a matrix of 3: below the pivots 2 and 1 quotients and comparisons, 4 and 1 products subtracted; 2 products
    layer, cost = priced("Det", (4, 3, 3))
    assert (layer.out.shape, cost.flops) == ((4,), 4 * Operations(fma=5, mul=2, div=3, cmp=3))


def test_groups_of_channels_that_have_no_places():
    # 2 * 2 groups of 2 channels: mean 1+1, variance 2+1+1+1, eps, root and its inverse 3, scale 2, weight and bias 2
    layer, cost = priced("GroupNormalization", (2, 4), (4,), (4,), opset=21, num_groups=2)
    assert (layer.op, layer.out.shape) == ("group_norm", (2, 4))
    assert cost.flops == 4 * Operations(fma=3, mul=3, add=4, div=3, special=1)


def test_padding_that_is_not_said_is_the_stated_one():
    layer, cost = priced("MaxPool", (2, 4, 8), kernel_shape=[3], auto_pad="")
    assert (layer.out.shape, cost.flops) == ((2, 4, 6), Operations(cmp=2 * 4 * 6 * 2))


def test_pools_that_no_model_of_the_corpus_has():
    layer, cost = priced("GlobalLpPool", (1, 3, 4, 4), p=2)
    assert (layer.out.shape, cost.flops) == ((1, 3, 1, 1), 3 * Operations(mul=1, fma=15, special=1))
    layer, _ = priced("MaxRoiPool", (1, 3, 8, 8), (5, 5), pooled_shape=[2, 2])
    assert layer.out.shape == (5, 3, 2, 2)


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


def test_a_file_of_integers_has_a_time_on_a_device_of_integers():
    """8 filters of 3 x 3 over 30 x 30 places, then 7,200 inputs to 10 outputs, at 0.256e12 operations per second."""
    named = {"s": np.float32(0.1), "z": np.int8(0), "w": np.ones((8, 3, 3, 3), np.int8)}
    named["v"] = np.ones((7200, 10), np.int8)
    nodes = [
        helper.make_node("QLinearConv", ["x", "s", "z", "w", "s", "z", "s", "z"], ["y"]),
        helper.make_node("Flatten", ["y"], ["flat"]),
        helper.make_node("QLinearMatMul", ["flat", "s", "z", "v", "s", "z", "s", "z"], ["out"]),
    ]
    ends = [helper.make_tensor_value_info("x", TensorProto.INT8, (1, 3, 32, 32))]
    ends.append(helper.make_tensor_value_info("out", TensorProto.INT8, (1, 10)))
    weights = [numpy_helper.from_array(np.asarray(value), name) for name, value in named.items()]
    model = helper.make_model(helper.make_graph(nodes, "net", ends[:1], ends[1:], weights))
    time = estimate(model).time("ethos-u55-256")
    assert time.status == "complete"
    assert [group.binds for group in time.groups] == ["matrix", "", "matrix"]
    assert time.bound_seconds == pytest.approx(2 * (8 * 27 * 30 * 30 + 7200 * 10) / 0.256e12)


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


def test_fourier_transforms_of_real_and_complex_signals():
    # 2 signals of 16 points: 4 stages of 2 mul and 3 add a point
    stages = 2 * 16 * 4 * Operations(mul=2, add=3)
    layer, cost = priced("DFT", (2, 16, 2), None, 1)
    assert (layer["x"].shape, layer["x"].dtype, layer.out.shape) == ((2, 16), "complex64", (2, 16, 2))
    assert cost.flops == stages
    layer, cost = priced("DFT", (2, 16, 1), None, 1, onesided=1)
    assert (layer["x"].shape, layer["x"].dtype, layer.out.shape) == ((2, 16), "float32", (2, 9, 2))
    half = 2 * 16 * 4 * Operations(mul=1) + Operations(add=2 * 16 * 4 * 3 // 2)
    assert (cost.flops, cost.mread, cost.mwrite) == (half, 4 * 32, 4 * 36)
    layer, cost = priced("DFT", (2, 16, 1), None, 1)
    assert (layer.op, cost.flops, layer.out.shape) == ("real_fft", half, (2, 16, 2))


def test_short_time_fourier_transform():
    layer, cost = priced("STFT", (1, 64, 1), 8, (16,), None)
    assert layer.out.shape == (1, 7, 9, 2)
    assert cost.flops == 7 * 16 * 4 // 2 * Operations(mul=2, add=3) + Operations(mul=7 * 16)
    layer, cost = priced("STFT", (1, 16, 1), 8, None, None)
    assert layer.out.shape == (1, 1, 9, 2), "one frame, the whole signal"
    assert cost.flops == 16 * 4 // 2 * Operations(mul=2, add=3)


def test_frames_of_unknown_length_have_no_price():
    g = Graph(17)
    y = g("STFT", "x", g.number(8, scalar=True), "", "length")
    recorder = read(g.model({"x": (1, 64, 1), "length": (INT64, ())}, y))
    answer = price(recorder.calls[-1])
    assert (answer.cost, answer.reason) == (None, "no calculator for 'ai.onnx::STFT'")
    batch, frames, bins, parts = recorder.calls[-1].layer.out.shape
    assert (batch, parts) == (1, 2)
    assert (str(frames), str(bins)) == (f"{y}_1", f"{y}_2")


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


INT32 = TensorProto.INT32


@pytest.mark.parametrize(
    ("opset", "settings", "mode"),
    [
        *((16, {}, "linear"), (16, {"mode": "nearest"}, "nearest")),
        *((16, {"mode": "bilinear"}, "linear"), (16, {"mode": "bicubic"}, "cubic")),
        *((20, {}, "linear"), (20, {"mode": "nearest"}, "nearest")),
        *((20, {"mode": "linear"}, "linear"), (20, {"mode": "cubic"}, "cubic")),
    ],
)
def test_samples_of_a_grid_are_interpolated_by_one_name_in_all_versions(opset, settings, mode):
    g = Graph(opset)
    report = estimate(g.model({"x": (2, 3, 4, 4), "grid": (2, 5, 5, 2)}, g("GridSample", "x", "grid", **settings)))
    assert report.calls[-1].layer.attrs["mode"] == mode
    operations = {"nearest": 0, "linear": 3 + 6, "cubic": 20 + 15}[mode]
    assert report.total_report["flops"] == operations * 2 * 3 * 25


def test_a_window_may_hang_over_the_end_where_lengths_are_rounded_up():
    def pooled(**settings: int) -> Graph:
        g = Graph()
        y = g("MaxPool", "x", kernel_shape=[3], dilations=[2], strides=[3], pads=[1, 1], **settings)
        return g.model({"x": (5, 7, 2)}, y)

    assert shapes(pooled(ceil_mode=1))[0] == (5, 7, 1)  # it reaches over 5 of 4 places: ceil((4 - 5) / 3) + 1
    with pytest.raises(CostError, match=r"the kernel \(3,\), larger than its padded input of shape \(2,\)"):
        read(pooled())


@pytest.mark.parametrize(
    ("lengths", "steps"),
    [((5, 4, 1), 10), ((5, 5, 5), 15), ((9, 1, 1), 7), ((-1, 2, 2), 15), (None, 15)],
    ids=["of each", "all", "too long", "negative", "left out"],
)
@pytest.mark.parametrize("layout", [0, 1])
def test_sequences_whose_lengths_are_known_take_so_many_steps(lengths, steps, layout):
    g = Graph()
    weights = g.weight(1, 4 * 6, 3), g.weight(1, 4 * 6, 6)
    places = g.number(*lengths, dtype=INT32) if lengths else ""
    y = g("LSTM", "x", *weights, "", places, hidden_size=6, layout=layout)
    model = g.model({"x": (3, 5, 3) if layout else (5, 3, 3)}, y)
    assert total(read(model).calls, "macs") == steps * 4 * 6 * (3 + 6)
