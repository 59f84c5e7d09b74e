"""Custom operators: how they are listed, and the calculators and rows that count them."""

from __future__ import annotations

import re

import pytest
from onnx import TensorProto, helper

from costcore import Cost, CostError, Operations, estimate, hookimpl, plugins
from costcore.translate import Row


def waves(**settings):
    """An operator that nobody knows, which makes 16 numbers of 16 stored ones in every row."""
    graph = helper.make_graph(
        [helper.make_node("Wave", ["x", "w"], ["y"], name="wave", domain="my.ops", **settings)],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ("batch", 16))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ("batch", 16))],
        [TensorProto(name="w", dims=(16,), data_type=TensorProto.FLOAT)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("my.ops", 1)])


def test_a_calculator_sees_shapes_and_settings():
    def calc_wave(layer):
        assert layer.attrs == {"bands": 3, "mode": "sine", "range": (0.5, 2.0)}
        return Cost(Operations(special=layer.attrs["bands"] * layer.out.size), layer.read, layer.written, layer.attrs)

    model = waves(bands=3, mode="sine", range=(0.5, 2.0), table=helper.make_tensor("", TensorProto.FLOAT, (1,), [1.0]))
    report = estimate(model, dims={"batch": 2}, calculators={"my.ops::Wave": calc_wave})
    assert report.total_report["flops"] == 3 * 2 * 16
    assert report.total_report["n_params"] == 16
    assert report.layer_report["Wave-1"]["params"] == {"bands": 3, "mode": "sine", "range": (0.5, 2.0)}
    assert report.status == "complete"


def test_long_lists_are_no_settings():
    def calc_wave(layer):
        return Cost(0, 0, 0, layer.attrs)

    report = estimate(waves(short=[1] * 1024, long=[1] * 1025), calculators={"my.ops::Wave": calc_wave})
    assert report.layer_report["Wave-1"]["params"] == {"short": (1,) * 1024}


def chained():
    """Of what an unknown operator makes the model declares nothing."""
    model = waves(bands=3)
    model.graph.node[0].output[0] = "h"
    model.graph.node.append(helper.make_node("Relu", ["h"], ["y"], name="act"))
    return model


@pytest.mark.parametrize(
    ("native", "inputs", "message"),
    [
        (
            "my.ops::Wave",
            {"x0": "x", "x1": "w"},
            "operand x0 reads the unknown argument 'x' (expected one of",
        ),
        (
            "my.ops::Wave",
            {"x0": "inputs"},
            "operand x0 reads a list of tensors (expected one tensor)",
        ),
        (
            "ai.onnx::Relu",
            {"x": "x"},
            "operand x reads the unknown argument 'x' (expected one of 'X'",
        ),
        ("ai.onnx::Relu", {"x*": "X"}, "operand x* reads one tensor (expected a list of tensors)"),
    ],
)
def test_a_row_that_misnames_an_input_is_refused_by_its_name(native, inputs, message):
    class Rows:
        @hookimpl
        def costcore_rows(self, frontend):
            return [Row(native, "mul", inputs)] if frontend == "onnx" else []

    model = chained() if native == "ai.onnx::Relu" else waves()
    model.graph.value_info.append(helper.make_tensor_value_info("h", TensorProto.FLOAT, ("batch", 16)))
    plugin = Rows()
    plugins.register(plugin)
    try:
        with pytest.raises(CostError, match=re.escape(f"the model: row of {native}: {message}")):
            estimate(model)
    finally:
        plugins.unregister(plugin)


def test_a_row_of_a_plugin_translates_an_operator_of_its_own():
    class Rows:
        @hookimpl
        def costcore_rows(self, frontend):
            return [Row("my.ops::Wave", "mul", {"x*": "inputs"})] if frontend == "onnx" else []

    plugin = Rows()
    plugins.register(plugin)
    try:
        assert str(estimate(waves()).total_report["flops"]) == "16*batch"
    finally:
        plugins.unregister(plugin)
