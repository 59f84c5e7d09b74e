"""Roles of operands, parameters, constants, and the module of a call."""

from __future__ import annotations

import pytest
from onnx import TensorProto

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


def test_a_weight_or_bias_of_one_element_is_a_parameter():
    g = Graph()
    report = estimate(g.model({"x": (1, 3, 4, 4)}, g("Conv", "x", g.weight(1, 3, 1, 1), g.weight(1))))
    assert report.total_report["n_params"] == report.total_report["n_params_model"] == 3 + 1


def test_a_weight_that_is_computed_is_data():
    g = Graph()
    conv = read(g.model({"x": (1, 3, 4, 4), "w": (2, 3, 1, 1)}, g("Conv", "x", "w"))).calls[-1]
    assert conv.layer["w"].role == "data"
    assert conv.parameters == ()


def test_a_tensor_used_twice_counts_once():
    g = Graph()
    w = g.weight(4, 4)
    recorder = read(g.model({"x": (2, 4)}, g("MatMul", g("MatMul", "x", w), w)))
    first, second = recorder.calls
    assert first.parameters == second.parameters
    assert recorder.n_params_model == 16
    assert sum(recorder.parameters.values()) == 16
    assert first.outputs[0] == second.inputs[0], "the value between them has one id"


def test_a_tensor_behind_identity_and_reshape_stays_a_parameter():
    g = Graph()
    w = g("Reshape", g("Identity", g.weight(2, 12)), g.number(2, 3, 2, 2))
    recorder = read(g.model({"x": (1, 3, 4, 4)}, g("Conv", "x", w)))
    assert [call.parameters for call in recorder.calls[:2]] == [(), ()], "what only renames reads nothing"
    assert recorder.calls[-1].layer["w"] == Tensor((2, 3, 2, 2), "float32", "param")
    assert recorder.n_params_model == 24


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


@pytest.mark.parametrize("steps", [8, "t"])
def test_what_shapes_make_large_is_not_free(steps):
    # positions 0 .. t-1, cut from a stored table: as large as the input, so they are read and written in every run
    g = Graph()
    length = g("Slice", g("Shape", "x"), g.number(1), g.number(2))
    y = g("Slice", g.number(*range(64)), g.number(0), length)
    z = g("Range", g.number(0, scalar=True), g("Squeeze", length), g.number(1, scalar=True))
    calls = read(g.model({"x": (2, steps)}, g("Add", y, z))).calls
    assert [call.layer.op for call in calls[-4:]] == ["slice", "reshape", "arange", "add"]
    assert str(total(calls[:-1], "mwrite")) == ("128" if steps == 8 else "16*t")


def test_values_of_real_inputs_do_not_make_the_run_free():
    g = Graph()
    calls = read(g.model({"x": (INT64, (3,))}, g("Mul", "x", "x")), {"x": [1, 2, 3]}).calls
    assert calls[0].layer.op == "mul"


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("/layer1/layer1.0/conv1/Conv", "layer1.0.conv1"),
        ("/layer1/0/conv1/Conv", "layer1.0.conv1"),
        ("/2/body/body.0/body.0.0/Conv", "2.body.0.0"),
        ("/conv1/Conv", "conv1"),
        ("Conv_12", ""),
        ("", ""),
        ("model/block/Conv2D", "model.block"),
    ],
)
def test_modules_by_names_of_nodes(name, module):
    g = Graph()
    assert read(g.model({"x": (1, 4)}, g("Relu", "x", name=name))).calls[0].module == module


def test_modules_by_metadata_of_the_exporter():
    g = Graph()
    model = g.model({"x": (1, 4)}, g("Relu", "x", name="node_relu_3"))
    scopes = "['', 'layer1', 'layer1.0', 'layer1.0.relu', 'relu_3']"
    model.graph.node[0].metadata_props.add(key="pkg.torch.onnx.name_scopes", value=scopes)
    assert read(model).calls[0].module == "layer1.0.relu"


@pytest.mark.parametrize(
    ("elements", "dtype", "counted"),
    [(5, TensorProto.FLOAT, 5), (5, TensorProto.INT64, 0), (1, TensorProto.FLOAT, 0), (1, TensorProto.INT64, 0)],
)
def test_unread_tensors_count_where_they_look_like_parameters(elements, dtype, counted):
    g = Graph()
    g.number(*[1] * elements, dtype=dtype)
    assert read(g.model({"x": (2, 3)}, g("Relu", "x"))).n_params_model == counted
