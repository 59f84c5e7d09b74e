"""Every shape rule with one symbolic axis at a time, so that no other symbol hides the sign of a size.

The models are those of ``onnx.backend.test``. With a number put in, the report is that of the model with the number:
the same operations by kind, MACs and bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from onnx import ModelProto

from costcore import CostError, Report, estimate
from tests.frontends.onnx.corpus import node_cases, shape_rules, stripped

ASPECT = "keeps the aspect ratio of symbolic sizes; give numbers for them with dims"

MOST_MODELS = 24
"""Models of one shape rule; every operator has one of its own in any case."""


class Axis(NamedTuple):
    """A model one axis of which is named ``n``.

    Attributes:
        name: of the test case, with the input and the axis.
        operators: full names of its operators.
        model: the model.
        inputs: the values and shapes that are given.
        numbers: the same with the next larger size and with the true size, by size: one of them is odd.
    """

    name: str
    operators: tuple[str, ...]
    model: ModelProto
    inputs: dict[str, Any]
    numbers: dict[int, dict[str, Any]]


def axes() -> Iterator[Axis]:
    """One model for each axis of an input of every operator, and of the first settings of a shape rule."""
    seen: set[Any] = set()
    models, rules_of = Counter[Any](), shape_rules()
    for name, model, inputs, _ in node_cases():
        if "_expanded" in name:
            continue
        operators = tuple(f"{node.domain or 'ai.onnx'}::{node.op_type}" for node in model.graph.node)
        rules = tuple(rules_of.get(operator) for operator in operators)
        settings = tuple(str(attribute) for node in model.graph.node for attribute in node.attribute)
        ranks = tuple(len(value) if isinstance(value, tuple) else None for value in inputs.values())
        if operators in seen and ((rules, settings, ranks) in seen or models[rules] == MOST_MODELS):
            continue
        seen |= {operators, (rules, settings, ranks)}
        models[rules] += 1
        for entry in model.graph.input:
            shape = inputs.get(entry.name)
            if isinstance(shape, tuple) and entry.type.HasField("tensor_type"):
                for axis in range(len(shape)):
                    yield named(name, operators, model, inputs, entry.name, axis)


def named(
    name: str, operators: tuple[str, ...], model: ModelProto, inputs: dict[str, Any], entry: str, axis: int
) -> Axis:
    """The model with a name for one axis of one input."""
    made, shape = ModelProto(), inputs[entry]
    made.CopyFrom(stripped(model))
    (dims,) = (each.type.tensor_type.shape.dim for each in made.graph.input if each.name == entry)
    dims[axis].dim_param = "n"
    given = {key: value for key, value in inputs.items() if key != entry}
    numbers = {
        size: {**given, entry: (*shape[:axis], size, *shape[axis + 1 :])}
        for size in (shape[axis] + 1, shape[axis])
        if size
    }
    return Axis(f"{name}, axis {axis} of {entry}", operators, made, given, numbers)


def with_number(axis: Axis) -> tuple[int, Report] | None:
    """The first size that the model accepts, and the report with it."""
    for size, inputs in axis.numbers.items():
        try:
            return size, estimate(axis.model, inputs)
        except CostError:
            continue
    return None


def put(report: Report, n: int) -> Report:
    """The report with a number for ``n``, which may be the length of a vector of sizes and then is not in it."""
    try:
        return report.subs(n=n)
    except ValueError:
        return report


def test_every_operator_is_read_and_priced():
    refused, differ, compared, read = {}, {}, 0, set[str]()
    for axis in axes():
        try:
            report = estimate(axis.model, axis.inputs)
        except CostError as error:
            if ASPECT not in str(error):
                refused[axis.name] = str(error)
            continue
        if report.ignored_layers:
            refused[axis.name] = report.remarks
        read.update(axis.operators)
        found = with_number(axis)
        if found is None or report.assumptions or found[1].assumptions:
            continue
        size, expected = found
        compared += 1
        got = put(report, size)
        if got.total_report != expected.total_report:
            differ[axis.name, size] = got.total_report, expected.total_report
    assert refused == {}
    assert differ == {}
    assert compared > 1000
    assert len(read & shape_rules().keys()) > 150
