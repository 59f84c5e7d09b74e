"""What ONNX probes are built of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

__all__ = ["TensorProto", "branches", "constant", "helper", "integer", "loop", "model", "np", "one", "scan", "zeros"]

Shapes = Mapping[str, Sequence[int]]


def zeros(*shape: int, dtype: Any = np.float32) -> Any:
    """Return a weight: values do not matter."""
    return np.zeros(shape, dtype)


def constant(*values: int) -> Any:
    """Return a vector of int64, such as a shape."""
    return np.array(values, np.int64)


def model(
    nodes: Sequence[Any],
    inputs: Shapes,
    outputs: Shapes,
    weights: Mapping[str, np.ndarray[Any, Any]] | None = None,
    dtypes: Mapping[str, int] | None = None,
    opset: int = 18,
) -> Any:
    """Return a model file: ``dtypes`` has those of inputs and outputs that are not float32."""

    def values(shapes: Shapes) -> list[Any]:
        types = dtypes or {}
        return [helper.make_tensor_value_info(n, types.get(n, TensorProto.FLOAT), s) for n, s in shapes.items()]

    tensors = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    graph = helper.make_graph(list(nodes), "probe", values(inputs), values(outputs), tensors)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    onnx.checker.check_model(made)
    return made


def one(
    operator: str,
    inputs: Shapes,
    outputs: Shapes,
    weights: Mapping[str, np.ndarray[Any, Any]] | None = None,
    opset: int = 18,
    **attributes: Any,
) -> Any:
    """Return a model file of one operator: inputs and weights are its operands, in this order."""
    if operator in ("Conv", "ConvTranspose"):  # optional, but every exporter writes it
        attributes["kernel_shape"] = next(iter((weights or {}).values())).shape[2:]
    node = helper.make_node(operator, [*inputs, *(weights or {})], [*outputs], **attributes)
    return model([node], inputs, outputs, weights, opset=opset)


def loop(trips: int, rows: int, size: int) -> Any:
    """Return a Loop that multiplies (rows, size) by (size, size) as many times as there are trips."""
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("MatMul", ["a", "w"], ["b"]), helper.make_node("Identity", ["go"], ["still"])],
        "body",
        [
            value("i", TensorProto.INT64, []),
            value("go", TensorProto.BOOL, []),
            value("a", TensorProto.FLOAT, (rows, size)),
        ],
        [value("still", TensorProto.BOOL, []), value("b", TensorProto.FLOAT, (rows, size))],
    )
    weights = {"n": np.array(trips, np.int64), "yes": np.array(True), "w": zeros(size, size)}
    node = helper.make_node("Loop", ["n", "yes", "x"], ["y"], body=body)
    return model([node], {"x": (rows, size)}, {"y": (rows, size)}, weights)


def scan(slices: int, rows: int, size: int) -> Any:
    """Return a Scan that multiplies (rows, size) by each of the slices (size, size) of its second input."""
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("MatMul", ["a", "w"], ["b"])],
        "body",
        [value("a", TensorProto.FLOAT, (rows, size)), value("w", TensorProto.FLOAT, (size, size))],
        [value("b", TensorProto.FLOAT, (rows, size))],
    )
    node = helper.make_node("Scan", ["x", "ws"], ["y"], body=body, num_scan_inputs=1)
    return model([node], {"x": (rows, size), "ws": (slices, size, size)}, {"y": (rows, size)})


def branches(rows: int, size: int) -> Any:
    """Return an If whose condition is a constant true: its branch has one product, the other has two."""
    value = helper.make_tensor_value_info

    def branch(*names: str) -> Any:
        nodes = [
            helper.make_node("MatMul", [first, "w"], [second])
            for first, second in zip(("x", *names), names, strict=False)
        ]
        return helper.make_graph(nodes, "branch", [], [value(names[-1], TensorProto.FLOAT, (rows, size))])

    node = helper.make_node("If", ["yes"], ["y"], then_branch=branch("one"), else_branch=branch("first", "two"))
    weights = {"yes": np.array(True), "w": zeros(size, size)}
    return model([node], {"x": (rows, size)}, {"y": (rows, size)}, weights)


def integer(operator: str, x: Sequence[int], w: Sequence[int], y: Sequence[int]) -> Any:
    """Return a product of unsigned bytes with a weight of signed bytes, which has sums of 32 bits."""
    kernel = {"kernel_shape": w[2:]} if operator == "ConvInteger" else {}
    node = helper.make_node(operator, ["x", "w"], ["y"], **kernel)
    dtypes = {"x": TensorProto.UINT8, "y": TensorProto.INT32}
    return model([node], {"x": x}, {"y": y}, {"w": zeros(*w, dtype=np.int8)}, dtypes)
