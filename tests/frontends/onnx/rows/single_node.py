"""One node of an operator of the standard: the layer that it is read as, and its cost."""

from __future__ import annotations

from typing import Any

from onnx import TensorProto

from tests.frontends.onnx.read_model import read
from tests.registered import cost
from tests.whole_networks.onnx_models import Graph

FLOAT, STRING, INT64, UINT8, INT8 = (
    TensorProto.FLOAT,
    TensorProto.STRING,
    TensorProto.INT64,
    TensorProto.UINT8,
    TensorProto.INT8,
)


def priced(op: str, *inputs: Any, outputs: int = 1, opset: int = 26, **attrs: Any) -> Any:
    """The layer and the cost of one node; an input is a shape, (type, shape), None, or a constant (list or number)."""
    g = Graph(opset)
    names, given = [], {}
    for i, x in enumerate(inputs):
        if x is None:
            names.append("")
        elif isinstance(x, (int, float, list)):
            elements = x if isinstance(x, list) else [x]
            kind = FLOAT if isinstance(elements[0], float) else INT64
            names.append(g.number(*elements, dtype=kind, scalar=not isinstance(x, list)))
        else:
            names.append(f"x{i}")
            given[f"x{i}"] = x
    made = g(op, *names, outputs=outputs, **attrs)
    call = read(g.model(given, made)).calls[-1]
    return call.layer, cost(call)
