"""Shapes of operators that read or write elements at given indices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..graph.node import Node, Rule
from ..values.value import Undetermined, Value
from .reduction import nonzero_count
from .rules import same_shape


def gather(node: Node) -> Sequence[Value]:
    """Infer slices along an axis, at indices of any shape."""
    x, indices = node.value("data"), node.value("indices")
    axis = node.axis(len(x.known_shape), "axis") or 0
    shape = (*x.known_shape[:axis], *indices.known_shape, *x.known_shape[axis + 1 :])
    return [node.result(shape, x.dtype, lambda a, i: np.take(a, i.astype(np.int64), axis))]


def gather_elements(node: Node) -> Sequence[Value]:
    """Infer one element for each index."""
    return [node.result(node.value("indices").known_shape, node.value("data").dtype)]


def gather_nd(node: Node) -> Sequence[Value]:
    """Infer slices at index tuples, which are the last axis of the indices."""
    x, indices, batch = node.value("data"), node.value("indices").known_shape, node.args.get("batch_dims", 0)
    if not indices or not isinstance(indices[-1], int):
        raise Undetermined
    return [node.result((*indices[:-1], *x.known_shape[batch + indices[-1] :]), x.dtype)]


def compress(node: Node) -> Sequence[Value]:
    """Infer the slices at which a condition, which may be longer, is true; their number depends on data."""
    x = node.value("input")
    axis = node.axis(len(x.known_shape), "axis")
    count = nonzero_count(node.value("condition"), x.size if axis is None else x.known_shape[axis])
    shape = (count,) if axis is None else (*x.known_shape[:axis], count, *x.known_shape[axis + 1 :])
    return [node.result(shape, x.dtype)]


def extract_features(node: Node) -> Sequence[Value]:
    """Infer selected features of the last axis."""
    x, indices = node.value("X"), node.value("Y")
    lead = x.known_shape[:-1] if len(x.known_shape) > 1 else (1,)
    return [node.result((*lead, indices.size), x.dtype)]


RULES: Mapping[str, Rule] = {
    "ai.onnx::Gather": gather,
    "ai.onnx::GatherElements": gather_elements,
    "ai.onnx::GatherND": gather_nd,
    **{f"ai.onnx::{op}": same_shape for op in ("Scatter", "ScatterElements", "ScatterND", "TensorScatter")},
    "ai.onnx::Compress": compress,
    "ai.onnx.ml::ArrayFeatureExtractor": extract_features,
}
"""Rules by full operator name."""
