"""Shapes of dropout and of random numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onnx import TensorProto

from ..graph.node import Node, Rule
from ..values.value import DTYPES, Value


def random(node: Node) -> Sequence[Value]:
    """Infer random numbers in the attribute's shape or the input's."""
    x = node.inputs[0] if node.inputs else None
    default = x.dtype if x is not None else "float32"
    shape = node.args.get("shape") if x is None else x.known_shape
    return [node.result(shape, DTYPES.get(node.args.get("dtype") or 0, default))]


def multinomial(node: Node) -> Sequence[Value]:
    """Infer ``sample_size`` class numbers for each row."""
    dtype = DTYPES[node.args.get("dtype") or TensorProto.INT32]
    return [node.result((node.value("input").known_shape[0], node.args.get("sample_size", 1)), dtype)]


def dropout(node: Node) -> Sequence[Value]:
    """Infer the output and the mask, which is of bools since opset 10."""
    x = node.value("data")
    return [node.result(x.known_shape, x.dtype), node.result(x.known_shape, "bool" if node.version >= 10 else x.dtype)]


RULES: Mapping[str, Rule] = {
    "ai.onnx::Dropout": dropout,
    "ai.onnx::Bernoulli": random,
    "ai.onnx::Multinomial": multinomial,
    **{f"ai.onnx::{op}": random for op in ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")},
}
"""Rules by full operator name."""
