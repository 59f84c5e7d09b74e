"""The order of nodes: cycles, unsorted nodes, names that are duplicate or not defined."""

from __future__ import annotations

import re

import pytest

from costcore import CostError
from tests.frontends.onnx.read_model import read
from tests.frontends.onnx.small_models import model, node
from tests.whole_networks.onnx_models import Graph


def test_a_cycle_names_its_nodes():
    cyclic = model(
        node("Add", ["x", "b"], ["a"], "first"),
        node("Relu", ["a"], ["b"], "second"),
        node("Relu", ["b"], ["y"], "third"),
    )
    with pytest.raises(CostError, match=r"the graph has a cycle: (.*)") as raised:
        read(cyclic)
    assert "node 'first' (Add)" in str(raised.value)
    assert "node 'second' (Relu)" in str(raised.value)
    assert "third" not in str(raised.value)


def test_unsorted_nodes_are_sorted_and_that_is_said():
    recorder = read(model(node("Relu", ["a"], ["y"]), node("Sigmoid", ["x"], ["a"])))
    assert [call.type for call in recorder.calls] == ["Sigmoid", "Relu"]
    assert any("sorted" in note for note in recorder.notes)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (
            [node("Relu", ["x"], ["y"], "a"), node("Relu", ["x"], ["y"], "b")],
            "node 'a' (Relu) and node 'b' (Relu) both",
        ),
        ([node("Relu", ["z"], ["y"], "a")], "node 'a' (Relu) reads 'z', which is not defined"),
        ([node("Relu", ["x"], ["z"], "a")], "graph output 'y' is not produced by any node"),
        ([node("Relu", [], ["y"], "a")], "node 'a' (Relu) lacks one of its required inputs X"),
    ],
)
def test_names_that_do_not_fit(nodes, message):
    with pytest.raises(CostError, match=re.escape(message)):
        read(model(*nodes))


def test_a_name_stands_for_one_value():
    g = Graph()
    twice = g.model({"x": (1, 4)}, g("Add", "x", g.weight(4)))
    twice.graph.initializer.append(twice.graph.initializer[0])
    with pytest.raises(CostError, match="the graph has 2 initializers named 'w0'"):
        read(twice)
    g = Graph()
    g.nodes.append(node("Relu", ["x"], [g.weight(4)], "act"))
    with pytest.raises(
        CostError, match=re.escape("node 'act' (Relu) produces 'w0', which is already an input or an initializer")
    ):
        read(g.model({"x": (1, 4)}, "w0"))
