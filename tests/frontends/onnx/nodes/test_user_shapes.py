"""Shapes that the user gives for values inside the model, and hints on input values that would make them known."""

from __future__ import annotations

import re

import pytest
from onnx import ModelProto, TensorProto, helper

from costcore import Cost, CostError, CostWarning, Operations, Tensor, estimate
from tests.command_line import main
from tests.frontends.onnx.read_model import read
from tests.whole_networks.onnx_models import Graph

F, B, INT64 = TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT64
WAVES = ("Wave", "Wave")


def unknown(*ops: str, domain: str = "my.ops") -> ModelProto:
    """Operators that nobody knows, each of an input of its own, ``x0`` to ``h0``, and then ``Relu`` of the first."""
    nodes = [helper.make_node(op, [f"x{i}"], [f"h{i}"], domain=domain) for i, op in enumerate(ops)]
    nodes.append(helper.make_node("Relu", ["h0"], ["y"], name="act"))
    names = [f"x{i}" for i in range(len(ops))]
    inputs = [helper.make_tensor_value_info(name, F, ("N", 8)) for name in names]
    outputs = [helper.make_tensor_value_info(name, F, None) for name in ("y", *(f"h{i}" for i in range(len(ops))))]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(domain, 1)]
    return helper.make_model(helper.make_graph(nodes, "graph", inputs, outputs), opset_imports=opsets)


def calc_wave(layer):
    return Cost(Operations(cmp=layer.out.size), layer.read, layer.written, layer.attrs)


PRICED = {"my.ops::Wave": calc_wave}


@pytest.mark.filterwarnings("ignore:no shapes for:costcore.CostWarning")
def test_two_values_of_unknown_shape_have_a_symbol_each_and_are_assumed():
    report = estimate(unknown(*WAVES), calculators=PRICED)
    assert str(report.total_report["flops"]) == "h0_elements + h1_elements"
    assert report.subs(h0_elements=3, h1_elements=4).total_report["flops"] == 3 + 4
    assert [(a.what, a.where) for a in report.assumptions] == [
        (
            f"the shape of 'h{i}' is unknown: assumed one axis, its size the symbol h{i}_elements. "
            f"Give its shape: shapes={{'h{i}': ('N', 8)}}",
            f"the Wave node that produces 'h{i}'",
        )
        for i in range(2)
    ]
    assert (
        estimate(unknown(*WAVES), calculators=PRICED, dims={"h0_elements": 5, "h1_elements": 7}).total_report["flops"]
        == 5 + 7
    )


