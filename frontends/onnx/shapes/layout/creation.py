"""Shapes and elements of operators that create tensors from shapes, constants and indices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from costcore.ir import prod
from costcore.numbers.dims import Dim, ceil_div, is_symbolic

from ...graph.node import Inferred, Node, Rule
from ...values.value import DTYPES, StoredTensor, Undetermined, Value, number_of, stored_value


def constant(node: Node) -> Inferred:
    """Infer the value of the one attribute that is given."""
    value = _constant(node)
    return Inferred([value], stored=(value,))


def _constant(node: Node) -> Value:
    """Return the value of the one attribute that is given."""
    name = next((name for name in node.args if name == "value" or name.startswith(("value_", "sparse_"))), "")
    content: Any = node.args.get(name)
    output = node.proto.output[0] if node.proto.output else ""
    if name == "value":
        return stored_value(content, output, node.label)
    if name == "sparse_value":
        value = stored_value(content.values, output, node.label)
        return Value(tuple(content.dims), value.dtype, None, value.role, stored=value.stored)
    if content is None:
        raise node.error("has no value")
    dtype = "int64" if "int" in name else "float32" if "float" in name else "string"
    shape = (len(content),) if name.endswith("s") else ()
    data = np.array(content, dtype=object) if dtype != "string" and prod(shape) <= 1024 else None
    is_param = dtype == "float32" and prod(shape) != 1
    stored = StoredTensor(output, prod(shape), dtype)
    return Value(shape, dtype, data, "param" if is_param else "const", stored=stored)


def shape_of(node: Node) -> Sequence[Value]:
    """Infer the dimensions of the input, or a range of them."""
    x = node.value("data")
    dims = x.known_shape[slice(node.args.get("start", 0), node.args.get("end"))]
    data: Any = np.empty(len(dims), dtype=object)
    data[:] = dims
    return [Value((len(dims),), "int64", data, "const", follows_shapes=x.role == "data")]


def size_of(node: Node) -> Sequence[Value]:
    """Infer the number of elements of the input."""
    return [number_of(node.value("data").size)]


def filled(node: Node) -> Sequence[Value]:
    """Infer a tensor of one number, zero by default."""
    shape, fill = node.partial_numbers("input") or (), node.args.get("value")
    value = stored_value(fill, "", node.label) if fill is not None else Value((1,), "float32", np.array([0.0], object))
    element = value.data

    def fold(*_: Any) -> Any:
        return np.broadcast_to(element.reshape(()), shape)

    return [node.result(shape, value.dtype, fold if element is not None else None)]


def range_of(node: Node) -> Sequence[Value]:
    """Infer the numbers from start to limit by delta."""
    start, limit, delta = (node.number(name) for name in ("start", "limit", "delta"))
    dtype = node.value("start").dtype
    if is_symbolic(delta) or delta == 0:
        raise Undetermined if delta else node.error("has a delta of 0")
    if all(isinstance(number, int) for number in (start, limit, delta)):
        count: Dim = max(ceil_div(limit - start, delta), 0)
    elif is_symbolic(start) or is_symbolic(limit):
        count = ceil_div(limit - start, delta)
    else:
        count = max(math.ceil((limit - start) / delta), 0)
    return [node.result((count,), dtype, lambda *_: [start + i * delta for i in range(count)])]


def eye(node: Node) -> Sequence[Value]:
    """Infer an identity matrix of the input's shape."""
    x = node.value("input")
    return [node.result(x.known_shape, DTYPES.get(node.args.get("dtype") or 0, x.dtype))]


def one_hot(node: Node) -> Sequence[Value]:
    """Infer a new axis of size depth."""
    indices, depth = node.value("indices").known_shape, node.number("depth")
    axis = node.axis(len(indices) + 1, "axis") or 0
    depth = depth if is_symbolic(depth) else int(depth)
    return [node.result((*indices[:axis], depth, *indices[axis:]), node.value("values").dtype)]


def category_one_hot(node: Node) -> Sequence[Value]:
    """Infer a new last axis, one element for each category."""
    count = len(node.args.get("cats_int64s") or node.args.get("cats_strings") or ())
    return [node.result((*node.value("X").known_shape, count), "float32")]


RULES: Mapping[str, Rule] = {
    "ai.onnx::Constant": constant,
    "ai.onnx::Shape": shape_of,
    "ai.onnx::Size": size_of,
    "ai.onnx::ConstantOfShape": filled,
    "ai.onnx::Range": range_of,
    "ai.onnx::EyeLike": eye,
    "ai.onnx::OneHot": one_hot,
    "ai.onnx.ml::OneHotEncoder": category_one_hot,
}
"""Rules by full operator name."""
