"""The memory of loops, branches and functions: worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from costcore import Report, estimate
from costcore.errors import ArenaError
from tests.frontends.onnx.small_models import model, node
from tests.frontends.onnx.walk.test_loops import body_of, looped

F, B, INT64 = TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT64


def returning(*nodes: Any, outputs: tuple[str, ...]) -> Any:
    """A branch."""
    return helper.make_graph(nodes, "branch", [], [helper.make_tensor_value_info(name, F, None) for name in outputs])


def chosen(then: Any, other: Any, *after: Any, result: str = "y", **options: Any) -> ModelProto:
    """A model with the inputs x and c, of which c decides between two branches."""
    choice = node("If", ["c"], [result], "choose", then_branch=then, else_branch=other)
    made = model(node("Sigmoid", ["x"], ["a"]), choice, *after, **options)
    made.graph.input.append(helper.make_tensor_value_info("c", B, ()))
    return made


# more FLOPs, less memory: three times 4 elements; fewer FLOPs, more memory: a copy of 4 * 4 elements
LONG = returning(*(node("Sigmoid", ["a" if i == 0 else f"t{i}"], [f"t{i + 1}"]) for i in range(3)), outputs=("t3",))
WIDE = returning(
    node("Concat", ["a"] * 4, ["w"], axis=0), node("ReduceMax", ["w"], ["e"], axes=[0], keepdims=1), outputs=("e",)
)


@pytest.mark.parametrize("swapped", [False, True])
def test_the_branch_with_more_memory_decides_the_peak_whichever_has_more_flops(swapped):
    then, other = (WIDE, LONG) if swapped else (LONG, WIDE)
    report = estimate(chosen(then, other, opset=17))
    assert sum(call.type == "Sigmoid" for call in report.calls) == 4, "the long branch is counted"
    arena = report.arena()
    # a, which both branches read, and c live until the If ends: 16 + 1. Wide: 64 + 16; long: 16 + 16
    assert arena.peak == 16 + 1 + 64 + 16
    wide = "then" if swapped else "else"
    assert arena.at == f"choose.{wide}: ReduceMax"
    live = arena.by_call
    assert live["Sigmoid-1"] == 16 + 1 + 16, "x, c and a"
    assert [live[f"Sigmoid-{i}"] for i in (2, 3, 4)] == [17 + 16, 17 + 32, 17 + 32]
    assert arena.lower_bound <= arena.peak <= arena.size
    assert Report.from_json(report.to_json()).arena().to_dict() == arena.to_dict()


def test_a_branch_of_symbolic_size_gives_the_larger_one_for_every_size():
    then = returning(node("Sigmoid", ["a"], ["t1"]), node("Sigmoid", ["t1"], ["t2"]), outputs=("t2",))
    other = returning(
        node("ReduceMax", ["a"], ["m"], axes=[0], keepdims=1), node("MatMul", ["m", "w"], ["e"]), outputs=("e",)
    )
    made = chosen(then, other, opset=17, x=("n", 4))
    made.graph.initializer.append(numpy_helper.from_array(np.zeros((4, 1000), np.float32), "w"))
    report = estimate(made)
    # then: a, t1 and t2 of 16 * n each; else: a, m of 16 and e of 4000; and c of 1
    for n in (1, 100, 125, 126, 200):
        assert report.subs(n=n).arena().peak == 1 + max(3 * 16 * n, 16 * n + 16 + 4000)
    assert {"n"} == {str(symbol) for symbol in report.arena().peak.free_symbols}


def test_a_branch_that_returns_a_value_from_outside_needs_a_copy_only_if_that_lives_on():
    same = returning(node("Identity", ["a"], ["t"]), outputs=("t",))
    other = returning(node("Relu", ["a"], ["e"]), outputs=("e",))
    then_add = chosen(same, other, node("Add", ["z", "a"], ["y"]), result="z", opset=17)
    live = dict(estimate(then_add).arena().timeline)
    assert live["Add-1"] == 16 + 16 + 16, "z is a buffer of its own, because the other branch makes one"
    then_relu = chosen(same, other, node("Relu", ["z"], ["y"]), result="z", opset=17)
    assert dict(estimate(then_relu).arena().timeline)["Relu-2"] == 16 + 16


def constant_body(*nodes: Any, carried: tuple[str, ...], outputs: tuple[str, ...]) -> Any:
    """A body whose condition is always true, so that the trip count ends the loop."""
    body = body_of(*nodes, carried=carried, outputs=outputs)
    body.node[0].CopyFrom(node("Constant", [], ["go_on"], value=helper.make_tensor("", B, (), [True])))
    return body


def test_a_loop_holds_carried_values_twice_and_joined_outputs_whole():
    body = constant_body(
        node("Relu", ["v"], ["r"]),
        node("Sigmoid", ["r"], ["w"]),
        node("Neg", ["w"], ["p"]),
        carried=("v",),
        outputs=("w", "p"),
    )
    made = looped(
        body,
        10**6,
        ["x0"],
        ["last", "all"],
        node("ReduceMax", ["all"], ["y"], axes=[0], keepdims=0),
        x=(1, 4),
        opset=17,
    )
    made.graph.node.insert(0, node("Relu", ["x"], ["x0"]))
    arena = estimate(made).arena()
    live = dict(arena.timeline)
    joined = 10**6 * 16
    # x0 dies at the loop and becomes the first v. v lives to the end of the body, as does w, the next v
    assert live["again.body: start"] == 16 + joined
    assert live["Relu-2"] == 16 + joined + 16, "v, r"
    assert live["Sigmoid-1"] == 16 + joined + 16 + 16, "v, r, w"
    assert live["Neg-1"] == 16 + joined + 16 + 16, "v, w, p"
    assert live["again.body: end"] == 16 + joined + 16 + 16
    assert live["ReduceMax-1"] == joined + 16
    assert arena.peak == joined + 48
    assert arena.lower_bound == arena.peak


def test_a_scan_reads_slices_where_they_are_and_joins_its_outputs():
    body = helper.make_graph(
        [node("Add", ["s", "part"], ["next"]), node("Relu", ["next"], ["out"])],
        "body",
        [helper.make_tensor_value_info(name, F, (4,)) for name in ("s", "part")],
        [helper.make_tensor_value_info(name, F, (4,)) for name in ("next", "out")],
    )
    nodes = [
        node("ReduceMax", ["x"], ["s0"], axes=[0], keepdims=0),
        node("Scan", ["s0", "x"], ["last", "all"], "each", body=body, num_scan_inputs=1),
        node("Sigmoid", ["all"], ["y"]),
    ]
    live = dict(estimate(model(*nodes, x=(50, 4), opset=17)).arena().timeline)
    # x of 800, s (the memory of s0) of 16, the joined outputs of 800, next and out of 16 each
    assert live["ReduceMax-1"] == 800 + 16
    assert live["Add-1"] == 800 + 16 + 800 + 16
    assert live["Relu-1"] == 800 + 16 + 800 + 16 + 16
    assert live["Sigmoid-1"] == 1600


def test_a_choice_inside_a_loop_and_a_loop_inside_a_choice():
    inner = node("If", ["c"], ["w"], "choose", then_branch=returning(*LONG.node, outputs=("t3",)), else_branch=WIDE)
    body = constant_body(node("Neg", ["v"], ["a"]), inner, carried=("v",), outputs=("w",))
    made = looped(body, 7, ["x"], ["y"], x=(1, 4), opset=17)
    made.graph.input.append(helper.make_tensor_value_info("c", B, ()))
    arena = estimate(made).arena()
    assert arena.at == "again.body[0]/choose.else: ReduceMax"
    assert arena.peak == 16 + 1 + 16 + 16 + 64 + 16, "x, c, v, a, and what the wide branch makes"
    repeated = constant_body(*WIDE.node[:1], *WIDE.node[1:], carried=("a",), outputs=("e",))
    count = node("Constant", [], ["m"], value_int=7)
    other = returning(count, node("Loop", ["m", "", "x"], ["z"], "again", body=repeated), outputs=("z",))
    arena = estimate(chosen(LONG, other, opset=17)).arena()
    assert arena.lower_bound <= arena.peak <= arena.size
    assert arena.peak == 16 + 1 + 16 + 16 + 64 + 16, "x, c, a outside, a inside, w and e"


def test_what_is_not_followed_is_named():
    body = helper.make_graph(
        [node("Relu", ["i"], ["o"])],
        "body",
        [helper.make_tensor_value_info("i", F, None)],
        [helper.make_tensor_value_info("o", F, None)],
    )
    made = model(
        node("SequenceConstruct", ["x", "x"], ["s"]),
        node("SequenceMap", ["s"], ["t"], "map", body=body),
        node("ConcatFromSequence", ["t"], ["y"], axis=0),
        opset=17,
    )
    with pytest.raises(ArenaError, match=r"map.* runs its body for the items of a sequence"):
        estimate(made).arena()
