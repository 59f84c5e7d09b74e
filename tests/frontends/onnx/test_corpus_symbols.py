"""Every model of ``onnx.backend.test`` once more, its sizes named: with numbers put in, shapes are the true ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto

from costcore.frontends.onnx.values import Container, Value
from tests.frontends.onnx.corpus import Reading, node_cases, read_case, stripped

ASPECT = "keeps the aspect ratio of symbolic sizes; give numbers for them"


def named(model: ModelProto, inputs: dict[str, Any]) -> tuple[dict[str, Any], dict[str, int]]:
    """Name the sizes of all inputs of which only a shape is given: the other inputs, and the numbers by name."""
    given, sizes = {}, {}
    for entry in model.graph.input:
        value = inputs.get(entry.name)
        if not isinstance(value, tuple) or not entry.type.HasField("tensor_type"):
            given[entry.name] = value
            continue
        for axis, d in enumerate(entry.type.tensor_type.shape.dim):
            name = f"{entry.name}_{axis}"
            sizes[name], d.dim_param = d.dim_value, name
    return {name: value for name, value in given.items() if value is not None}, sizes


@pytest.fixture(scope="module")
def readings() -> list[tuple[Reading, dict[str, int]]]:
    found = []
    for name, model, inputs, expected in node_cases():
        if "_expanded" in name:
            continue
        given, sizes = named(stripped(model), inputs)
        if sizes:
            found.append((read_case(name, model, given, expected), sizes))
    return found


def filled(value: Value, sizes: dict[str, int]) -> tuple[Any, ...]:
    """The shape with numbers for the names; None for a size that depends on data."""

    def put(formula: Any) -> int | None:
        known = {symbol: sizes[str(symbol)] for symbol in formula.free_symbols if str(symbol) in sizes}
        number = formula.subs(known)
        return int(number) if number.is_Integer else None

    return tuple(d if isinstance(d, int) else put(d) for d in value.known_shape)


def test_every_model_is_read(readings):
    errors = {reading.error for reading, _ in readings if reading.error}
    assert all(ASPECT in error for error in errors)
    assert len(readings) > 1000


def test_shapes_are_those_of_the_arrays(readings):
    wrong, named_axes = {}, 0
    for reading, sizes in readings:
        for output, value, truth in reading.outputs:
            if truth is None or isinstance(truth, (list, tuple)) or isinstance(value, Container):
                continue
            shape = tuple(truth.dims) if isinstance(truth, TensorProto) else np.shape(truth)
            got = filled(value, sizes)
            named_axes += sum(
                not isinstance(d, int) and n is not None for d, n in zip(value.known_shape, got, strict=True)
            )
            if len(got) != len(shape) or any(a not in (b, None) for a, b in zip(got, shape, strict=True)):
                wrong[reading.name, output] = (value.shape, got, shape)
    assert wrong == {}
    assert named_axes > 2000
