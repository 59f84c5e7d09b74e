"""One node of an operator that ONNX Runtime adds: the layer that it is read as, and its cost."""

from __future__ import annotations

from typing import Any

from onnx import ModelProto, TensorProto, helper

from tests.frontends.onnx.read_model import read
from tests.registered import cost

FLOAT, FLOAT16, UINT8, INT8, INT32, INT64 = (
    TensorProto.FLOAT,
    TensorProto.FLOAT16,
    TensorProto.UINT8,
    TensorProto.INT8,
    TensorProto.INT32,
    TensorProto.INT64,
)


def model_of(
    op: str,
    *inputs: Any,
    domain: str = "com.microsoft",
    outputs: int = 1,
    sizes: dict[str, int] | None = None,
    **attrs: Any,
) -> ModelProto:
    """A model of one node; an input is a shape, (type, shape), None, or a constant as a list.

    A shape in a set of one, ``{(3, 4)}``, is a stored tensor. With ``sizes`` those of all inputs that are not stored
    get names, ``x0_1`` the second one of the first input, and are noted there.
    """
    names, given, stored = [], [], []
    for i, x in enumerate(inputs):
        name = f"x{i}" if x is not None else ""
        names.append(name)
        if x is None:
            continue
        if isinstance(x, list):
            kind = FLOAT if isinstance(x[0], float) else INT32
            stored.append(helper.make_tensor(name, kind, (len(x),), x))
            continue
        is_stored = isinstance(x, set)
        (spec,) = x if is_stored else (x,)
        kind, shape = spec if len(spec) == 2 and isinstance(spec[1], tuple) else (FLOAT, spec)
        if is_stored:
            tensor = TensorProto(name=name, dims=shape, data_type=kind, data_location=TensorProto.EXTERNAL)
            tensor.external_data.add(key="location", value="absent")
            stored.append(tensor)
            continue
        if sizes is not None:
            named = {f"{name}_{axis}": d for axis, d in enumerate(shape)}
            sizes |= named
            shape = tuple(named)
        given.append(helper.make_tensor_value_info(name, kind, shape))
    made = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, made, domain=domain, **attrs)
    results = [helper.make_tensor_value_info(name, FLOAT, None) for name in made]
    graph = helper.make_graph([node], "graph", given, results, stored)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1), helper.make_opsetid(domain, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def priced(op: str, *inputs: Any, **options: Any):
    """The layer and the cost of one node, and the run; arguments are those of :func:`model_of`."""
    recorder = read(model_of(op, *inputs, **options))
    (call,) = recorder.calls
    return call.layer, cost(call), recorder


def shapes(layer) -> list[Any]:
    return [tensor.shape for tensor in layer.outputs]
