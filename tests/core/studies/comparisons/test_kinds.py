"""What tools do to ONNX files, in one sentence and as a table, on small files made as the tools make them."""

from __future__ import annotations

import pytest

pytest.importorskip("onnx")

from onnx import TensorProto

from costcore import compare, estimate
from tests.whole_networks.onnx_models import Graph

INT8, FLOAT, HALF = TensorProto.INT8, TensorProto.FLOAT, TensorProto.FLOAT16
ORT = "com.microsoft"
X = {"x": (1, 8, 6, 6)}


def weight(g: Graph, *shape: int, dtype: int = FLOAT) -> str:
    name = g.weight(*shape)
    g.stored[-1].data_type = dtype
    return name


def real(norm: bool = False, constant: bool = False):
    """Two convolutions, a ReLU and the sum of their results."""
    g = Graph()
    if constant:
        g("Constant", value_float=1.0)
    a = g("Conv", "x", g.weight(8, 8, 1, 1))
    if norm:
        a = g("BatchNormalization", a, *(g.weight(8) for _ in range(4)))
    a = g("Relu", a)
    return g.model(X, g("Add", a, g("Conv", a, g.weight(8, 8, 1, 1))))


def quantized(qdq: bool):
    g = Graph()
    p = g.number(0.1, dtype=FLOAT, scalar=True), g.number(0, dtype=INT8, scalar=True)
    q, dq = (lambda x: g("QuantizeLinear", x, *p)), (lambda x: g("DequantizeLinear", x, *p))
    w0, w1 = weight(g, 8, 8, 1, 1, dtype=INT8), weight(g, 8, 8, 1, 1, dtype=INT8)
    if qdq:
        a = q(g("Conv", dq(q("x")), dq(w0)))
        return g.model(X, dq(q(g("Add", dq(a), dq(q(g("Conv", dq(a), dq(w1))))))))
    a = g("QLinearConv", q("x"), *p, w0, *p, *p)
    b = g("QLinearConv", a, *p, w1, *p, *p)
    return g.model(X, dq(g("QLinearAdd", a, *p, b, *p, *p, domain=ORT)))


def fused():
    g = Graph()
    a = g("FusedConv", "x", g.weight(8, 8, 1, 1), domain=ORT, activation="Relu")
    return g.model(X, g("FusedConv", a, g.weight(8, 8, 1, 1), "", a, domain=ORT))


def half():
    g = Graph()
    a = g("Relu", g("Conv", g("Cast", "x", to=HALF), weight(g, 8, 8, 1, 1, dtype=HALF)))
    return g.model(X, g("Cast", g("Add", a, g("Conv", a, weight(g, 8, 8, 1, 1, dtype=HALF))), to=FLOAT))


def dense(op: str = ""):
    g = Graph()
    if op == "MatMulNBits":
        packed = weight(g, 32, 2, 8, dtype=TensorProto.UINT8), g.weight(64)
        return g.model({"x": (2, 32)}, g(op, "x", *packed, domain=ORT, K=32, N=32, bits=4, block_size=16))
    if op == "MatMulInteger":
        quantized, scale, zero = g("DynamicQuantizeLinear", "x", outputs=3)
        y = g("Cast", g(op, quantized, weight(g, 32, 32, dtype=INT8), zero), to=FLOAT)
        return g.model({"x": (2, 32)}, g("Mul", y, scale))
    return g.model({"x": (2, 32)}, g("MatMul", "x", g.weight(32, 32)))


def transformer(merged: bool):
    """A linear layer with a GELU, a residual connection and a norm, as the exporter writes them, or merged."""
    g = Graph()
    w, b, scale, bias = g.weight(8, 8), g.weight(8), g.weight(8), g.weight(8)
    if merged:
        h = g("BiasGelu", g("MatMul", "x", w), b, domain=ORT)
        return g.model({"x": (2, 8)}, g("SkipLayerNormalization", h, "x", scale, bias, domain=ORT))
    h = g("Add", g("MatMul", "x", w), b)
    erf = g("Add", g("Erf", g("Div", h, g.number(1.41, dtype=FLOAT))), g.number(1.0, dtype=FLOAT))
    h = g("Mul", g("Mul", h, erf), g.number(0.5, dtype=FLOAT))
    return g.model({"x": (2, 8)}, g("LayerNormalization", g("Add", h, "x"), scale, bias))


