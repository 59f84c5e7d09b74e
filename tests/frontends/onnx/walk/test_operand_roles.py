"""Roles of operands, parameters, constants, and the module of a call."""

from __future__ import annotations

import pytest
from onnx import TensorProto, helper

from costcore import estimate
from costcore.ir import Tensor
from tests.frontends.onnx.read_model import read, total
from tests.whole_networks.onnx_models import Graph

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def test_roles_of_stored_tensors():
    g = Graph()
    y = g("Add", g("Add", g("Mul", "x", g.weight(4)), g.number(2.0, dtype=FLOAT)), g.number(1, 2, 3, 4))
    mul, first, second = (call.layer for call in read(g.model({"x": (3, 4)}, y)).calls)
    assert mul["x1"] == Tensor((4,), "float32", "param")
    assert first["x1"] == Tensor((), "float32", "const"), "one element is a scalar of the instruction"
    assert second["x1"] == Tensor((4,), "int64", "const")


def expanded(g: Graph, *shape: int, scalar: bool) -> str:
    return g("Expand", g.number(1.0, dtype=FLOAT, scalar=scalar), g.number(*shape))


ONE_ELEMENT = {
    "matmul": (lambda g, e: g("MatMul", e, g("Slice", "x", *map(g.number, (0, 1, 1)))), 4),
    "gemm": (lambda g, e: g("Gemm", g("Reshape", e, g.number(1, 1)), g("Reshape", "x", g.number(1, 12))), 12),
    "einsum": (lambda g, e: g("Einsum", e, "x", equation="abc,ade->abde"), 12),
    "pad": (lambda g, e: g("Add", g("Pad", e, g.number(0, 0, 0, 0, 2, 3)), "x"), 0),
    "softmax": (lambda g, e: g("Add", g("Softmax", e), "x"), 0),
    "top_k": (lambda g, e: g("Add", g("TopK", e, g.number(1), outputs=2)[0], "x"), 0),
    "sum": (lambda g, e: g("Add", g("ReduceSum", e), "x"), 0),
}
"""What reads a constant ``e`` of shape (1, 1, 1), beside the input ``x`` of shape (1, 3, 4); its MACs by hand."""


@pytest.mark.parametrize("scalar", [True, False])
@pytest.mark.parametrize("name", ONE_ELEMENT)
def test_a_constant_of_one_element_has_its_axes_where_they_matter(name: str, scalar: bool) -> None:
    build, macs = ONE_ELEMENT[name]
    g = Graph(17)
    report = estimate(g.model({"x": (1, 3, 4)}, build(g, expanded(g, 1, 1, 1, scalar=scalar))))
    assert report.status == "complete"
    assert report.total_report["macs"] == macs
    scalars = {call.layer.op for call in report.calls for x in call.layer.inputs.values() if x.is_scalar}
    assert scalars <= {"add"}, "what is added is a plain number"


def test_a_weight_or_bias_of_one_element_is_a_parameter():
    g = Graph()
    report = estimate(g.model({"x": (1, 3, 4, 4)}, g("Conv", "x", g.weight(1, 3, 1, 1), g.weight(1))))
    assert report.total_report["n_params"] == report.total_report["n_params_model"] == 3 + 1


def test_settings_state_and_scalars_are_no_parameters_and_unread_tensors_are():
    g = Graph()
    g.weight(7)  # nobody reads it
    y = g("Resize", "x", "", g.number(1.0, 1.0, 2.0, 2.0, dtype=FLOAT))
    y = g("BatchNormalization", y, *(g.weight(3) for _ in range(4)))
    y = g("Mul", y, g.number(2.0, dtype=FLOAT))
    report = estimate(g.model({"x": (1, 3, 4, 4)}, y))
    assert report.total_report["n_params"] == 6
    assert report.total_report["n_params_model"] == 6 + 7


@pytest.mark.parametrize("batch", [2, "n"])
def test_arithmetic_on_shapes_is_free_and_on_data_is_not(batch):
    g = Graph()
    half = g("Div", g("Gather", g("Shape", "x"), g.number(0, scalar=True)), g.number(2, scalar=True))
    y = g("Mul", "x", g("Cast", half, to=FLOAT))
    calls = read(g.model({"x": (batch, 6)}, y)).calls
    assert [call.layer.op for call in calls] == ["shape", "constant", "constant", "constant", "mul"]
    assert str(total(calls, "flops")) == ("12" if batch == 2 else "6*n")
    assert str(total(calls, "mread")) == ("48" if batch == 2 else "24*n")


@pytest.mark.parametrize(
    ("elements", "dtype", "counted"),
    [(5, TensorProto.FLOAT, 5), (5, TensorProto.INT64, 0), (1, TensorProto.FLOAT, 0), (1, TensorProto.INT64, 0)],
)
def test_unread_tensors_count_where_they_look_like_parameters(elements, dtype, counted):
    g = Graph()
    g.number(*[1] * elements, dtype=dtype)
    assert read(g.model({"x": (2, 3)}, g("Relu", "x"))).n_params_model == counted


