"""Operators between DequantizeLinear and QuantizeLinear, beside the same ones as ONNX Runtime's QOperator files."""

from __future__ import annotations

from typing import Any

import pytest
from onnx import TensorProto, helper

from costcore import estimate
from tests.frontends.onnx.read_model import read
from tests.whole_networks.onnx_models import Graph

FLOAT, INT8, INT32 = TensorProto.FLOAT, TensorProto.INT8, TensorProto.INT32
COLUMNS = ("flops", "macs", "mread", "mwrite", "n_params")
ORT = "com.microsoft"


class Quantized(Graph):
    """A graph whose values are quantized by one scale and zero point."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = self.number(0.1, dtype=FLOAT, scalar=True)
        self.zero = self.number(3, dtype=INT8, scalar=True)
        self.params = (self.scale, self.zero)

    def q(self, x: str, scale: str = "") -> str:
        return self("QuantizeLinear", x, scale or self.scale, self.zero)

    def dq(self, x: str) -> str:
        return self("DequantizeLinear", x, *self.params)

    def ints(self, *shape: int, dtype: int = INT8) -> str:
        name = self.weight(*shape)
        self.stored[-1].data_type = dtype
        return name


def totals(g: Graph, inputs: dict[str, Any], output: str, **options: Any) -> dict[str, Any]:
    report = estimate(g.model(inputs, output), **options)
    return {name: report.total_report[name] for name in COLUMNS} | {
        "arena": report.arena().size,
        "fused": report.fused("pointwise").total_report["mread"],
        "calls": len(report.calls),
    }


def residual_block(qdq: bool) -> tuple[Graph, str]:
    """A convolution with a ReLU, a convolution, their sum, the mean of each channel, and a linear layer."""
    g = Quantized()
    w0, b0, w1, w2 = g.ints(8, 8, 3, 3), g.ints(8, dtype=INT32), g.ints(8, 8, 1, 1), g.ints(5, 8)
    q = g.q("x")
    if qdq:
        a = g.q(g("Relu", g("Conv", g.dq(q), g.dq(w0), g.dq(b0), pads=[1] * 4)))
        b = g.q(g("Conv", g.dq(a), g.dq(w1)))
        c = g.q(g("Add", g.dq(a), g.dq(b)))
        c = g.q(g("MaxPool", g.dq(c), kernel_shape=[2, 2], strides=[2, 2]))
        d = g.q(g("GlobalAveragePool", g.dq(c)))
        d = g.q(g("Flatten", g.dq(d)))
        return g, g.dq(g.q(g("Gemm", g.dq(d), g.dq(w2), transB=1)))
    p = g.params
    a = g("QLinearConv", q, *p, w0, *p, *p, b0, pads=[1] * 4)
    b = g("QLinearConv", a, *p, w1, *p, *p)
    c = g("QLinearAdd", a, *p, b, *p, *p, domain=ORT)
    c = g("MaxPool", c, kernel_shape=[2, 2], strides=[2, 2])
    d = g("Flatten", g("QLinearGlobalAveragePool", c, *p, *p, domain=ORT))
    return g, g.dq(g("QGemm", d, *p, w2, *p, "", *p, transB=1, domain=ORT))


def test_a_network_with_qdq_nodes_costs_what_it_does_with_quantized_operators() -> None:
    inputs = {"x": (1, 8, 6, 6)}
    found, expected = (totals(*(g := residual_block(qdq))[:1], inputs, g[1]) for qdq in (True, False))
    assert found == expected
    assert found["macs"] == 36 * 8 * 8 * 9 + 36 * 8 * 8 + 8 * 5
    assert found["n_params"] == 8 * 8 * 9 + 8 + 8 * 8 + 5 * 8
    assert found["arena"] == 4 * 288 + 320  # x as float32, and quantized at a multiple of 64 bytes


def test_a_note_states_what_was_folded_and_an_option_keeps_the_nodes() -> None:
    g, y = residual_block(qdq=True)
    made = g.model({"x": (1, 8, 6, 6)}, y)
    (note,) = estimate(made).notes
    assert note.startswith("7 operators between DequantizeLinear and QuantizeLinear are counted as runtimes run them")
    # Each of the 7 quantizes once; of 13 nodes that dequantize, the last one stays.
    assert "They include 19 DequantizeLinear and QuantizeLinear nodes" in note
    assert "; 2 other nodes convert real inputs or outputs of the network" in note  # the first and the last node
    report = estimate(made, keep_qdq=True)
    assert not report.notes
    assert len(report.calls) == len(g.nodes)
    assert report.arena().weights == estimate(made).arena().weights


@pytest.mark.parametrize("kept", [False, True])
def test_dequantized_weights_are_never_values_of_the_run(kept: bool) -> None:
    """A convolution of real values with quantized weights has no quantized form: its weights stay where they are."""
    g = Quantized()
    y = g("Conv", "x", g.dq(g.ints(8, 8, 3, 3)), pads=[1] * 4)
    arena = estimate(g.model({"x": (1, 8, 6, 6)}, y), keep_qdq=kept).arena()
    assert (arena.size, arena.weights) == (2 * 4 * 288, 8 * 8 * 9 + 4 + 1)


def test_a_product_with_a_quantized_weight_dequantizes_it_as_it_is_used() -> None:
    g = Quantized()
    gemm = read(g.model({"x": (2, 6)}, g("Gemm", "x", g.dq(g.ints(5, 6)), transB=1))).calls
    assert [(call.layer.op, call.layer["w"].dtype) for call in gemm] == [("packed_matmul", "int8")]
    g = Quantized()
    matmul = read(g.model({"x": (2, 6)}, g("MatMul", "x", g("Transpose", g.dq(g.ints(5, 6)), perm=[1, 0])))).calls
    assert [(call.layer.op, call.layer["w"].shape, call.layer["w"].role) for call in matmul] == [
        ("packed_matmul", (6, 5), "param")
    ]


def test_rows_of_a_quantized_table_are_read_as_they_are_stored() -> None:
    g = Quantized()
    ids = {"x": (TensorProto.INT64, (1, 3))}
    (call,) = read(g.model(ids, g("Gather", g.dq(g.ints(100, 4)), "x"))).calls
    assert call.layer.op == "packed_embedding"
    g = Quantized()
    calls = read(g.model(ids, g.dq(g.q(g("Gather", g.dq(g.ints(100, 4)), "x"))))).calls
    assert [(call.layer.op, call.layer.out.dtype) for call in calls] == [
        ("embedding", "int8"),
        ("dequantize", "float32"),
    ]


def test_weights_that_are_quantized_as_they_are_stored_are_stored_integers() -> None:
    """Training that knows of quantization leaves float weights behind QuantizeLinear and DequantizeLinear."""
    g = Quantized()
    y = g.dq(g.q(g("Conv", g.dq(g.q("x")), g.dq(g.q(g.weight(2, 3, 1, 1))))))
    report = estimate(g.model({"x": (1, 3, 4, 4)}, y))
    assert [call.type for call in report.calls] == ["QuantizeLinear", "Conv", "DequantizeLinear"]
    conv = report.calls[1].layer
    assert (conv.op, conv["w"].dtype, conv["w"].role) == ("quantized_conv", "int8", "param")
    assert report.total_report["n_params"] == 6


def test_values_that_others_read_too_stay_real() -> None:
    g = Quantized()
    x = g.dq(g.q("x"))
    real = g("Add", x, x)  # the model returns it
    g.q(real)
    report = estimate(g.model({"x": (2, 4)}, real))
    assert [call.layer.op for call in report.calls] == ["quantize", "quantized_add", "quantize"]
    assert report.calls[1].layer.out.dtype == "float32"


def test_shapes_are_read_from_quantized_values() -> None:
    g = Quantized()
    x = g.dq(g.q("x"))
    g("Shape", x)
    report = estimate(g.model({"x": ("n", 4)}, g.dq(g.q(g("Relu", x)))))
    assert not report.arena().notes


def test_each_part_of_a_split_is_quantized() -> None:
    g = Quantized()
    parts = g("Split", g.dq(g.q("x")), axis=1, num_outputs=2, outputs=2)
    y = g.dq(g.q(g("Mul", *(g.dq(g.q(part)) for part in parts))))
    calls = read(g.model({"x": (2, 4)}, y)).calls
    assert [call.layer.op for call in calls] == ["quantize", "split", "quantized_mul", "dequantize"]
    assert [tensor.dtype for tensor in calls[1].layer.outputs] == ["int8", "int8"]
    assert calls[2].inputs[:2] == calls[1].outputs


def test_operators_read_quantized_values_and_return_real_ones() -> None:
    """Between a division and an error function nothing is quantized, as in a GELU of several nodes."""
    g = Quantized()
    y = g.q(g("Erf", g("Div", g.dq(g.q("x")), g.number(1.4, dtype=FLOAT))))
    _, div, erf, _ = read(g.model({"x": (2, 4)}, g.dq(y))).calls
    assert (div.layer.op, div.layer["x0"].dtype, div.layer.out.dtype) == ("quantized_div", "int8", "float32")
    assert (erf.layer.op, erf.layer["x"].dtype, erf.layer.out.dtype) == ("quantized_erf", "float32", "int8")


def test_a_value_quantized_for_each_reader_is_quantized_once() -> None:
    """Tools may write a pair of nodes for every reader (DedicatedQDQPair of ONNX Runtime's quantizer)."""
    g = Quantized()
    x = g("Relu", g.dq(g.q("x")))
    y = g("Add", g.dq(g.q(x)), g("Sigmoid", g.dq(g.q(x))))
    calls = read(g.model({"x": (2, 4)}, g.dq(g.q(y)))).calls
    assert [call.layer.op for call in calls] == [
        *("quantize", "quantized_relu", "quantized_sigmoid", "quantized_add", "dequantize")
    ]
    relu, sigmoid, add = calls[1:4]
    assert sigmoid.inputs[0] == relu.outputs[0] == add.inputs[0]
    g = Quantized()
    other = g.number(0.2, dtype=FLOAT, scalar=True)
    x = g("Relu", g.dq(g.q("x")))
    y = g("Add", g.dq(g.q(x)), g.dq(g.q(x, other)))
    calls = read(g.model({"x": (2, 4)}, y)).calls
    assert [call.layer.op for call in calls] == ["quantize", "quantized_relu", "quantize", "quantize", "quantized_add"]


def test_values_are_quantized_before_they_move() -> None:
    """TensorRT's and ONNX Runtime's optimizers quantize before reshapes, transpositions and pooling."""
    g = Quantized()
    x = g("Conv", g.dq(g.q("x")), g.dq(g.ints(8, 3, 1, 1)))
    x = g("Transpose", g("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), perm=[0, 2, 3, 1])
    parts = [g("Reshape", x, g.number(1, -1, 8)) for _ in range(2)]
    y = g("Add", *(g("MatMul", g.dq(g.q(part)), g.dq(g.ints(8, 5))) for part in parts))
    report = estimate(g.model({"x": (1, 3, 4, 4)}, y))
    calls = [(call.layer.op, call.layer.out.dtype) for call in report.calls]
    assert calls == [
        ("quantize", "int8"),
        ("quantized_conv", "int8"),
        ("max_pool", "int8"),
        ("transpose", "int8"),
        *2 * [("reshape", "int8"), ("quantized_matmul", "float32")],
        ("add", "float32"),
    ]
    arena = report.arena()
    assert not arena.notes
    assert arena.size == 3 * 128  # both products and their sum, 4 x 5 float32 at multiples of 64 bytes


def test_constants_are_not_listed_where_values_are_quantized() -> None:
    """A padding by a constant that the quantizer quantized too."""
    g = Quantized()
    zero = g("Constant", value=helper.make_tensor("", FLOAT, (), [0.0]))
    pads = g("Constant", value=helper.make_tensor("", TensorProto.INT64, (4,), [0, 1, 0, 1]))
    y = g.q(g("Pad", g.dq(g.q("x")), pads, g.dq(g.q(zero))))
    calls = read(g.model({"x": (2, 4)}, g.dq(y))).calls
    assert [call.layer.op for call in calls] == ["quantize", "pad", "dequantize"]
    kept = read(g.model({"x": (2, 4)}, g.dq(y)), keep_qdq=True).calls
    assert [call.layer.op for call in kept].count("constant") == 2
