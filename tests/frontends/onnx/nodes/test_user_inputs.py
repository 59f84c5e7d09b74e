"""Inputs and named dimensions that the user gives."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper
from sympy import Symbol

from costcore import CostError, Tensor
from tests.frontends.onnx.read_model import read, shapes
from tests.whole_networks.onnx_models import Graph

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


@pytest.mark.parametrize("given", [[6, -1], np.array([6, -1]), {"to": [6, -1]}["to"]])
def test_values_of_inputs_that_carry_shapes(given):
    assert shapes(reshaped(), {"x": (2, 9), "to": given}) == [(6, 3)]


@pytest.mark.parametrize(
    ("inputs", "dims", "message"),
    [
        ({"z": (8, 4)}, None, "unknown input 'z' (expected x, y)"),
        ((8, 4), None, "got one input, but the model has 2"),
        ([(8, 4)] * 3, None, "got 3 inputs, but the model has 2"),
        ({"x": (8, 4, 1)}, None, "input 'x' has 2 dimensions (got the shape (8, 4, 1))"),
        ({"x": [8, 4]}, None, "A tuple is a shape, a list holds values"),
        (
            {"x": (8, 5)},
            None,
            "axis 1 in the model (got 5), which the file fixes: leave out this input, or export it with",
        ),
        ({"x": (8, 4), "y": (7, 4)}, None, "input 'y', axis 0: dimension 'batch' is 8 elsewhere, and 7 here"),
        ({"x": (8, 4)}, {"batch": 9}, "dimension 'batch' is 9 elsewhere, and 8 here"),
        ({"x": (-8, 4)}, None, "a dimension is negative"),
        ({"x": (8.5, 4)}, None, "expected an integer"),
        ({"x": "abc"}, None, "as an array or a list (got str)"),
        ({"x": [[1, 2], [3]]}, None, "values for input 'x' must form a rectangular array"),
        ({"x": ["a"]}, None, "values for input 'x' must be numbers or booleans (got dtype <U1)"),
        ({"x": ("", 4)}, None, "shape ('', 4) of input 'x': a dimension has an empty name"),
        ({"x": Tensor((8, 4), "float16")}, None, "input 'x' has dtype float32 in the model (got float16)"),
        ({"x": (1 << 4095, 4)}, None, "input 'x' has 2**4096 elements or more"),
        (None, {"bach": 8}, "Did you mean 'batch'?"),
        (None, {"batch": -1}, "the size of 'batch' is negative"),
    ],
)
def test_what_does_not_fit_is_said(inputs, dims, message):
    with pytest.raises(CostError, match=re.escape(message)):
        read(two(), inputs, dims=dims)


def test_an_initializer_that_is_an_input_too_needs_no_shape():
    g = Graph()
    model = g.model({"x": (1, 4), "w0": (4,)}, g("Add", "x", g.weight(4)))
    assert read(model, (1, 4)).n_params_model == 4
    with pytest.raises(CostError, match=re.escape("'w0' is an initializer, whose shape is fixed (inputs: ['x'])")):
        read(model, {"x": (1, 4), "w0": (4,)})


def untyped():
    """A model that says nothing of its input."""
    g = Graph()
    model = g.model({"x": (2, 4)}, g("Relu", "x"))
    model.graph.input[0].ClearField("type")
    return model


def test_an_input_without_a_type_takes_what_is_given():
    (y,) = read(untyped(), (8, 4)).calls[0].layer.outputs
    assert (y.shape, y.dtype) == ((8, 4), "float32")
    (y,) = read(untyped(), Tensor((8, 4), "int64")).calls[0].layer.outputs
    assert (y.shape, y.dtype) == ((8, 4), "int64")
    with pytest.raises(CostError, match=re.escape("input 'x' has no dtype in the model. Give one: inputs={'x': ")):
        read(untyped())


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((2,) * 1001, "input 'x' has 1001 dimensions; at most 1000 are read"),
        (tuple(f"d{i}" for i in range(1001)), "input 'x' has 1001 dimensions; at most 1000 are read"),
        ((1 << 62,) * 67, "input 'x' has 2**4096 elements or more"),  # 2**(62 * 67) = 2**4154
    ],
)
def test_an_input_is_as_large_as_can_be_told(shape, message):
    g = Graph()
    with pytest.raises(CostError, match=re.escape(message)):
        read(g.model({"x": shape}, g("Relu", "x")))


def test_two_inputs_of_one_name_are_refused():
    model = two()
    model.graph.input[1].name = "x"
    with pytest.raises(CostError, match="the graph has 2 inputs named 'x'"):
        read(model)


@pytest.mark.parametrize("wrong", [["batch"], "batch", {1: 2}])
def test_dims_that_are_no_lengths_by_name_are_refused(wrong):
    with pytest.raises(TypeError, match=r"dims must map names to sizes, such as {'batch': 8} \(got"):
        read(two(), dims=wrong)
    with pytest.raises(
        TypeError, match=r"dims: the size of 'batch' is invalid: expected an integer or an integer symbol \(got"
    ):
        read(two(), dims={"batch": "8"})


def cached() -> ModelProto:
    """A decoder's mask, as exporters declare it: as long as the past and what is new."""
    g = Graph()
    past = (TensorProto.FLOAT, ("batch", "past"))
    mask = (TensorProto.FLOAT, ("batch", "past + new"))
    y = g("Concat", g("Relu", "mask"), "ids", "past", axis=1)
    return g.model({"mask": mask, "ids": (TensorProto.FLOAT, ("batch", "new")), "past": past}, y)


