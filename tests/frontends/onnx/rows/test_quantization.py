"""Products of integers and of quantized tensors: one node each, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from costcore import estimate
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
