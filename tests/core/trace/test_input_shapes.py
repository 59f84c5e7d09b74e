"""A shape with the name of a dtype is a tensor wherever inputs are given."""

from __future__ import annotations

import pytest

from costcore import Dim, Tensor, Value, estimate
from costcore.analyses.sizes.capture import NamedInputs
from costcore.api.hook import input_arguments, parse_inputs
from costcore.trace.trace import has_names, with_tensors, without_marks

IDS = Tensor((2, 128), "int64")


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        (((2, 128), "int64"), IDS),
        (([2, 128], "int64"), IDS),
        ([((2, 128), "int64"), (2, 3)], [IDS, (2, 3)]),
        ({"ids": ((2, 128), "int64"), "scale": 2.0}, {"ids": IDS, "scale": 2.0}),
        ({"past": [(((1, 2), "float16"), ((1, 2), "float16"))]}, {"past": [(Tensor((1, 2), "float16"),) * 2]}),
        ((("batch", 128), "int64"), Tensor(("batch", 128), "int64")),
        (((Dim("batch", 1, 8), 3), "bool"), Tensor((Dim("batch", 1, 8), 3), "bool")),
    ],
)
def test_pairs_become_tensors(inputs, expected):
    assert with_tensors(inputs) == expected


@pytest.mark.parametrize(
    "inputs",
    [None, (1, 3), ((1, 3), "mean"), ((1, 3), (2, 3)), ((True, 3), "int64"), ((), "int64"), ("int8", "int64"), "int64"],
)
def test_anything_else_is_the_same(inputs):
    assert with_tensors(inputs) == inputs
    assert type(with_tensors(inputs)) is type(inputs)


@pytest.mark.parametrize(("name", "meant"), [("in64", "int64"), ("flaot32", "float32"), ("bfloat", "bfloat16")])
def test_a_misspelled_dtype_is_refused(name, meant):
    with pytest.raises(ValueError, match=rf"^shape \(2, 128\) with a dtype: unknown dtype '{name}' .*'{meant}'"):
        with_tensors({"ids": ((2, 128), name)})


@pytest.mark.frontend("pytorch")
@pytest.mark.parametrize("inputs", [((2, 3), "int64"), [((2, 3), "int64")], {"input": ((2, 3), "int64")}])
def test_pytorch(inputs):
    """6 indices of 8 bytes are read, and 6 rows of 4 float32."""
    nn = pytest.importorskip("torch.nn")
    assert estimate(nn.Embedding(10, 4), inputs).total_report["mread"] == 6 * 8 + 6 * 4 * 4


@pytest.mark.frontend("onnx")
def test_onnx():
    """8 numbers of 4 bytes are read and written."""
    helper = pytest.importorskip("onnx.helper")
    x, y = (helper.make_tensor_value_info(name, 1, ["n"]) for name in "xy")
    model = helper.make_model(helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y]))
    for inputs in ({"x": ((8,), "float32")}, ((8,), "float32")):
        total = estimate(model.SerializeToString(), inputs).total_report
        assert (total["mread"], total["mwrite"]) == (32, 32)


def test_a_value_has_no_names_and_no_shapes():
    inputs = {"x": ("batch", 3), "names": Value(["batch", "seq"]), "size": Value((64, 64))}
    assert has_names(inputs)
    assert not has_names({**inputs, "x": (1, 3)})
    assert with_tensors(inputs) == inputs
    assert without_marks(inputs) == {"x": ("batch", 3), "names": ["batch", "seq"], "size": [64, 64]}
    assert NamedInputs(inputs).at({"batch": 2}) == {**inputs, "x": (2, 3)}


def test_the_arguments_of_a_value_read_back():
    inputs = {"x": (1, 16), "steps": Value([999, 500, 1]), "meta": Value({"size": [2, 3]})}
    written = input_arguments(inputs)
    assert written == '--input x=1x16 --input steps:=[999,500,1] --input meta:={"size":[2,3]}'
    assert parse_inputs([text for text in written.split() if text != "--input"]) == inputs
