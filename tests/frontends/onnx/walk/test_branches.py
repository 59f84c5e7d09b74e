"""``If``: the branch that is counted."""

from __future__ import annotations

import pytest
from onnx import TensorProto, helper

from costcore import estimate
from tests.frontends.onnx.read_model import read, total
from tests.frontends.onnx.small_models import branches, node


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
    assert "subs does not change this choice: give the sizes with dims" in assumption.what
    assert report.total_report["flops"] == 3 * 4
    sized = estimate(made, dims={"n": 5})
    assert not sized.assumptions
    assert sized.total_report["flops"] == 4
