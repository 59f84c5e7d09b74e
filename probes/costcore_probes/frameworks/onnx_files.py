"""What ONNX probes are built of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

__all__ = ["TensorProto", "constant", "helper", "model", "np", "one", "zeros"]

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
