"""Operators that the standard defines by functions, gradients and optimizers."""

from __future__ import annotations

from typing import Any

import pytest
from onnx import TensorProto, defs

from costcore import CostError
from costcore.ir import Operations
from tests.frontends.onnx.read_model import read, total
from tests.registered import price
from tests.whole_networks.onnx_models import Graph

FLOAT = TensorProto.FLOAT


def model_of(g: Graph, inputs: dict[str, Any], y: Any, domain: str) -> Any:
    model = g.model(inputs, y)
    model.opset_import.add(domain=domain, version=1)
    return model


def flex(**modifiers: Any) -> Any:
    g = Graph(25)
    y = g("FlexAttention", "q", "k", "v", domain="ai.onnx.preview", **modifiers)
    q, k = (1, 4, 3, 8), (1, 2, 5, 8)
    return read(model_of(g, {"q": q, "k": k, "v": k}, y, "ai.onnx.preview"))


NEEDS_FLEX_ATTENTION = pytest.mark.skipif(
    not defs.has("FlexAttention", "ai.onnx.preview"), reason="the installed onnx has no such operator"
)


@NEEDS_FLEX_ATTENTION
def test_what_has_no_formula_is_counted_by_its_body_and_says_so():
    double = Graph()
    modifier = double.graph({"s": (1, 4, 3, 5)}, double("Exp", "s"))
    calls = flex(score_mod=modifier).calls
    assert {call.region.rpartition(".")[2] for call in calls} == {"definition"}
    assert total(calls, "macs") == 2 * (4 * 3 * 5 * 8)
    exps = [call for call in calls if call.type == "Exp"]
    assert sum(call.layer.out.size for call in exps) == 60
    assert calls[-1].layer.out.shape == (1, 4, 3, 8)


def gradient(g: Graph, y: str, *xs: str) -> list[str]:
    made = g("Gradient", *xs, domain="ai.onnx.preview.training", outputs=len(xs), xs=list(xs), y=y)
    return [made] if len(xs) == 1 else made


def training(g: Graph, inputs: dict[str, Any], outputs: Any) -> Any:
    return read(model_of(g, inputs, outputs, "ai.onnx.preview.training"))


def backward(recorder: Any) -> list[Any]:
    return [call for call in recorder.calls if call.phase == "backward"]


def test_gradients_of_sums_and_products():
    g = Graph()
    c = g("Mul", g("Add", "a", "b"), "a")
    calls = backward(training(g, {"a": (3, 4), "b": (4,)}, gradient(g, c, "a", "b")))
    # a * dy for the sum, (a + b) * dy for a; the sum passes it on, to b summed over the rows; a gets both, added
    assert [(call.layer.op, call.layer.out.shape) for call in calls] == [
        ("mul", (3, 4)),
        ("mul", (3, 4)),
        ("add", (3, 4)),
        ("reduce_sum", (4,)),
    ]
    assert total(calls, "flops") == 12 + 12 + 12 + (12 - 4)


def test_gradients_of_layers_go_by_their_own_formulas():
    g = Graph()
    y = g("Relu", g("Conv", "x", "w"))
    calls = backward(training(g, {"x": (1, 3, 8, 8), "w": (4, 3, 3, 3)}, gradient(g, y, "w")))
    assert [call.layer.op for call in calls] == ["relu_backward", "conv_backward"]
    assert calls[1].layer.attrs["needs"] == ("w",)
    assert total(calls[1:], "macs") == 4 * 36 * 27
    assert calls[1].layer.out.shape == (4, 3, 3, 3)


def test_a_backward_without_a_formula_is_named():
    g = Graph()
    calls = backward(training(g, {"x": (3, 4)}, gradient(g, g("CumSum", "x", g.number(0, scalar=True)), "x")))
    answer = price(calls[0])
    assert (answer.cost, answer.reason) == (None, "no calculator for 'cumsum_backward'")


@pytest.mark.parametrize(("xs", "y", "attribute"), [(["x"], "nowhere", "y"), (["x", "nowhere"], "x", "xs")])
def test_a_gradient_of_a_value_that_does_not_exist_is_refused(xs, y, attribute):
    g = Graph()
    made = g("Gradient", "x", domain="ai.onnx.preview.training", xs=xs, y=y)
    with pytest.raises(CostError, match=rf"Gradient.* names 'nowhere' in its attribute {attribute}"):
        training(g, {"x": (3,)}, made)


@pytest.mark.parametrize(
    ("op", "parts", "attrs", "each"),
    [
        ("Adagrad", 3, {}, Operations(fma=1, mul=1, add=2, div=1, special=1)),
        ("Adam", 4, {}, Operations(fma=2, mul=4, add=2, div=1, special=1)),
        ("Adam", 4, {"norm_coefficient": 0.1}, Operations(fma=3, mul=4, add=2, div=1, special=1)),
        ("Momentum", 3, {"mode": "standard"}, Operations(fma=2, mul=1)),
        ("Momentum", 3, {"mode": "nesterov"}, Operations(fma=3, mul=1)),
    ],
)
def test_optimizers(op, parts, attrs, each):
    g = Graph()
    attrs = {"alpha": 0.9, "beta": 0.9, "norm_coefficient": 0.0, **attrs} if op == "Momentum" else attrs
    names = [f"t{i}" for i in range(2 * parts)]
    inputs = {name: (5,) if i % 2 else (2, 3) for i, name in enumerate(names)}
    y = g(op, "r", "t", *names, domain="ai.onnx.preview.training", outputs=2 * (parts - 1), **attrs)
    (call,) = training(g, {"r": (), "t": (TensorProto.INT64, ()), **inputs}, y).calls
    assert [tensor.shape for tensor in call.layer.outputs] == [(2, 3), (5,)] * (parts - 1)
    cost = price(call).cost
    assert cost is not None
    assert cost.flops == 11 * each
    assert (cost.mread, cost.mwrite) == (4 * 11 * parts, 4 * 11 * (parts - 1))
