"""Products of integers and of quantized tensors: one node each, by hand."""

from __future__ import annotations

from onnx import TensorProto

from costcore.ir import Operations
from tests.frontends.onnx.rows.single_node import INT8, UINT8, priced


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
