"""A report of a graph tells which nodes a call stands for, and the names of what they produce."""

from __future__ import annotations

import json

import pytest
from onnx import ModelProto, TensorProto, helper

from costcore import CostError, Report, estimate
from tests.frontends.onnx.small_models import F, local_function, loop, model, node, with_functions


def names(report: Report) -> list[tuple[list[str], list[str]]]:
    """The nodes and the outputs of every call."""
    return [(entry["nodes"], entry["outputs"]) for entry in report.layer_report.values()]


def chain(*given: str) -> ModelProto:
    """Equal nodes of these names, one after another; the values are ``x``, ``x1``, ``x2`` … ``y``."""
    values = ["x", *(f"x{i}" for i in range(1, len(given))), "y"]
    return model(*(node("Relu", [values[i]], [values[i + 1]], name) for i, name in enumerate(given)))


def test_equal_nodes_keep_their_own_names_and_one_without_a_name_is_known_by_its_output():
    assert names(estimate(chain("/first/Relu", "/second/Relu", "", "/last/Relu"))) == [
        (["/first/Relu"], ["x1"]),
        (["/second/Relu"], ["x2"]),
        ([], ["x3"]),
        (["/last/Relu"], ["y"]),
    ]


def test_a_call_of_a_loop_has_the_names_in_its_body_however_its_iterations_are_counted():
    inside = [([], [f"again.body/{name}"]) for name in ("one", "w", "go_on", "out")]
    constants = [([], ["five"]), ([], ["none"])]
    assert names(estimate(loop("five"))) == [*constants, *inside, ([], ["y"])]
    # v doubles: every iteration is walked by itself
    kinds = (("i", TensorProto.INT64, ()), ("go", TensorProto.BOOL, ()), ("v", F, None))
    values = [helper.make_tensor_value_info(*each) for each in kinds]
    made = [helper.make_tensor_value_info("go", TensorProto.BOOL, ()), helper.make_tensor_value_info("w", F, None)]
    body = helper.make_graph([node("Concat", ["v", "v"], ["w"], "twice", axis=1)], "body", values, made)
    trips = node("Constant", [], ["m"], value_int=3)
    report = estimate(model(trips, node("Loop", ["m", "", "x"], ["y"], "again", body=body)))
    assert [call.region for call in report.calls[1:]] == [f"again.body[{i}]" for i in range(3)]
    assert names(report)[1:] == [(["again.body/twice"], ["again.body/w"])] * 3


def test_calls_of_one_function_are_told_apart_by_the_node_that_calls_it():
    function = local_function("f", node("Relu", ["a"], ["m"], "inner"), node("Exp", ["m"], ["b"]))
    made = with_functions(function, call="f")
    del made.graph.node[:]
    calls = [("x", "m1", "one"), ("m1", "m2", "two"), ("m2", "y", "")]
    made.graph.node.extend(node("f", [x], [y], name, domain="local") for x, y, name in calls)
    assert names(estimate(made)) == [
        (["one/inner"], ["one/m"]),
        ([], ["one/b"]),
        (["two/inner"], ["two/m"]),
        ([], ["two/b"]),
        (["f/inner"], ["f/m"]),  # a call without a name goes by that of the function, as in shapes={"f/m": …}
        ([], ["f/b"]),
    ]


def norms(*given: str, after: str = "y") -> list:
    """The nodes of an RMS norm of ``x``, of these names, whose output is ``after``."""
    kinds = ("Mul", "ReduceMean", "Add", "Sqrt", "Div")
    values = [f"{after}_{kind}" for kind in kinds[:-1]] + [after]
    reads = [["x", "x"], [values[0], "axes"], [values[1], "eps"], [values[2]], ["x", values[3]]]
    return [node(kind, *each) for kind, *each in zip(kinds, reads, [[v] for v in values], given, strict=True)]


def test_a_regrouped_call_has_the_names_of_all_its_nodes_and_of_what_the_group_produces():
    made = model(*norms("square", "mean", "", "root", "divide", after="n"), node("Relu", ["n"], ["y"], "act"))
    made.graph.initializer.append(helper.make_tensor("axes", TensorProto.INT64, (1,), [-1]))
    made.graph.initializer.append(helper.make_tensor("eps", F, (), [1e-6]))
    report = estimate(made, regroup=("rms_norm",))
    assert [entry["op"] for entry in report.layer_report.values()] == ["rms_norm", "relu"]
    assert names(report) == [(["square", "mean", "root", "divide"], ["n"]), (["act"], ["y"])]
    assert Report.from_json(report.to_json()).layer_report == report.layer_report


def test_files_and_tables_have_the_names_and_files_without_them_are_read():
    report = estimate(chain("/first/Relu", ""))
    assert report.to_csv(columns=("name", "nodes", "outputs")).splitlines() == [
        "Layer name,Nodes,Outputs",
        "Relu-1,/first/Relu,x1",
        "Relu-2,,y",
        "total,,",
    ]
    data = json.loads(report.to_json())
    assert data["nodes"] == [
        {"call": 0, "nodes": ["/first/Relu"], "outputs": ["x1"]},
        {"call": 1, "nodes": [], "outputs": ["y"]},
    ]
    again = Report.from_json(json.dumps(data))
    assert again == report
    assert again.layer_report == report.layer_report
    assert Report.from_json(json.dumps(data | {"nodes": [data["nodes"][1]]})).layer_report["Relu-2"]["outputs"] == ["y"]
    old = Report.from_json(json.dumps({key: value for key, value in data.items() if key != "nodes"}))
    assert "nodes" not in old.layer_report["Relu-1"]
    assert old.total_report == report.total_report
    with pytest.raises(CostError, match=r"nodes\[0\]\.call: .*got 2, expected the index of a call"):
        Report.from_json(json.dumps(data | {"nodes": [{"call": 2, "nodes": [], "outputs": []}]}))


def test_a_part_of_a_run_keeps_the_names_of_its_calls():
    part = estimate(chain("a", "b", "c")).trace.only([1, 2])
    assert names(Report(part)) == [(["b"], ["x2"]), (["c"], ["y"])]
