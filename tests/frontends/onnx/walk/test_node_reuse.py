"""Equal nodes are inferred and translated once; a different shape, dtype, attribute or element makes them unequal."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from tests.frontends.onnx.read_model import read
from tests.whole_networks.onnx_models import Graph


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
