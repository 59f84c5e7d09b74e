"""Equal nodes are inferred and translated once; a different shape, dtype, attribute or element makes them unequal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from costcore import estimate
from costcore.frontends.onnx.walk import walker
from tests.frontends.onnx.read_model import read
from tests.whole_networks.onnx_models import Graph, encoder, make_model, mobilenet_v2, unet


def stored(g: Graph, *elements: Any, dtype: str = "float32") -> str:
    """A stored tensor with its elements."""
    g.stored.append(numpy_helper.from_array(np.array(elements, dtype), f"s{len(g.stored)}"))
    return g.stored[-1].name


def layers(count: int) -> ModelProto:
    """A network of so many equal layers, each with weights of its own."""
    g, x = Graph(), "x"
    for _ in range(count):
        y = g("Add", g("MatMul", x, g.weight(8, 8)), stored(g, *range(8)))
        x = g("Add", g("Relu", y), x)
    return g.model({"x": ("batch", 8)}, x)


@pytest.fixture
def inferred(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The operators that the rules of shapes were asked about."""
    asked: list[str] = []
    infer = walker.infer

    def counted(node: Any, *rest: Any) -> Any:
        asked.append(node.op)
        return infer(node, *rest)

    monkeypatch.setattr(walker, "infer", counted)
    return asked


@pytest.mark.parametrize("regroup", [False, True])
def test_rules_are_asked_once_for_equal_layers(inferred, regroup):
    report = estimate(layers(50), regroup=regroup)
    assert inferred == ["MatMul", "Add", "Relu", "Add", "Add"]  # the model declares the type of what the last one makes
    # every layer has weights of its own: 8 x 8 of a product, 8 of a bias
    assert report.total_report["n_params"] == 50 * (64 + 8)
    assert report.total_report["macs"] == 50 * 64 * report.calls[0].layer.out.shape[0]


@pytest.mark.parametrize("regroup", [False, True])
@pytest.mark.parametrize(
    "model", [layers(3), encoder("batch", "steps"), encoder(), mobilenet_v2("batch"), unet("batch", size="size")]
)
def test_a_report_is_the_same_where_every_node_is_read_by_itself(model, regroup, monkeypatch):
    report = estimate(model, regroup=regroup).to_json()
    monkeypatch.setattr(walker, "node_signature", lambda *_: None)
    assert estimate(model, regroup=regroup).to_json() == report


def test_operands_are_those_of_each_node():
    g = Graph()
    a, b = g("Relu", "x"), g("Relu", "y")
    for pair in ((a, b), (b, a), (a, a), ("x", b)):
        g("Add", *pair)
    calls = read(g.model({"x": (2, 3), "y": (2, 3)}, "Add_5_0")).calls
    (x,) = calls[0].inputs
    (a,), (b,) = calls[0].outputs, calls[1].outputs
    assert [call.inputs for call in calls[2:]] == [(a, b), (b, a), (a, a), (x, b)]
    assert len({identity for call in calls for identity in call.outputs}) == 6


def test_operands_that_are_the_same_come_first():
    g = Graph()
    a, b = g("Relu", "x"), g("Relu", "y")
    g("Mul", a, a)
    g("Mul", a, b)
    calls = read(g.model({"x": (2, 3), "y": (2, 3)}, "Mul_3_0")).calls
    (a,), (b,) = calls[0].outputs, calls[1].outputs
    assert [call.inputs for call in calls[2:]] == [(a, a), (a, b)]


