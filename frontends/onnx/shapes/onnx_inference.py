"""Shape inference by onnx itself, for one node without a rule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from onnx import TensorProto, TypeProto, checker, helper, shape_inference

from costcore.numbers.dims import Dim

from ..graph.node import Node
from ..values.dimensions import Dimensions
from ..values.value import DTYPES, Value

MOST_UNKNOWN = 1024
"""The most elements of a list of axes or sizes that is asked about: onnx 1.21 makes a dimension of each."""

NUMBERS = {dtype: number for number, dtype in DTYPES.items()}


def infer_by_onnx(node: Node, dims: Dimensions) -> Sequence[Value]:
    """Return the outputs as onnx infers them from this node alone; none if it cannot."""
    if node.schema is None or any(a.g.node or a.graphs for a in node.proto.attribute):
        return ()
    if node.lacks_elements and any(map(_is_long_list, node.inputs)):
        return ()
    node.reads_elements = True
    types: dict[str, Any] = {}
    data: dict[str, Any] = {}
    names: dict[Dim, str] = {}
    for name, value in zip(node.proto.input, node.inputs, strict=False):
        if value is None:
            continue
        if value.shape is None:
            return ()
        types[name] = helper.make_tensor_type_proto(NUMBERS[value.dtype], list(_written(value.shape, names)))
        if value.data is not None and all(isinstance(element, (int, float)) for element in value.data.flat):
            data[name] = helper.make_tensor(name, NUMBERS[value.dtype], value.data.shape, value.data.ravel().tolist())
    try:
        found = shape_inference.infer_node_outputs(node.schema, node.proto, types, data)
    except (checker.ValidationError, shape_inference.InferenceError, RuntimeError, TypeError, ValueError):
        return ()
    symbols = {name: d for d, name in names.items()}
    return [_read(found.get(name), symbols) for name in node.proto.output]


def _is_long_list(value: Value | None) -> bool:
    if value is None or value.data is not None or value.dtype != "int64" or not value.shape:
        return False
    return len(value.shape) == 1 and isinstance(value.shape[0], int) and value.shape[0] > MOST_UNKNOWN


def _written(shape: Iterable[Dim], names: dict[Dim, str]) -> Iterable[Any]:
    """Iterate over dimensions for onnx: sizes that fit, and a new name for every other dimension."""
    for d in shape:
        yield d if isinstance(d, int) and d < 1 << 63 else names.setdefault(d, f"d{len(names)}")


def _read(found: Any, symbols: Mapping[str, Dim]) -> Value:
    """Return the value of an inferred type."""
    if not isinstance(found, TypeProto) or not found.HasField("tensor_type"):
        return Value(None, "")
    kind = found.tensor_type
    dtype = DTYPES.get(kind.elem_type, "") if kind.elem_type != TensorProto.UNDEFINED else ""
    if not kind.HasField("shape"):
        return Value(None, dtype)
    shape = (d.dim_value if d.HasField("dim_value") else symbols.get(d.dim_param) for d in kind.shape.dim)
    return Value(tuple(shape), dtype)
