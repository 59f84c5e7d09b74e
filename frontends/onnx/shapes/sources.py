"""Shapes and elements of operators that make values of shapes and constants, and that pick elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from costcore.dims import Dim, ceil_div, is_symbolic
from costcore.ir import prod

from ..node import Node
from ..values.value import DTYPES, STORED, Stored, Undetermined, Value, stored_value


def constant(node: Node) -> Sequence[Value]:
    """The value of the one attribute that is given."""
    value = _constant(node)
    node.cache[STORED] = [value]
    return [value]


def _constant(node: Node) -> Value:
    name = next((name for name in node.args if name == "value" or name.startswith(("value_", "sparse_"))), "")
    content: Any = node.args.get(name)
    made = node.proto.output[0] if node.proto.output else ""
    if name == "value":
        return stored_value(content, made, node.label)
    if name == "sparse_value":
        value = stored_value(content.values, made, node.label)
        return Value(tuple(content.dims), value.dtype, None, value.role, stored=value.stored)
    if content is None:
        raise node.error("has no value")
    dtype = "int64" if "int" in name else "float32" if "float" in name else "string"
    shape = (len(content),) if name.endswith("s") else ()
    data = np.array(content, dtype=object) if dtype != "string" and prod(shape) <= 1024 else None
    is_param = dtype == "float32" and prod(shape) != 1
    stored = Stored(made, prod(shape), dtype)
    return Value(shape, dtype, data, "param" if is_param else "const", stored=stored)


def shape_of(node: Node) -> Sequence[Value]:
    """The dimensions of the input, or a range of them."""
    x = node.value("data")
    dims = x.known[slice(node.args.get("start", 0), node.args.get("end"))]
    data: Any = np.empty(len(dims), dtype=object)
    data[:] = dims
    return [Value((len(dims),), "int64", data, "const", follows_shapes=x.role == "data")]


def size_of(node: Node) -> Sequence[Value]:
    """How many elements the input has."""
    return [number_of(node.value("data").size)]


def number_of(count: Dim) -> Value:
    """A number that follows from shapes."""
    data: Any = np.empty((), dtype=object)
    data[()] = count
    return Value((), "int64", data, "const", follows_shapes=True)


def filled(node: Node) -> Sequence[Value]:
    """A shape filled with one number, zero by default."""
    shape, fill = node.numbers("input") or (), node.args.get("value")
    value = stored_value(fill, "", node.label) if fill is not None else Value((1,), "float32", np.array([0.0], object))
    element = value.data

    def fold(*_: Any) -> Any:
        return np.broadcast_to(element.reshape(()), shape)

    return [node.result(shape, value.dtype, fold if element is not None else None)]


def range_of(node: Node) -> Sequence[Value]:
    """Numbers from start to limit by delta."""
    start, limit, delta = (node.number(name) for name in ("start", "limit", "delta"))
    dtype = node.value("start").dtype
    if is_symbolic(delta) or delta == 0:
        raise Undetermined if delta else node.error("counts by 0")
    if all(isinstance(number, int) for number in (start, limit, delta)):
        count: Dim = max(ceil_div(limit - start, delta), 0)
    elif is_symbolic(start) or is_symbolic(limit):
        count = ceil_div(limit - start, delta)
    else:
        count = max(math.ceil((limit - start) / delta), 0)
    return [node.result((count,), dtype, lambda *_: [start + i * delta for i in range(count)])]


def eye(node: Node) -> Sequence[Value]:
    """A unit matrix of the input's shape."""
    x = node.value("input")
    return [node.result(x.known, DTYPES.get(node.args.get("dtype") or 0, x.dtype))]


def random(node: Node) -> Sequence[Value]:
    """Random numbers in a shape, the attribute's or the input's."""
    x = node.inputs[0] if node.inputs else None
    default = x.dtype if x is not None else "float32"
    shape = node.args.get("shape") if x is None else x.known
    return [node.result(shape, DTYPES.get(node.args.get("dtype") or 0, default))]


def multinomial(node: Node) -> Sequence[Value]:
    """Drawn class numbers, ``sample_size`` a row."""
    dtype = DTYPES[node.args.get("dtype") or TensorProto.INT32]
    return [node.result((node.value("input").known[0], node.args.get("sample_size", 1)), dtype)]


def gather(node: Node) -> Sequence[Value]:
    """Slices along an axis, at indices of any shape."""
    x, indices = node.value("data"), node.value("indices")
    axis = node.axis(len(x.known), "axis") or 0
    shape = (*x.known[:axis], *indices.known, *x.known[axis + 1 :])
    return [node.result(shape, x.dtype, lambda a, i: np.take(a, i.astype(np.int64), axis))]


def gather_elements(node: Node) -> Sequence[Value]:
    """One element for every index."""
    return [node.result(node.value("indices").known, node.value("data").dtype)]


