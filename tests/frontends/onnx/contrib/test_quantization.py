"""Packed weights and quantized operators that ONNX Runtime adds, by hand."""

from __future__ import annotations

import pytest
from onnx import TensorProto

from costcore.ir import Operations, Tensor
from tests.frontends.onnx.contrib.single_node import INT8, INT32, INT64, UINT8, priced, shapes


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
    assert recorder.n_params_model == 640
    plain, cost, _ = priced("MatMulNBits", (3, 5, 64), {(UINT8, (10, 2, 16))}, {(20,)}, K=64, N=10, block_size=32)
    assert (plain.attrs["zero_point"], "zero_point" in layer.attrs) == (8, False)
    assert cost.flops == expected, "without zero points it is the middle of 16 numbers"


def test_rows_of_a_packed_table():
    inputs = [{(UINT8, (100, 16))}, (INT64, (2, 3)), {(100, 2)}]
    layer, cost, _ = priced("GatherBlockQuantized", *inputs, block_size=16, bits=4, quantize_axis=1)
    assert shapes(layer) == [(2, 3, 32)]
    assert cost.flops == Operations(mul=6 * 32, add=6 * 32), "8 is subtracted"
    assert cost.mread == 8 * 6 + 6 * 32 // 2 + 4 * 6 * 2
    inputs[0] = {(TensorProto.UINT4, (100, 32))}
    _, cost, recorder = priced("GatherBlockQuantized", *inputs, block_size=16, quantize_axis=1)
    assert cost.flops == Operations(mul=6 * 32), "four bits of their own have the zero point 0"
    assert recorder.n_params_model == 100 * 32


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


# 6 tokens of 8 features, 4 experts of 16 hidden units, two a token
ROUTER = Operations(add=18, div=24, special=24) + Operations(cmp=6 * 8)
JOIN = Operations(mul=48, fma=48)


W8, SCALE, SCALES, ZERO = {(INT8, (8, 5))}, [0.5], {(5,)}, (INT8, (1,))


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "n_params"),
    [
        ("QGemm", [(INT8, (3, 8)), SCALE, ZERO, W8, SCALES, ZERO, {(INT32, (5,))}], {}, 40 + 5),
        ("QOrderedMatMul", [(INT8, (3, 8)), SCALE, W8, SCALES, SCALE, {(5,)}], {}, 40 + 5),
        ("MatMulInteger16", [(TensorProto.INT16, (3, 8)), {(TensorProto.INT16, (8, 5))}], {}, 40),
        ("MatMulIntegerToFloat", [(INT8, (3, 8)), W8, SCALE, SCALE], {}, 40),
        ("MatMulIntegerToFloat", [(INT8, (3, 8)), W8, SCALE, SCALES, None, {(INT8, (5,))}, {(5,)}], {}, 40 + 5),
        ("DynamicQuantizeMatMul", [(3, 8), W8, SCALE], {}, 40),
        ("DynamicQuantizeMatMul", [(3, 8), W8, SCALES, {(INT8, (5,))}, {(5,)}], {}, 40 + 5),
        ("MulInteger", [(INT8, (2, 8)), ZERO, {(INT8, (8,))}, ZERO], {}, 8),
        ("QLinearAdd", [(UINT8, (2, 8)), SCALE, ZERO, {(UINT8, (8,))}, SCALE, ZERO, SCALE, ZERO], {}, 8),
        ("DequantizeWithOrder", [{(INT8, (3, 8))}, SCALE], {}, 24),
        ("DynamicQuantizeLSTM", [(5, 3, 7), *[{(INT8, (1, n, 16))} for n in (7, 4)], {(1, 32)}], {}, 11 * 16 + 32),
    ],
)
def test_weights_are_learned_however_they_are_stored_and_scales_are_not(op, inputs, attrs, n_params):
    if op == "DynamicQuantizeLSTM":
        inputs = [*inputs, *[None] * 4, *[{(1, 16)}, {(INT8, (1, 16))}] * 2]
        attrs = {"hidden_size": 4}
    _, _, recorder = priced(op, *inputs, **attrs)
    assert recorder.n_params_model == sum(recorder.parameters.values()) == n_params
