"""Shapes of reductions and normalisations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from costcore.dims import Dim

from ..node import Node
from ..values.value import Shape, Undetermined, Value

FOLDS: Mapping[str, Callable[..., Any]] = {
    "ReduceProd": np.prod,
    "ReduceSum": np.sum,
    "ReduceMax": np.max,
    "ReduceMin": np.min,
}


def reduced_axes(node: Node) -> tuple[int, ...]:
    """The axes a reduction goes over: all where none is named, unless it says that none means none."""
    rank = len(node.value("data").known)
    axes = node.axes(rank, "axes")
    if axes:
        return axes
    return () if node.args.get("noop_with_empty_axes") else tuple(range(rank))


def reduction(node: Node) -> Sequence[Value]:
    """Axes go, or stay with length 1; where only data tells which and they stay, at least the rank is known."""
    x, keep = node.value("data"), node.args.get("keepdims", 1)
    try:
        axes = reduced_axes(node)
    except Undetermined:
        if not keep:
            raise
        return [node.result((None,) * len(x.known), x.dtype)]
    function = FOLDS.get(node.op)
    fold = (lambda a, *_: function(a, axis=axes, keepdims=bool(keep))) if function else None
    return [node.result(_without(x.known, axes, keep), x.dtype, fold)]


def arg_reduction(node: Node) -> Sequence[Value]:
    """Places along one axis."""
    x = node.value("data")
    axis = node.axis(len(x.known), "axis") or 0
    return [node.result(_without(x.known, (axis,), node.args.get("keepdims", 1)), "int64")]


def _without(shape: Shape, axes: Sequence[int], keep: int) -> list[Dim]:
    return [1 if i in axes else d for i, d in enumerate(shape) if keep or i not in axes]


def batch_norm(node: Node) -> Sequence[Value]:
    """The output; in training the running statistics as well (and, before opset 14, those of the batch)."""
    x, mean = node.value("X"), node.value("input_mean", "mean")
    return [node.result(x.known, x.dtype), *(node.result(mean.known, mean.dtype) for _ in range(4))]


def layer_norm(node: Node) -> Sequence[Value]:
    """The output; mean and 1/deviation of every row on demand."""
    x = node.value("X")
    axis = node.axis(len(x.known), "axis") or 0
    rows = (*x.known[:axis], *(1 for _ in x.known[axis:]))
    return [node.result(x.known, x.dtype), node.result(rows, "float32"), node.result(rows, "float32")]


RULES = {
    **{
        f"Reduce{kind}": reduction
        for kind in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
    },
    "ArgMax": arg_reduction,
    "ArgMin": arg_reduction,
    "BatchNormalization": batch_norm,
    "LayerNormalization": layer_norm,
}
