"""The graph whose profiles in ``tests/data/profiles`` ONNX Runtime recorded: two convolutions and two products."""

from __future__ import annotations

from typing import Any

import onnx
from onnx import TensorProto, helper

WEIGHTS = {
    "w1": (8, 8, 3, 3),
    "b1": (8,),
    "w2": (8, 8, 3, 3),
    "w3": (8, 32),
    "b3": (32,),
    "w4": (32, 32),
    "b4": (32,),
    "scale": (32,),
    "shift": (32,),
}


def runtime_model() -> onnx.ModelProto:
    """Return the model: x[1, 8, 16, 16] to y[1, 256, 32]."""
    one = helper.make_tensor("one", TensorProto.INT64, [3], [1, 8, 256])

    def node(op: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
        return helper.make_node(op, inputs.split(), [output], f"/net/{op}_{output}", **attributes)

    nodes = [
        node("Conv", "x w1 b1", "c1", pads=[1, 1, 1, 1]),
        node("Relu", "c1", "r1"),
        node("Conv", "r1 w2", "c2", pads=[1, 1, 1, 1]),
        node("Add", "c2 x", "a2"),
        node("Relu", "a2", "r2"),
        node("Reshape", "r2 one", "f"),
        node("Transpose", "f", "t", perm=[0, 2, 1]),
        node("MatMul", "t w3", "m3"),
        node("Add", "m3 b3", "l3"),
        node("MatMul", "l3 w4", "m4"),
        node("Add", "m4 b4", "l4"),
        node("Add", "l4 l3", "s"),
        node("LayerNormalization", "s scale shift", "n", axis=-1),
        node("Gelu", "n", "y"),
    ]
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", [1, 8, 16, 16]), ("y", [1, 256, 32]))
    )
    weights = [
        helper.make_tensor(name, TensorProto.FLOAT, shape, [0.01] * _size(shape)) for name, shape in WEIGHTS.items()
    ]
    graph = helper.make_graph(nodes, "net", [x], [y], [*weights, one])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def _size(shape: tuple[int, ...]) -> int:
    n = 1
    for each in shape:
        n *= each
    return n
