"""Shapes of reductions, cumulative sums and searches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from costcore.numbers.dims import Dim, is_symbolic

from ..graph.node import Node, Rule
from ..values.value import Shape, Undetermined, Value
from .rules import same_shape

FOLDS: Mapping[str, Callable[..., Any]] = {
    "ReduceProd": np.prod,
    "ReduceSum": np.sum,
    "ReduceMax": np.max,
    "ReduceMin": np.min,
}


def reduced_axes(node: Node) -> tuple[int, ...]:
    """Return the axes of a reduction: all if none is given, unless ``noop_with_empty_axes``."""
    rank = len(node.value("data").known_shape)
    axes = node.axes(rank, "axes")
    if axes:
        return axes
    return () if node.args.get("noop_with_empty_axes") else tuple(range(rank))


def reduction(node: Node) -> Sequence[Value]:
    """Infer a reduction; if the axes are unknown and are kept, only the rank is known."""
    x, keep = node.value("data"), node.args.get("keepdims", 1)
    try:
        axes = reduced_axes(node)
    except Undetermined:
        if not keep:
            raise
        return [node.result((None,) * len(x.known_shape), x.dtype)]
    function = FOLDS.get(node.op)
    fold = (lambda a, *_: function(a, axis=axes, keepdims=bool(keep))) if function else None
    return [node.result(_without(x.known_shape, axes, keep), x.dtype, fold)]


def arg_reduction(node: Node) -> Sequence[Value]:
    """Infer positions along one axis."""
    x = node.value("data")
    axis = node.axis(len(x.known_shape), "axis") or 0
    return [node.result(_without(x.known_shape, (axis,), node.args.get("keepdims", 1)), "int64")]


def _without(shape: Shape, axes: Sequence[int], keep: int) -> list[Dim]:
    """Return a shape in which axes are removed, or kept with size 1."""
    return [1 if i in axes else d for i, d in enumerate(shape) if keep or i not in axes]


def top_k(node: Node) -> Sequence[Value]:
    """Infer the first k elements along an axis, and their positions."""
    x, k = node.value("X"), node.number("K", "k")
    axis = node.axis(len(x.known_shape), "axis") or 0
    length = x.known_shape[axis]
    if isinstance(k, int) and isinstance(length, int) and k > length:
        raise node.error(f"takes the first {k} of {length}")
    shape = (*x.known_shape[:axis], k, *x.known_shape[axis + 1 :])
    return [node.result(shape, x.dtype), node.result(shape, "int64")]


def nonzero_count(value: Value, read: Dim | None = None) -> int | None:
    """Return the number of nonzero elements, of the first ``read`` of them if given; None if it depends on data."""
    if value.data is None or is_symbolic(read) or any(map(is_symbolic, value.data.flat)):
        return None
    return sum(map(bool, value.data.ravel()[:read]))


def non_zero(node: Node) -> Sequence[Value]:
    """Infer the positions of nonzero elements; their number depends on data."""
    x = node.value("X")
    return [
        node.result(
            (max(len(x.known_shape), 1), nonzero_count(x)), "int64", lambda data: np.nonzero(np.atleast_1d(data))
        )
    ]


def unique(node: Node) -> Sequence[Value]:
    """Infer distinct elements or slices, and three tensors of indices and counts; most sizes depend on data."""
    x = node.value("X")
    axis = node.axis(len(x.known_shape), "axis")
    length = x.size if axis is None else x.known_shape[axis]
    count = length if isinstance(length, int) and length < 2 else None
    shape = (count,) if axis is None else (*x.known_shape[:axis], count, *x.known_shape[axis + 1 :])
    return [node.result(shape, x.dtype), *(node.result((n,), "int64") for n in (count, length, count))]


def non_max_suppression(node: Node) -> Sequence[Value]:
    """Infer triples of batch, class and box; their number depends on data."""
    return [node.result((None, 3), "int64")]


RULES: Mapping[str, Rule] = {
    **{
        f"ai.onnx::Reduce{kind}": reduction
        for kind in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
    },
    "ai.onnx::ArgMax": arg_reduction,
    "ai.onnx::ArgMin": arg_reduction,
    "ai.onnx::CumSum": same_shape,
    "ai.onnx::CumProd": same_shape,
    "ai.onnx::TopK": top_k,
    "ai.onnx::NonZero": non_zero,
    "ai.onnx::Unique": unique,
    "ai.onnx::NonMaxSuppression": non_max_suppression,
}
"""Rules by full operator name."""