def outputs(g: Graph, inputs: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The shapes of what each node makes."""
    return [call.layer.out.shape for call in read(g.model(inputs, g.nodes[-1].output[0])).calls]


def test_elements_that_decide_a_shape_are_compared():
    g = Graph()
    for shape in ((6, 2), (3, 4), (6, 2)):
        g("Reshape", "x", g.number(*shape))
    for scales in ((1, 1, 2, 2), (1, 1, 3, 1), (1, 1, 2, 2)):
        g("Resize", "image", "", stored(g, *scales))
    assert outputs(g, {"x": (3, 4), "image": (1, 1, 4, 4)}) == [
        *((6, 2), (3, 4), (6, 2)),
        *((1, 1, 8, 8), (1, 1, 12, 4), (1, 1, 8, 8)),
    ]


def test_elements_that_are_computed_are_those_of_each_node():
    g = Graph()
    lengths = [g("Concat", g("Mul", g.number(n), g.number(2)), g.number(3), axis=0) for n in (1, 2, 1)]
    halves = [g("Sqrt", stored(g, *squares)) for squares in ((1, 16), (4, 9))]
    shapes = [g("Cast", half, to=TensorProto.INT64) for half in halves]
    for shape in (*lengths, *shapes):
        g("Expand", "x", shape)
    assert outputs(g, {"x": (1, 1)})[-5:] == [(2, 3), (4, 3), (2, 3), (1, 4), (2, 3)]


def test_attributes_types_and_versions_are_compared():
    g = Graph()
    for axis in (0, 1, 0):
        g("Concat", "x", "x", axis=axis)
    assert outputs(g, {"x": (2, 3)}) == [(4, 3), (2, 6), (4, 3)]
    g = Graph()
    for x in ("x", "half", "words"):
        g("Add", x, x)
    given = {"x": (2,), "half": (TensorProto.FLOAT16, (2,)), "words": (TensorProto.INT64, (2,))}
    calls = read(g.model(given, "Add_2_0")).calls
    assert [call.layer.out.dtype for call in calls] == ["float32", "float16", "int64"]


def test_what_a_call_gives_a_function_is_compared():
    axis = helper.make_node("Softmax", ["x"], ["y"])
    axis.attribute.add(name="axis", ref_attr_name="along", type=2)
    opsets = [helper.make_opsetid("", 20)]
    function = helper.make_function("own", "soft", ["x"], ["y"], [axis], opsets, ["along"])
    nodes = [helper.make_node("soft", ["x"], [f"y{i}"], domain="own", along=i % 3) for i in range(4)]
    entries = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (2, 3, 4)) for n in ("x", "y1")]
    model = make_model(helper.make_graph(nodes, "graph", entries[:1], entries[1:]), functions=[function])
    model.opset_import.append(helper.make_opsetid("own", 1))
    assert [call.layer.attrs["axis"] for call in read(model).calls] == [0, 1, 2, 0]


def test_assumptions_and_notes_are_those_of_each_node():
    g = Graph()
    for name in ("first", "second"):
        g("NonZero", "x", name=name)
    model = g.model({"x": (2, 3)}, "NonZero_1_0")
    recorder = read(model)
    assert [place for _, place in recorder.assumptions] == ["node 'first' (NonZero)", "node 'second' (NonZero)"]
    assert len({call.layer.out.shape for call in recorder.calls}) == 2  # two lengths, two symbols
    g = Graph()
    for name in ("first", "second", "third", "last"):
        g("Relu", "x", name=name)
    model = g.model({"x": (2, 3)}, "Relu_3_0")
    for i, shape in enumerate(((2, 3), (2, 4), (2, 4))):
        model.graph.value_info.append(helper.make_tensor_value_info(f"Relu_{i}_0", TensorProto.FLOAT, shape))
    assert [note.partition(" produces")[0] for note in read(model).notes if "declares" in note] == [
        "node 'second' (Relu)",
        "node 'third' (Relu)",
    ]


def test_what_is_not_counted_is_told_of_each_node():
    g = Graph()
    for name in ("first", "second"):
        g("Reshape", "x", "to", name=name)
    for made in ("Reshape_0_0", "Reshape_1_0"):
        g("Relu", made)
    model = g.model({"x": (2, 3), "to": (TensorProto.INT64, ("n",))}, "Relu_3_0")
    recorder = read(model)
    first, second = "node 'first' (Reshape)", "node 'second' (Reshape)"
    assert [first in note for note in recorder.notes] == [False, True, False]
    assert [second in note for note in recorder.notes] == [False, False, True]
    relus = [f"the Relu node that produces 'Relu_{i}_0'" for i in (2, 3)]
    assert [call.where for call in recorder.calls] == [first, second, *relus]


def test_learned_tensors_are_told_from_numbers_and_from_what_is_computed():
    g = Graph()
    for operand in (g.weight(3), "y", stored(g, 1.0), g.weight(3)):
        g("Mul", "x", operand)
    calls = read(g.model({"x": (2, 3), "y": (3,)}, "Mul_3_0")).calls
    assert [call.layer["x1"].role for call in calls] == ["param", "data", "const", "param"]
    assert [len(call.parameters) for call in calls] == [1, 0, 0, 1]
    assert calls[0].parameters != calls[3].parameters
