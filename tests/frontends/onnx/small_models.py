"""Small ONNX models made by hand: single nodes, branches, loops and functions."""

from __future__ import annotations

from itertools import pairwise

from onnx import ModelProto, NodeProto, TensorProto, helper

from tests.whole_networks.onnx_models import make_model

F, INT64, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def model(*nodes: NodeProto, x: tuple[object, ...] = (1, 4), output: str = "y", opset: int = 20) -> ModelProto:
    """A model of hand-made nodes."""
    inputs = [helper.make_tensor_value_info("x", F, x)]
    outputs = [helper.make_tensor_value_info(output, F, None)]
    return make_model(helper.make_graph(nodes, "graph", inputs, outputs), opset)


node = helper.make_node


def branches(then: int, other: int, condition: str, cond_dtype: int = B) -> ModelProto:
    """An If of ``then`` or ``other`` activations of 4 elements."""

    def body(count, name):
        names = ["x", *(f"{name}{i}" for i in range(count))]
        nodes = [node("Relu", [a], [b]) for a, b in pairwise(names)]
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(names[-1], F, (1, 4))])

    choice = node("If", [condition], ["y"], "choose", then_branch=body(then, "t"), else_branch=body(other, "e"))
    made = model(node("Constant", [], ["yes"], value=helper.make_tensor("", B, (), [True])), choice)
    made.graph.input.append(helper.make_tensor_value_info("c", cond_dtype, ()))
    return made


def loop(trips: str) -> ModelProto:
    """A Loop that adds 1 to 4 elements and puts out the sums."""
    body = helper.make_graph(
        [
            node("Constant", [], ["one"], value_float=1.0),
            node("Add", ["v", "one"], ["w"]),
            node("Identity", ["go"], ["go_on"]),
            node("Identity", ["w"], ["out"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", INT64, ()),
            helper.make_tensor_value_info("go", B, ()),
            helper.make_tensor_value_info("v", F, (1, 4)),
        ],
        [helper.make_tensor_value_info(name, F, None) for name in ("go_on", "w", "out")],
    )
    made = model(
        node("Constant", [], ["five"], value_int=5),
        node("Constant", [], ["none"], value_int=-1),
        node("Loop", [trips, "", "x"], ["last", "all"], "again", body=body),
        node("Relu", ["all"], ["y"]),
    )
    made.graph.input.append(helper.make_tensor_value_info("m", INT64, ()))
    return made


def with_functions(*functions, call: str) -> ModelProto:
    made = model(node(call, ["x"], ["y"], "outer", domain="local"))
    made.opset_import.add(domain="local", version=1)
    made.functions.extend(functions)
    return made


def local_function(name: str, *nodes: NodeProto):
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("local", 1)]
    return helper.make_function("local", name, ["a"], ["b"], nodes, imports, ["slope"])
