"""QONNX: quantized weights and activations of any number of bits."""

from __future__ import annotations

import pytest

from costcore.ir import Operations
from tests.frontends.onnx.contrib.single_node import priced

QONNX = "qonnx.custom_op.general"
FAKE = Operations(mul=1, add=2, div=1, cmp=3)
"""Of one element: x / scale + zero point, round, two limits, - zero point, * scale."""


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "name", "each"),
    [
        ("Quant", [[0.5], [0.0], [4.0]], {"signed": 1, "narrow": 0, "rounding_mode": "ROUND"}, "fake_quantize", FAKE),
        ("IntQuant", [[0.5], [0.0], [4.0]], {"signed": 1, "narrow": 1}, "fake_quantize", FAKE),
        ("BipolarQuant", [[0.5]], {}, "bipolar_quantize", Operations(cmp=1, mul=1)),
        (
            *("Trunc", [[0.5], [0.0], [8.0], [4.0]], {"rounding_mode": "FLOOR"}, "truncate_bits"),
            Operations(mul=1, add=2, div=2, cmp=2),
        ),
        (
            *("Trunc", [[0.5], [0.0], [8.0], [8.0], [4.0]], {"signed": 1}, "truncate_bits"),
            Operations(mul=1, add=2, div=2, cmp=4),
        ),
        (
            *("FloatQuant", [[0.5], [4.0], [3.0], [7.0], [448.0]], {}, "float_quantize"),
            Operations(mul=2, add=3, div=2, cmp=5, special=2),
        ),
    ],
)
def test_quantization(op, inputs, attrs, name, each):
    layer, cost, recorder = priced(op, (2, 6), *inputs, domain=QONNX, **attrs)
    assert (layer.op, layer.out.shape, cost.flops) == (name, (2, 6), 12 * each)
    assert (cost.mread, cost.mwrite) == (12 * 4, 12 * 4), "a scalar is a part of the instruction"
    assert recorder.n_params_model == 0


@pytest.mark.parametrize(("attrs", "fma"), [({}, 0), ({"out_scale": 0.5}, 12), ({"out_bias": -1.0}, 12)])
def test_thresholds_are_learned(attrs, fma):
    _, cost, recorder = priced("MultiThreshold", (2, 6), {(6, 3)}, domain=QONNX, **attrs)
    assert cost.flops == Operations(fma=fma, cmp=12 * 3, add=12 * 2)
    assert recorder.n_params_model == 18


@pytest.mark.parametrize("domain", [QONNX, "finn.custom_op.general"])
def test_a_pooling_with_channels_last(domain):
    """Windows of 2 by 2 with stride 2 over (5, 6): 2 by 3 outputs, or 3 by 3 rounded up; 3 comparisons for each."""
    attrs = {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [0] * 4, "domain": domain}
    for ceil_mode, rows in ((0, 2), (1, 3)):
        layer, cost, _ = priced("MaxPoolNHWC", (1, 5, 6, 7), ceil_mode=ceil_mode, **attrs)
        assert layer.out.shape == (1, rows, 3, 7)
        assert cost.flops == Operations(cmp=rows * 3 * 7 * 3)
        assert (cost.mread, cost.mwrite) == (4 * 5 * 6 * 7, 4 * rows * 3 * 7)


@pytest.mark.parametrize(
    ("layout", "shape", "made"), [("NCHW", (1, 7, 5, 6), (1, 7, 2, 3)), ("NHWC", (1, 5, 6, 7), (1, 2, 3, 7))]
)
def test_a_quantized_average(layout, shape, made):
    """Of 2 by 2 elements: 3 sums, and 1 shift that stands for the division."""
    attrs = {"kernel": 2, "stride": 2, "ibits": 4, "obits": 4, "signed": 0, "data_layout": layout}
    layer, cost, _ = priced("QuantAvgPool2d", shape, domain=QONNX, **attrs)
    assert (layer.op, layer.out.shape) == ("avg_pool", made)
    assert cost.flops == Operations(add=42 * 3, div=42)
    assert (cost.mread, cost.mwrite) == (4 * 210, 4 * 42)


def test_patches():
    """3 by 2 windows over (5, 6), padded by 1 above and below, stride 2 by 1: (5 + 2 - 3) // 2 + 1 = 3 by 5 of 42."""
    attrs = {"kernel_size": [3, 2], "stride": [2, 1], "pad_amount": [1, 0, 1, 0], "input_shape": "(1, 5, 6, 7)"}
    layer, cost, _ = priced("Im2Col", (1, 5, 6, 7), domain=QONNX, **attrs)
    assert (layer.op, layer.out.shape) == ("im2col", (1, 3, 5, 3 * 2 * 7))
    assert cost.flops == Operations()
    assert (cost.mread, cost.mwrite) == (4 * 210, 4 * 630)


def test_a_product_of_binary_matrices():
    """15 dot products of length 4."""
    layer, cost, _ = priced("XnorPopcountMatMul", (3, 4), {(4, 5)}, domain=QONNX)
    assert (layer.op, layer.out.shape, cost.macs) == ("matmul", (3, 5), 60)
    assert cost.flops == Operations(mul=15, fma=45)
    assert (cost.mread, cost.mwrite) == (4 * (12 + 20), 4 * 15)