def gather_nd(node: Node) -> Sequence[Value]:
    """Slices at index tuples, the last axis of the indices."""
    x, indices, batch = node.value("data"), node.value("indices").known, node.args.get("batch_dims", 0)
    if not indices or not isinstance(indices[-1], int):
        raise Undetermined
    return [node.result((*indices[:-1], *x.known[batch + indices[-1] :]), x.dtype)]


def one_hot(node: Node) -> Sequence[Value]:
    """A new axis of length depth."""
    indices, depth = node.value("indices").known, node.number("depth")
    axis = node.axis(len(indices) + 1, "axis") or 0
    depth = depth if is_symbolic(depth) else int(depth)
    return [node.result((*indices[:axis], depth, *indices[axis:]), node.value("values").dtype)]


def top_k(node: Node) -> Sequence[Value]:
    """The k first elements along an axis, and their places."""
    x, k = node.value("X"), node.number("K", "k")
    axis = node.axis(len(x.known), "axis") or 0
    length = x.known[axis]
    if isinstance(k, int) and isinstance(length, int) and k > length:
        raise node.error(f"takes the first {k} of {length}")
    shape = (*x.known[:axis], k, *x.known[axis + 1 :])
    return [node.result(shape, x.dtype), node.result(shape, "int64")]


def _held(value: Value) -> int | None:
    """How many elements are not zero; None where only data tells."""
    if value.data is None or any(map(is_symbolic, value.data.flat)):
        return None
    return sum(map(bool, value.data.flat))


def non_zero(node: Node) -> Sequence[Value]:
    """Places of non-zero elements: their number depends on data."""
    x = node.value("X")
    return [node.result((max(len(x.known), 1), _held(x)), "int64", lambda data: np.nonzero(np.atleast_1d(data)))]


def compress(node: Node) -> Sequence[Value]:
    """Slices where a condition holds: their number depends on data."""
    x, count = node.value("input"), _held(node.value("condition"))
    axis = node.axis(len(x.known), "axis")
    shape = (count,) if axis is None else (*x.known[:axis], count, *x.known[axis + 1 :])
    return [node.result(shape, x.dtype)]


def unique(node: Node) -> Sequence[Value]:
    """Different elements or slices, where each is first, which each is, how often: their number depends on data."""
    x = node.value("X")
    axis = node.axis(len(x.known), "axis")
    length = x.size if axis is None else x.known[axis]
    count = length if isinstance(length, int) and length < 2 else None
    shape = (count,) if axis is None else (*x.known[:axis], count, *x.known[axis + 1 :])
    return [node.result(shape, x.dtype), *(node.result((n,), "int64") for n in (count, length, count))]


def normalized_strings(node: Node) -> Sequence[Value]:
    """Strings without stop words: how many are left depends on data."""
    x = node.value("X")
    return [node.result((*x.known[:-1], None) if node.args.get("stopwords") else x.known, "string")]


def non_max_suppression(node: Node) -> Sequence[Value]:
    """Triples of batch, class and box: their number depends on data."""
    return [node.result((None, 3), "int64")]


def window(node: Node) -> Sequence[Value]:
    """The window functions of signal processing."""
    return [node.result((node.number("size"),), DTYPES[node.args.get("output_datatype", TensorProto.FLOAT)])]


def mel(node: Node) -> Sequence[Value]:
    """Weights from DFT bins to mel bins."""
    dtype = DTYPES[node.args.get("output_datatype", TensorProto.FLOAT)]
    return [node.result((node.number("dft_length") // 2 + 1, node.number("num_mel_bins")), dtype)]


def determinant(node: Node) -> Sequence[Value]:
    """Determinants: without the last two axes."""
    x = node.value("X")
    if len(x.known) < 2:
        raise node.error(f"needs matrices, got shape {x.known}")
    return [node.result(x.known[:-2], x.dtype)]


def loss(node: Node) -> Sequence[Value]:
    """A loss a target, or one in all; log-probabilities on demand."""
    x, target = node.value("scores", "input"), node.value("labels", "target")
    shape = target.known if node.args.get("reduction") == "none" else ()
    return [node.result(shape, x.dtype), node.result(x.known, x.dtype)]


RULES = {
    "Constant": constant,
    "Shape": shape_of,
    "Size": size_of,
    "ConstantOfShape": filled,
    "Range": range_of,
    "EyeLike": eye,
    **dict.fromkeys(("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli"), random),
    "Multinomial": multinomial,
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "OneHot": one_hot,
    "TopK": top_k,
    "NonZero": non_zero,
    "Compress": compress,
    "Unique": unique,
    "StringNormalizer": normalized_strings,
    "NonMaxSuppression": non_max_suppression,
    **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow"), window),
    "MelWeightMatrix": mel,
    "Det": determinant,
    "NegativeLogLikelihoodLoss": loss,
    "SoftmaxCrossEntropyLoss": loss,
}