def embedded(form: str = ""):
    """Rows of a table with the positions of a fixed product, then a linear layer."""
    g = Graph()
    table, scale = weight(g, 10, 8, dtype=INT8 if form == "int8" else FLOAT), g.number(0.1, dtype=FLOAT, scalar=True)
    rows = g("Gather", table, "x")
    if form == "int8":
        rows = g("DequantizeLinear", rows, scale, g.number(0, dtype=INT8, scalar=True))
    positions = g.weight(3, 8) if form == "folded" else g("MatMul", g.weight(3, 8), g.weight(8, 8))
    rows = g("Add", rows, positions)
    w, b = g.weight(8, 8), g.weight(8)
    y = g("Gemm", rows, w, b) if form == "linear" else g("Add", g("MatMul", rows, w), b)
    return g.model({"x": (TensorProto.INT64, (3,))}, y)


def version(model, opset: int):
    """The same file with another version of the standard operators."""
    model.opset_import[0].version = opset
    return model


def scores(merged: bool = False):
    """A product of scaled operands, and two linear layers, one with an activation."""
    g = Graph()
    k, w, b = g.weight(8, 8), g.weight(8, 8), g.weight(8)
    half = g.number(0.5, dtype=FLOAT)
    if merged:
        y = g("FusedMatMul", "x", "y", domain=ORT, alpha=0.25)
        y = g("FusedGemm", y, k, b, domain=ORT, activation="Tanh")
        return g.model({"x": (8, 8), "y": (8, 8)}, g("Gemm", y, w, b))
    y = g("MatMul", g("Mul", "x", half), g("Mul", "y", half))
    y = g("Tanh", g("Gemm", y, k, b))
    return g.model({"x": (8, 8), "y": (8, 8)}, g("Add", g("MatMul", y, w), b))


def blocked():
    """The two convolutions on blocks of 8 channels, as ONNX Runtime writes them."""
    g, blocks = Graph(), "com.microsoft.nchwc"
    a = g("Conv", g("ReorderInput", "x", domain=blocks), g.weight(8, 8, 1, 1), domain=blocks)
    a = g("Relu", a)
    y = g("Add", a, g("Conv", a, g.weight(8, 8, 1, 1), domain=blocks))
    return g.model(X, g("ReorderOutput", y, domain=blocks, channels=8))


def summed(new: bool = False):
    """Three sums; or two of them in integers, and a bias that was part of something else."""
    g = Graph()
    p = g.number(0.1, dtype=FLOAT, scalar=True), g.number(0, dtype=INT8, scalar=True)
    x = "x"
    for i in range(3):
        dequantized = g("DequantizeLinear", g("QuantizeLinear", x, *p), *p) if new and i else x
        x = g("Add", dequantized, dequantized)
    return g.model(X, g("Add", x, "x") if new else x)


def biased(quantized: bool = False):
    """A product and a bias; or both as one quantized operator."""
    g = Graph()
    if not quantized:
        return g.model({"x": (2, 8)}, g("Add", g("MatMul", "x", g.weight(8, 8)), g.weight(8)))
    p = g.number(0.1, dtype=FLOAT, scalar=True), g.number(0, dtype=INT8, scalar=True)
    w, b = weight(g, 8, 8, dtype=INT8), weight(g, 8, dtype=TensorProto.INT32)
    y = g("QGemm", g("QuantizeLinear", "x", *p), *p, w, *p, b, *p, domain=ORT)
    return g.model({"x": (2, 8)}, g("DequantizeLinear", y, *p))


def pooled(pruned: bool = False):
    """A network of two modules, named as the older exporter names nodes."""
    g = Graph()
    y = g("MatMul", "x", g.weight(8, 8), name="/encoder/MatMul")
    if pruned:
        return g.model({"x": (1, 8)}, y, producer_name="pytorch")
    pool = g("Tanh", g("Gemm", y, g.weight(8, 16), name="/pooler/Gemm"), name="/pooler/Tanh")
    return g.model({"x": (1, 8)}, [y, pool], producer_name="pytorch")


def padded(merged: bool):
    g = Graph()
    x = "x" if merged else g("Pad", "x", g.number(0, 0, 1, 1, 0, 0, 1, 1))
    return g.model(X, g("Conv", x, g.weight(8, 8, 3, 3), pads=[1 if merged else 0] * 4))


