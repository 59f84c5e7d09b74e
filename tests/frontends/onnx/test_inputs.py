"""What the caller says of inputs and named dimensions."""

from __future__ import annotations

import re

import numpy as np
import pytest
from onnx import TensorProto

from costcore import CostError, Tensor
from tests.frontends.onnx.reading import read, shapes
from tests.networks_onnx import Graph

INT64 = TensorProto.INT64


def two(*, y=("batch", 4)):
    g = Graph()
    return g.model({"x": ("batch", 4), "y": y}, g("Add", "x", "y"))


def reshaped():
    """An input reshaped by another one."""
    g = Graph()
    return g.model({"x": (2, "n"), "to": (INT64, (2,))}, g("Reshape", "x", "to"))


@pytest.mark.parametrize(
    "inputs",
    [
        {"x": (8, 4)},
        {"x": np.zeros((8, 4), "float32"), "y": (8, 4)},
        {"x": Tensor((8, 4))},
        [(8, 4), (8, 4)],
        ((8, 4),),
    ],
)
def test_a_shape_binds_its_names_everywhere(inputs):
    assert [tensor.shape for tensor in read(two(), inputs).calls[0].layer.inputs.values()] == [(8, 4), (8, 4)]


def test_names_stay_symbols_or_are_bound():
    (symbolic,) = shapes(two())
    assert str(symbolic) == "(batch, 4)"
    assert symbolic[0].is_positive
    assert symbolic[0].is_integer
    assert shapes(two(), dims={"batch": 3}) == [(3, 4)]
    assert str(shapes(two(), {"x": ("rows", 4)})) == "[(rows, 4)]"


@pytest.mark.parametrize("given", [[6, -1], np.array([6, -1]), {"to": [6, -1]}["to"]])
def test_values_of_inputs_that_carry_shapes(given):
    assert shapes(reshaped(), {"x": (2, 9), "to": given}) == [(6, 3)]


def test_an_unknown_shape_is_made_of_symbols_that_can_be_bound():
    g = Graph()
    model = g.model({"x": (2, 6), "to": (INT64, (2,))}, g("Reshape", "x", "to"))
    entry = model.graph.output[0]
    entry.type.tensor_type.shape.dim.add(dim_param="rows")
    entry.type.tensor_type.shape.dim.add()
    recorder = read(model)
    rows, columns = recorder.calls[-1].layer.out.shape
    assert (str(rows), str(columns)) == ("rows", f"{entry.name}_1")
    assert len(recorder.assumptions) == 1
    assert shapes(model, dims={"rows": 3, f"{entry.name}_1": 4}) == [(3, 4)]


@pytest.mark.parametrize(
    ("inputs", "dims", "message"),
    [
        ({"z": (8, 4)}, None, "no input 'z'; its inputs are ['x', 'y']"),
        ((8, 4), None, "one input is given, but the model has 2"),
        ([(8, 4)] * 3, None, "3 inputs are given, but the model has 2"),
        ({"x": (8, 4, 1)}, None, "input 'x' has 2 dimensions, but (8, 4, 1) is given"),
        ({"x": [8, 4]}, None, "a shape is written as a tuple, a list holds values"),
        ({"x": (8, 5)}, None, "input 'x' has length 4 along axis 1 in the model, but 5 is given"),
        ({"x": (8, 4), "y": (7, 4)}, None, "input 'y', axis 0: dimension 'batch' is 8 elsewhere, and 7 here"),
        ({"x": (8, 4)}, {"batch": 9}, "dimension 'batch' is 9 elsewhere, and 8 here"),
        ({"x": (-8, 4)}, None, "negative shape"),
        ({"x": (8.5, 4)}, None, "expected an integer"),
        ({"x": "abc"}, None, "is given as str"),
        (None, {"bach": 8}, "did you mean 'batch'?"),
        (None, {"batch": -1}, "negative length"),
    ],
)
def test_what_does_not_fit_is_said(inputs, dims, message):
    with pytest.raises(CostError, match=re.escape(message)):
        read(two(), inputs, dims=dims)


def test_an_initializer_that_is_an_input_too_needs_no_shape():
    g = Graph()
    model = g.model({"x": (1, 4), "w0": (4,)}, g("Add", "x", g.weight(4)))
    assert read(model, (1, 4)).n_params_model == 4
