"""Operators of ONNX Runtime with symbolic sizes: with numbers put in, shapes and costs are those of the numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from onnx import ModelProto

from costcore import Report, estimate
from tests.frontends.onnx.contrib import test_selected_attention_and_streams, test_single_nodes
from tests.frontends.onnx.contrib.lines import Line
from tests.frontends.onnx.contrib.nodes import NODES, Node
from tests.frontends.onnx.contrib.single_node import model_of
from tests.frontends.onnx.read_model import read

LINES = [*test_single_nodes.LINES, *test_selected_attention_and_streams.LINES]


UNRANKED = {"GatherND": "axis 1 of x1"}
"""By operator, the axis whose size decides how many dimensions the output has: the node is reported as not counted."""


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.native)
def test_shapes_of_named_sizes(line: Line) -> None:
    sizes: dict[str, int] = {}
    model = model_of(line.native, *line.inputs, outputs=len(line.shapes), sizes=sizes, **line.attrs)
    (call,) = read(model).calls
    assert call.layer.op == line.op

    def put(d: Any) -> int:
        return d if isinstance(d, int) else int(d.subs({s: sizes[str(s)] for s in d.free_symbols}))

    assert [tuple(put(d) for d in tensor.shape) for tensor in call.layer.outputs] == line.shapes


class Axis(NamedTuple):
    """A model one axis of which is named ``n``, where it is, and its size."""

    model: ModelProto
    where: str
    size: int


def axes(model: ModelProto) -> Iterator[Axis]:
    """The model once for each axis of its inputs that is not empty."""
    for i, entry in enumerate(model.graph.input):
        for axis, dim in enumerate(entry.type.tensor_type.shape.dim):
            if dim.dim_value:
                made = ModelProto()
                made.CopyFrom(model)
                made.graph.input[i].type.tensor_type.shape.dim[axis].dim_param = "n"
                yield Axis(made, f"axis {axis} of {entry.name}", dim.dim_value)


def with_size(report: Report, n: int) -> Report:
    """The report with a number for ``n``, which may be the length of a vector of sizes and then is not in it."""
    try:
        return report.subs(n=n)
    except ValueError:
        return report


def shapes(report: Report) -> list[Any]:
    """The shapes of all outputs; a size that depends on data is a name."""
    return [tuple(map(str, tensor.shape)) for call in report.trace.calls for tensor in call.layer.outputs]


@pytest.mark.parametrize("node", NODES, ids=lambda node: f"{node.domain}-{node.op}".lstrip("-"))
def test_one_symbolic_axis_costs_what_its_number_does(node: Node) -> None:
    model = model_of(node.op, *node.inputs, domain=node.domain, outputs=node.outputs, **node.attrs)
    expected = estimate(model)
    differ = {}
    for axis in axes(model):
        if UNRANKED.get(node.op) == axis.where:
            continue
        found = with_size(estimate(axis.model), axis.size)
        if (found.total_report, shapes(found)) != (expected.total_report, shapes(expected)):
            differ[axis.where] = found.total_report, shapes(found)
    assert differ == {}


def total(op: str, *inputs: Any, n: int, outputs: int = 1, **attrs: Any) -> dict[str, Any]:
    """The totals of one node with a number for its axis ``n``, which is -1 in its inputs."""
    model = model_of(op, *inputs, outputs=outputs, **attrs)
    for entry in model.graph.input:
        for dim in entry.type.tensor_type.shape.dim:
            if dim.dim_value == -1:
                dim.dim_param = "n"
    return with_size(estimate(model), n).total_report