SAME = "MACs unchanged"
WEIGHTS = "weights 128 B instead of 512 B"
INTEGERS = (
    "2 conv, 1 add became int8; calls that quantize or dequantize: 2 more; 1 relu folded into quantization ranges"
)
NORM, NORM_WEIGHTS = "1 batch_norm folded into products", "weights 512 B instead of 576 B"
CASES = {
    "QDQ": (
        *(real(), quantized(qdq=True)),
        INTEGERS,
        WEIGHTS,
    ),
    "QOperator": (
        *(real(), quantized(qdq=False)),
        INTEGERS,
        WEIGHTS,
    ),
    "QDQ to QOperator": (quantized(qdq=True), quantized(qdq=False), None, ""),
    "extended": (real(), fused(), "1 relu, 1 add fused into 2 conv", ""),
    "norms": (real(norm=True), real(), NORM, NORM_WEIGHTS),
    "half": (
        *(real(), half()),
        "2 conv in float16 instead of float32; new: 2 cast",
        "weights 256 B instead of 512 B",
    ),
    "constants": (
        *(real(constant=True), real()),
        "no operator that costs anything changed; calls that cost nothing: 1 fewer",
        None,
    ),
    "MatMulNBits": (
        *(dense(), dense("MatMulNBits")),
        "1 matmul with uint4 weights (MatMulNBits), dequantized on use",
        "weights 512 B instead of 4 KiB",
    ),
    "dynamic": (
        *(dense(), dense("MatMulInteger")),
        "1 matmul became int8; calls that quantize or dequantize: 1 more, dynamically; "
        "new, to scale results: 1 cast, 1 mul",
        "weights 1 KiB instead of 4 KiB",
    ),
    "transformers optimizer": (
        *(transformer(merged=False), transformer(merged=True)),
        "1 erf, 1 div, 2 add, 2 mul fused into 1 gelu; 1 add fused into 1 layer_norm",
        "",
    ),
    "folded constants": (
        *(embedded(), embedded("folded")),
        "1 matmul of constants (192 MACs) folded",  # 3 x 8 x 8, as many as the linear layer
        "-50.0 % MACs; weights 704 B instead of 960 B",  # 24 elements for 24 + 64, of float32
    ),
    "linear": (embedded(), embedded("linear"), "1 add fused into 1 matmul", ""),
    "int8 table": (*(embedded(), embedded("int8")), "1 add became int8", "weights 720 B instead of 960 B"),
    "paddings": (padded(merged=False), padded(merged=True), "1 pad folded into conv", ""),
    "nothing": (real(), real(), "no operator changed", None),
    "opset": (real(), version(real(), 21), "opset 21 in place of 20; no operator changed", None),
    "opset, and more": (real(norm=True), version(real(), 21), NORM + "; opset 21 in place of 20", NORM_WEIGHTS),
    "products with scales": (
        *(scores(), scores(merged=True)),
        "1 tanh fused into 1 linear; 1 add fused into 1 matmul; 2 mul fused into 1 matmul",
        "",
    ),
    "blocks of channels": (real(), blocked(), "new: 2 transpose; convolutions run in blocks of channels", ""),
    "quantized, and a new one": (summed(), summed(new=True), "3 add became int8; new: 1 add", ""),
    "quantized, with a bias": (
        *(biased(), biased(quantized=True)),
        "1 matmul became int8; calls that quantize or dequantize: 2 more; 1 add fused into 1 matmul",
        "weights 96 B instead of 288 B",  # 64 weights and 8 biases, of 1 and 4 bytes
    ),
    "a pruned module": (
        *(pooled(), pooled(pruned=True)),
        "pooler pruned (1 linear, 1 tanh)",
        "-66.7 % MACs; weights 256 B instead of 768 B",  # 64 of 64 + 128 MACs; 64 and 128 weights of float32
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_sentence_says_what_a_tool_did(name: str) -> None:
    old, new, expected, weights = CASES[name]
    first = compare(estimate(old), estimate(new)).summary[0]
    if expected is None:
        assert first.startswith("MACs: equal")
    elif weights is None:
        assert first == expected
    else:
        assert first == "; ".join(filter(None, (expected, "" if "MACs" in weights else SAME, weights)))


def test_a_table_of_kinds_has_operators_before_and_after() -> None:
    comparison = compare(estimate(real()), estimate(quantized(qdq=True)))
    assert [(kind.what, tuple(kind.calls), tuple(kind.macs)) for kind in comparison.kinds if kind.what] == [
        ("conv → quantized_conv", (2, 2), (2 * 36 * 64, 2 * 36 * 64)),
        ("add → quantized_add", (1, 1), (0, 0)),
        ("quantize, dequantize", (0, 2), (0, 0)),
        ("relu", (1, 0), (0, 0)),
    ]
    assert "| conv → quantized_conv | 2 → 2 | 4.608 K → 4.608 K |" in comparison.to_markdown()


def test_convolutions_are_paired_with_quantized_ones() -> None:
    pairs = compare(estimate(real()), estimate(quantized(qdq=True))).pairs
    ops = [(old["op"], new["op"]) for old, new in pairs if old is not None and new is not None]
    assert ops == [("conv", "quantized_conv"), ("conv", "quantized_conv"), ("add", "quantized_add")]


def test_programs_that_ran_have_no_kinds_of_change() -> None:
    torch = pytest.importorskip("torch")
    reports = [estimate(torch.nn.Sequential(torch.nn.Linear(4, 4), *more), (1, 4)) for more in ((), [torch.nn.ReLU()])]
    assert compare(*reports).kinds == []
