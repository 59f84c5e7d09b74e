"""Functions that a model defines: expansion, cycles, overloads, omitted inputs, formulas that replace bodies."""

from __future__ import annotations

import pytest
from onnx import TensorProto, helper

from costcore import Cost, CostError, Operations, estimate
from tests.frontends.onnx.read_model import read
from tests.frontends.onnx.small_models import local_function, node, with_functions

FLOAT, BOOL = TensorProto.FLOAT, TensorProto.BOOL
OPSETS = [helper.make_opsetid("", 21), helper.make_opsetid("local", 1)]


def function(name, inputs, nodes, overload=""):
    made = helper.make_function("local", name, inputs, ["y"], nodes, OPSETS[:1])
    made.overload = overload
    return made


def model(nodes, functions, inputs, output, stored=()):
    values = [helper.make_tensor_value_info(name, dtype, shape) for name, (dtype, shape) in inputs.items()]
    graph = helper.make_graph(
        nodes,
        "graph",
        values,
        [helper.make_tensor_value_info(output, FLOAT, None)],
        [TensorProto(name=name, dims=shape, data_type=FLOAT) for name, shape in stored],
    )
    return helper.make_model(graph, opset_imports=OPSETS, functions=functions, ir_version=10)


def call(name, inputs, output, overload=""):
    node = helper.make_node(name, inputs, [output], domain="local", name=f"call of {name}")
    node.overload = overload
    return node


X = {"x": (FLOAT, (2, 3))}
ONCE = function("f", ["a"], [helper.make_node("Relu", ["a"], ["y"])], "once")
TWICE = function("f", ["a"], [helper.make_node("Abs", ["a"], ["b"]), helper.make_node("Exp", ["b"], ["y"])], "twice")


def test_each_call_runs_its_own_overload():
    nodes = [call("f", ["x"], "m", "twice"), call("f", ["m"], "y", "once")]
    assert [c.type for c in estimate(model(nodes, [ONCE, TWICE], X, "y")).calls] == ["Abs", "Exp", "Relu"]


GEMM = function("dense", ["a", "w", "b"], [helper.make_node("Gemm", ["a", "w", "b"], ["y"])])


@pytest.mark.parametrize("given", [["x", "w"], ["x", "w", ""]])
def test_an_input_that_is_left_out_is_left_out_inside(given):
    report = estimate(model([call("dense", given, "y")], [GEMM], X, "y", [("w", (3, 5))]))
    (gemm,) = report.calls
    assert (gemm.layer.op, list(gemm.layer.inputs), gemm.layer.out.shape) == ("linear", ["x", "w"], (2, 5))
    assert report.total_report["flops"] == 2 * 5 * 3  # a product, and two that are added to it


def calc_dense(layer):
    return Cost(Operations(fma=7), 8, 9, layer.attrs)


def test_a_formula_wins_over_the_body_which_still_tells_the_shape():
    nodes = [call("dense", ["x", "w"], "h"), helper.make_node("Relu", ["h"], ["y"])]
    made = model(nodes, [GEMM], X, "y", [("w", (3, 5))])
    report = estimate(made, calculators={"local::dense": calc_dense})
    assert [(c.native, c.layer.out.shape) for c in report.calls] == [
        ("local::dense", (2, 5)),
        ("ai.onnx::Relu", (2, 5)),
    ]
    assert report.total_report["flops"] == 7 + 10
    assert report.total_report["n_params"] == 15
    assert [c.type for c in estimate(made).calls] == ["Gemm", "Relu"]


def choice(then, otherwise):
    """A model that runs one of two operators, whatever the data say."""
    branches = {}
    for name, chosen in (("then_branch", then), ("else_branch", otherwise)):
        made = helper.make_tensor_value_info(chosen.output[0], FLOAT, (2, 3))
        branches[name] = helper.make_graph([chosen], name, [], [made])
    nodes = [helper.make_node("If", ["c"], ["y"], name="choice", **branches)]
    return model(nodes, [], {**X, "c": (BOOL, ())}, "y")


def test_functions_that_call_themselves_are_refused():
    circle = [local_function(a, node(b, ["a"], ["b"], domain="local")) for a, b in (("F", "G"), ("G", "F"))]
    with pytest.raises(CostError, match=r"calls itself: local::F -> local::G -> local::F"):
        read(with_functions(*circle, call="F"))
