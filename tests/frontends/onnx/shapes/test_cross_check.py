"""Second opinions on shapes: what the model declares, and what onnx infers; and the options of reading."""

from __future__ import annotations

import subprocess

import onnx
import pytest

from costcore import estimate
from tests.frontends.onnx.read_model import read
from tests.frontends.onnx.small_models import model, node
from tests.whole_networks.onnx_models import Graph, encoder, unet


def test_a_shape_that_the_model_declares_otherwise_is_told():
    made = model(node("Relu", ["x"], ["a"], "first"), node("Neg", ["a"], ["y"]))
    entry = made.graph.value_info.add(name="a")
    entry.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    for length in (1, 5):
        entry.type.tensor_type.shape.dim.add(dim_value=length)
    report = estimate(made)
    assert report.notes == ["node 'first' (Relu) produces 'a' of shape (1, 4), but the model declares (1, 5)"]
    assert report.total_report["flops"] == 8
    entry.type.tensor_type.shape.dim[1].dim_param = "n"
    assert not estimate(made).notes


def test_a_shape_that_onnx_infers_otherwise_is_told_where_asked_for():
    # onnx takes an omitted `onesided` for 0; its default is 1: 16 // 2 + 1 bins
    g = Graph(17)
    made = g.model({"x": (1, 128, 1)}, g("STFT", "x", g.number(8, scalar=True), "", g.number(16, scalar=True)))
    assert not estimate(made).notes
    assert estimate(made, check_shapes=True).notes == [
        "onnx infers the shape (1, 15, 16, 2) of 'STFT_0_0'; costcore infers (1, 15, 9, 2)"
    ]


def test_onnx_infers_with_dimensions_that_print_alike():
    # twice the rows, and columns of that name: an operator without a rule here keeps both
    g = Graph(26)
    y = g("BitCast", g("Concat", "x", "x", axis=0), to=onnx.TensorProto.INT32)
    recorder = read(g.model({"x": (None, None)}, y), {"x": ("n", "2*n")})
    rows, columns = recorder.calls[-1].layer.out.shape
    assert (rows.free_symbols.pop().name, columns.name) == ("n", "2*n")
    assert rows == 2 * recorder.calls[0].layer["x0"].shape[0]
    assert recorder.calls[-1].layer.out.dtype == "int32"


def test_large_constants_are_not_copied_for_a_second_opinion():
    held = onnx.helper.make_tensor("c", onnx.TensorProto.FLOAT, (1000, 1000), bytes(4_000_000), raw=True)
    large = model(node("Constant", [], ["c"], value=held), node("MatMul", ["x", "c"], ["y"]), x=(2, 1000))
    assert not estimate(large, check_shapes=True).notes


@pytest.mark.parametrize("network", [unet, encoder])
def test_networks_are_inferred_alike(network):
    assert not estimate(network(2), check_shapes=True).notes
    assert not estimate(network("n"), check_shapes=True, dims={"n": 3}).notes


def test_inference_that_fails_or_takes_long_is_told(monkeypatch):
    made = model(node("Relu", ["x"], ["y"]), opset=20)
    monkeypatch.setattr("costcore.frontends.onnx.inference.CHILD", "raise SystemExit('no memory')")
    assert estimate(made, check_shapes=True).notes == ["onnx's own inference of shapes failed: no memory"]

    def late(*_, timeout, **__):
        raise subprocess.TimeoutExpired("onnx", timeout)

    monkeypatch.setattr(subprocess, "run", late)
    assert estimate(made, check_shapes=True).notes == ["onnx's own inference of shapes was stopped after 60 seconds"]


def test_unknown_options_are_refused():
    expected = r"\(expected dims, shapes, regroup, explain_regroup, check_shapes, max_nodes, keep_qdq\)"
    with pytest.raises(TypeError, match=f"unknown option 'backward' for the onnx frontend {expected}"):
        estimate(model(node("Relu", ["x"], ["y"])), backward=True)