def test_shapes_of_values_inside_functions_and_loops_go_by_their_full_name():
    nodes = [helper.make_node("Wave", ["a"], ["m"], domain="other"), helper.make_node("Relu", ["m"], ["b"])]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("other", 1)]
    made = unknown("Twice")
    made.functions.append(helper.make_function("my.ops", "Twice", ["a"], ["b"], nodes, opsets))
    # the two ReLUs of 4*N, in the function and behind it
    with pytest.warns(CostWarning, match="no calculator for 'other::Wave'"):
        assert str(estimate(made, shapes={"Twice/m": ("N", 4)}).total_report["flops"]) == "8*N"
    scanned = looped()
    scanned.opset_import.add(domain="other", version=1)
    body = scanned.graph.node[0].attribute[0].g
    body.node[0].CopyFrom(nodes[0])
    body.node[0].input[0] = "v"
    body.node.append(helper.make_node("Relu", ["m"], ["v2"]))
    with pytest.warns(CostWarning, match="no calculator for 'other::Wave'"):
        report = estimate(scanned, {"n": 5}, shapes={"loop.body/m": (3,)})
    assert report.total_report["flops"] == 5 * 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"y": ("N", 8)}, "the node 'act' (Relu) produces 'y' of shape (N, 4) (got (N, 8) in shapes)"),
        ({"y": ("N", 4, 1)}, "produces 'y' of shape (N, 4) (got (N, 4, 1) in shapes)"),
        ({"y": Tensor(("N", 4), "int8")}, "produces 'y' of dtype float32 (got int8 in shapes)"),
        ({"z": (1,)}, "shapes: no node produces 'z' (values: 'h0', 'y')"),
        ({"h00": (1,)}, ". Did you mean 'h0'?"),
        ({"x0": (1, 8)}, "shapes: 'x0' is an input of the model. Give its shape with inputs={'x0': …}"),
        ({"y": (-1,)}, "shapes: shape (-1,) of 'y': a dimension is negative"),
        ({"y": ("",)}, "shapes: shape ('',) of 'y': a dimension has an empty name"),
        ({"y": (1 << 4096,)}, "the shape of 'y' has 2**4096 elements or more"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(given, message):
    with pytest.raises(CostError, match=re.escape(message.removeprefix("the "))):
        read(unknown("Wave"), shapes={"h0": ("N", 4), **given})


def test_a_node_that_cannot_be_read_without_a_shape_asks_for_it():
    body = helper.make_graph(
        [helper.make_node("Relu", ["a"], ["b"])],
        "body",
        [helper.make_tensor_value_info("a", F, (8,))],
        [helper.make_tensor_value_info("b", F, (8,))],
    )
    made = unknown("Wave")
    made.graph.node[1].CopyFrom(helper.make_node("Scan", ["h0"], ["y"], name="act", body=body, num_scan_inputs=1))
    with pytest.raises(CostError, match=re.escape("Give the model's inputs (inputs=…), or shapes={'h0': ('N', 8)}")):
        read(made)
    with pytest.warns(CostWarning, match="no calculator for 'my.ops::Wave'"):
        assert str(estimate(made, shapes={"h0": ("N", 8)}).total_report["flops"]) == "8*N"


@pytest.mark.parametrize("given", [[("N", 8)], {1: (2,)}, ("h0", (1,)), {"h0": [1, 2]}, {"h0": 3}, {"h0": (1.5,)}])
def test_what_gives_no_shapes_by_name_is_refused(given):
    with pytest.raises(TypeError, match=r"^shapes(:| must map names of values to shapes)"):
        read(unknown("Wave"), shapes=given)


def looped(count: str = "n") -> ModelProto:
    """A loop that adds 1 to 3 numbers ``n`` times."""
    body = helper.make_graph(
        [helper.make_node("Add", ["v", "v"], ["v2"]), helper.make_node("Identity", ["c"], ["c2"])],
        "body",
        [
            helper.make_tensor_value_info(name, kind, s)
            for name, kind, s in (("i", INT64, ()), ("c", B, ()), ("v", F, (3,)))
        ],
        [helper.make_tensor_value_info("c2", B, ()), helper.make_tensor_value_info("v2", F, (3,))],
    )
    g = Graph()
    trips = count if count == "n" else g("Mul", "n", g.number(2, scalar=True))
    return g.model({"n": (INT64, ()), "x": (3,)}, g("Loop", trips, "", "x", body=body, name="loop"))


def test_an_input_that_decides_is_asked_for():
    g = Graph()
    parts = {
        f"{name}_branch": helper.make_graph(
            [helper.make_node(op, ["x"], [op])], name, [], [helper.make_tensor_value_info(op, F, (3,))]
        )
        for name, op in (("then", "Relu"), ("else", "Sigmoid"))
    }
    made = g.model({"c": (B, ()), "x": (3,)}, g("If", "c", **parts))
    (told,) = read(made).assumptions
    assert told.what.endswith("'else' (12 FLOPs), is counted; 'then' has 3; give inputs={'c': True}")
    assert estimate(made, {"c": True}).total_report["flops"] == 3


def test_one_number_is_no_list():
    with pytest.raises(CostError, match=re.escape("input 'n' is a scalar (got the list [9]). Give 9")):
        read(looped(), {"n": [9], "x": (3,)})


def test_the_command_line_gives_shapes_of_values(tmp_path, capsys):
    """Relu of 4 rows of 8."""
    path = tmp_path / "net.onnx"
    path.write_bytes(unknown("Wave").SerializeToString())
    options = [
        "--shape",
        "h0=rows,8",
        "--dim",
        "rows=4",
        "--format",
        "csv",
        "--unit",
        "none",
        "--columns",
        "name,flops",
    ]
    assert main([str(path), *options]) == 0
    assert capsys.readouterr().out.splitlines() == ["Layer name,FLOPs", "Relu-1,32", "total,32"]