def recurrent(*moves: tuple[str, dict[str, object]]) -> tuple[int, int]:
    """Parameters of an LSTM of 4 inputs and 6 units whose stored initial states pass ``moves``."""
    g = Graph()
    states = [g.weight(1, 1, 6), g.weight(1, 1, 6)]
    for op, attributes in moves:
        more = (g.number(1, 3, 6),) if op == "Expand" else (g.number(1, 3, 1),) if op == "Tile" else ()
        states = [g(op, state, *more, **attributes) for state in states]
    weights = [g.weight(1, 24, 4), g.weight(1, 24, 6), g.weight(1, 48)]
    y = g("LSTM", "x", *weights, "", *states, hidden_size=6)
    total = estimate(g.model({"x": (5, 3, 4)}, y)).total_report
    return total["n_params"], total["n_params_model"]


@pytest.mark.parametrize(
    "moves",
    [
        [("Expand", {})],
        [("Tile", {})],
        [("Identity", {}), ("Expand", {})],
        [("Transpose", {"perm": (1, 0, 2)}), ("Transpose", {"perm": (1, 0, 2)}), ("Expand", {})],
        [("Cast", {"to": TensorProto.FLOAT}), ("Expand", {})],
    ],
    ids=lambda moves: "-".join(op for op, _ in moves),
)
def test_initial_states_behind_moves_are_no_parameters(moves):
    assert recurrent(*moves) == (4 * 6 * (4 + 6 + 2),) * 2


def product_of_integers(g: Graph, scale: str) -> str:
    """A matrix product of 4 by 5 stored integers, scaled as ONNX Runtime's dynamic quantization writes it."""
    w = g.number(*range(20), dtype=TensorProto.INT8)
    w = g("Reshape", w, g.number(4, 5))
    g.nodes.append(helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "q_scale", "q_zero"]))
    product = g("Cast", g("MatMulInteger", "q", w, "q_zero"), to=FLOAT)
    return g("Mul", product, g("Mul", "q_scale", scale))


def product_with_one_scale(g: Graph, scale: str) -> str:
    w = g("Reshape", g.number(*range(20), dtype=TensorProto.INT8), g.number(4, 5))
    q = g("Cast", "x", to=TensorProto.INT8)
    return g("Mul", scale, g("Cast", g("MatMulInteger", q, w), to=FLOAT))


def bias_scale(g: Graph, scale: str) -> str:
    """A bias of 5 elements, stored as integers, whose scale is a product of scales."""
    b = g.number(*range(5), dtype=TensorProto.INT32)
    b = g("DequantizeLinear", b, g("Mul", scale, g.number(0.1, dtype=FLOAT)), axis=0)
    return g("Add", g("MatMul", "x", g.weight(4, 5)), b)


@pytest.mark.parametrize(
    ("build", "learned"), [(product_of_integers, 20), (product_with_one_scale, 20), (bias_scale, 20 + 5)]
)
def test_quantization_scales_that_feed_a_product_are_no_parameters(build, learned):
    g = Graph()
    report = estimate(g.model({"x": (3, 4)}, build(g, g.weight(5))))
    assert report.total_report["n_params"] == report.total_report["n_params_model"] == learned


def test_an_expanded_value_is_read_as_it_is_stored() -> None:
    """PyTorch expands without a copy: what reads the result reads each element once, as here behind views too."""
    g = Graph()
    e = g("Expand", "x", g.number(8, 3, 4))  # from (1, 3, 1)
    readers = [
        g("Relu", e),
        g("Relu", g("Transpose", e, perm=[2, 0, 1])),
        g("Relu", g("Unsqueeze", e, g.number(0))),
        g("Relu", g("Reshape", e, g.number(8, 1, 3, 4))),
        g("Relu", g("Reshape", e, g.number(24, 4))),  # copied: positions that lie apart become one axis
    ]
    calls = read(g.model({"x": (1, 3, 1)}, readers)).calls
    assert [call.layer["x"].nbytes for call in calls if call.type == "Relu"] == [4 * 3] * 4 + [4 * 96]
    assert total(calls[:1], "mwrite") == 4 * 96, "runtimes write the result"


@pytest.mark.parametrize("how", ["stored", "cast", "joined"])
def test_scales_of_a_resize_are_no_parameters(how: str) -> None:
    g = Graph()
    if how == "cast":
        g.stored.append(helper.make_tensor("scales", TensorProto.DOUBLE, (4,), [1.0, 1.0, 2.0, 2.0]))
        scales = g("Cast", "scales", to=FLOAT)
    elif how == "joined":
        scales = g("Concat", g.number(1.0, 1.0, dtype=FLOAT), g.number(2.0, 2.0, dtype=FLOAT), axis=0)
    else:
        scales = g.number(1.0, 1.0, 2.0, 2.0, dtype=FLOAT)
    report = estimate(g.model({"x": (1, 3, 4, 4)}, g("Resize", "x", "", scales)))
    assert report.calls[-1].layer.out.shape == (1, 3, 8, 8)
    assert report.total_report["n_params"] == report.total_report["n_params_model"] == 0
