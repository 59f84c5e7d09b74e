"""``If``: the branch that is counted."""

from __future__ import annotations

import pytest
from onnx import TensorProto, helper

from costcore import estimate
from tests.frontends.onnx.read_model import read, total
from tests.frontends.onnx.small_models import INT64, B, F, branches, node


def test_a_constant_condition_chooses_its_branch():
    recorder = read(branches(1, 3, "yes"))
    assert total(recorder.calls, "flops") == 4
    assert not recorder.assumptions


@pytest.mark.parametrize(("then", "other", "region"), [(1, 3, "choose.else"), (3, 1, "choose.then")])
def test_an_open_condition_counts_the_more_expensive_branch(then, other, region):
    recorder = read(branches(then, other, "c"))
    assert total(recorder.calls, "flops") == 3 * 4
    assert {call.region for call in recorder.calls if call.type == "Relu"} == {region}
    assert [assumption.where for assumption in recorder.assumptions] == ["node 'choose' (If)"]


def test_a_condition_given_as_a_value_chooses():
    assert total(read(branches(1, 3, "c"), {"c": True}).calls, "flops") == 4


def test_the_trips_of_a_loop_inside_a_branch_make_it_the_more_expensive_one():
    """5 trips of 4 elements are 20 FLOPs, more than 3 activations of 4; the body alone has 4."""
    body = helper.make_graph(
        [node("Relu", ["v"], ["w"]), node("Identity", ["go"], ["go_on"])],
        "body",
        [
            helper.make_tensor_value_info("i", INT64, ()),
            helper.make_tensor_value_info("go", B, ()),
            helper.make_tensor_value_info("v", F, (1, 4)),
        ],
        [helper.make_tensor_value_info(name, F, None) for name in ("go_on", "w")],
    )
    inner = [node("Constant", [], ["five"], value_int=5), node("Loop", ["five", "", "x"], ["last"], "again", body=body)]
    made = branches(1, 3, "c")
    (then,) = (attribute for attribute in made.graph.node[-1].attribute if attribute.name == "then_branch")
    then.g.CopyFrom(helper.make_graph(inner, "then", [], [helper.make_tensor_value_info("last", F, (1, 4))]))
    recorder = read(made)
    assert total(recorder.calls, "flops") == 5 * 4
    assert "'then' (20 FLOPs), is counted; 'else' has 12" in recorder.assumptions[0].what


def by_length(then: int, other: int):
    """A choice by whether an input of ``n`` elements has more than 3."""
    made = branches(then, other, "c")
    del made.graph.input[-1]
    made.graph.input.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, ("n",)))
    steps = [
        node("Size", ["z"], ["length"]),
        node("Constant", [], ["three"], value_int=3),
        node("Greater", ["length", "three"], ["c"]),
    ]
    for step in reversed(steps):
        made.graph.node.insert(0, step)
    return made


def test_a_condition_on_sizes_is_decided_before_substitution_and_says_so():
    made = by_length(1, 3)
    report = estimate(made)
    (assumption,) = report.assumptions
    assert "the condition depends on symbolic dimensions: the more expensive branch, 'else'" in assumption.what
    assert "The choice is the same for all sizes, after subs too: give the sizes with dims" in assumption.what
    assert report.total_report["flops"] == 3 * 4
    sized = estimate(made, dims={"n": 5})
    assert not sized.assumptions
    assert sized.total_report["flops"] == 4