def test_names_that_are_sums_of_names_are_sums():
    recorder = read(cached())
    assert str(recorder.calls[0].layer.out.shape[1]) == "new + past"
    assert shapes(cached(), dims={"batch": 1, "past": 7, "new": 2})[-1] == (1, 2 * 9)
    given = {"mask": (1, 9), "ids": (1, 2), "past": (1, 7)}
    assert shapes(cached(), given)[-1] == (1, 2 * 9)
    with pytest.raises(CostError, match=re.escape("'past + new' is 9 by the other inputs, and 8 here")):
        read(cached(), {**given, "mask": (1, 8)})
    with pytest.raises(CostError, match=re.escape("'past + new' is 9 by the other inputs, and 8 here")):
        read(cached(), dims={"past": 7, "new": 2, "past + new": 8})


def masked() -> ModelProto:
    """A decoder's mask whose length has a name of its own."""
    g = Graph()
    y = g("Add", g("Concat", "past", "ids", axis=1), "mask")
    lengths = {"mask": ("batch", "tot"), "ids": ("batch", "new"), "past": ("batch", "past")}
    return g.model({name: (TensorProto.FLOAT, shape) for name, shape in lengths.items()}, y)


PAST, NEW = Symbol("past"), Symbol("new", integer=True, positive=True)


@pytest.mark.parametrize("total", ["past + new", "past+new", PAST + NEW, "2*new - new + (past*4)//4"])
def test_a_dimension_may_be_given_as_an_expression_of_others(total):
    (shape,) = shapes(masked(), dims={"tot": total})[-1:]
    assert {symbol.name for d in shape for symbol in d.free_symbols} == {"batch", "past", "new"}
    assert len({symbol for d in shape for symbol in d.free_symbols}) == 3
    assert shapes(masked(), dims={"tot": total, "past": 7, "new": 2, "batch": 1})[-1] == (1, 9)
    assert shapes(masked(), {"past": (1, 7), "ids": (1, 2)}, dims={"tot": total})[-1] == (1, 9)
    assert shapes(masked(), {"mask": ("batch", total)})[-1] == shape or isinstance(total, str)


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ({"tot": "tot + 1"}, "dims: the size of 'tot' contains 'tot' itself (got tot + 1)"),
        ({"past": "new + 1", "new": "past + 1"}, "contains 'new' itself (got past + 1)"),
        ({"tot": "past - 9", "past": 3}, "dims: the size of 'tot' is negative (got past - 9 = -6)"),
        ({"total": "past + new"}, "dims: unknown dimension 'total'"),
    ],
)
def test_an_expression_that_is_no_size_is_refused(dims, message):
    with pytest.raises(CostError, match=re.escape(message)):
        read(masked(), dims=dims)


def test_a_file_without_names_of_sizes_takes_no_dims():
    g = Graph()
    model = g.model({"x": (TensorProto.FLOAT, (1, 4))}, g("Relu", "x"))
    with pytest.raises(CostError, match=re.escape("'batch' (the model fixes all sizes: leave it out)")):
        read(model, dims={"batch": 2})


@pytest.mark.parametrize(
    "text", ["past +", "past ** 2", "3 + 4", "", "past / 2", "max(past, new)", "past" + " + 1" * 99]
)
def test_texts_that_are_no_sums_or_products_of_names_are_refused(text):
    with pytest.raises(TypeError, match="A text must be a sum or product of names, such as 'past \\+ new'"):
        read(masked(), dims={"tot": text})


def test_a_length_that_depends_on_data_is_told_by_its_own_name():
    def told(**options: Any) -> list[str]:
        g = Graph()
        g.nodes.append(helper.make_node("NonZero", ["x"], ["n"]))
        made = g.model({"x": ("n_1",)}, "n")
        return [str(a.what) for a in read(made, **options).assumptions]

    begin = "the size of axis 1 of 'n' depends on data: assumed "
    assert told() == [begin + "the symbol n_1'"], "n_1 is another one"
    assert told(dims={"n_1'": 3}) == [begin + "3, as given"]


@pytest.mark.parametrize("name", ["rows//0", "rows//(rows-rows)", "-rows", "rows**2"])
def test_names_that_say_no_length_are_just_names(name):
    g = Graph()
    model = g.model({"x": (name, "rows")}, g("Relu", "x"))
    assert [str(d) for d in read(model).calls[0].layer.out.shape] == [name, "rows"]
