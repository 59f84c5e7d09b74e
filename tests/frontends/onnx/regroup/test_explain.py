"""``explain_regroup`` says why nodes do not match a pattern."""

from __future__ import annotations

import pytest
from onnx import helper

from costcore import estimate
from tests.frontends.onnx.regroup.decompositions import BY_NAME, FLOAT, Spelled, X, from_operation, model


def reasons(made, name, regroup=True):
    notes = estimate(made, regroup=regroup, explain_regroup=(name,)).notes
    return [note for note in notes if note.startswith(f"regroup: not {name}: ")]


def gelu_with(*, erf="Erf", root=2**0.5):
    g = Spelled()
    y = g("Add", g(erf, g("Div", "x", g.scalar(root))), g.scalar(1.0))
    return g.model(X, g("Mul", g("Mul", "x", y), g.scalar(0.5)))


def test_another_operator_is_named_with_its_value():
    (note,) = reasons(gelu_with(erf="Tanh"), "gelu", ("gelu",))
    assert "a value is computed by Tanh (expected Erf)" in note
    assert "Nodes that end in the Mul node that produces 'Mul_4_0' (at 'Tanh_1_0')" in note


def test_who_reads_between_the_nodes_keeps_them_apart():
    made = model(BY_NAME["silu"])
    made.graph.output.append(helper.make_tensor_value_info(made.graph.node[0].output[0], FLOAT, None))
    (note,) = reasons(made, "silu")
    assert "other nodes read a value between these nodes" in note


def test_operations_of_the_program_are_a_reason():
    made = from_operation(model(BY_NAME["silu"]), "sigmoid", "mul")
    (note,) = reasons(made, "silu")
    assert "the nodes come from several operations of the program" in note
    assert reasons(made, "silu", ("silu",)) == []


def test_only_patterns_that_are_looked_for_are_explained():
    made = model(BY_NAME["silu"])
    with pytest.raises(ValueError, match=r"explain_regroup: unknown pattern 'gelu' \(expected silu\)"):
        estimate(made, regroup=("silu",), explain_regroup=("gelu",))
    with pytest.raises(TypeError, match="explain_regroup must be True, False or names of patterns"):
        estimate(made, regroup=True, explain_regroup="silu")
