"""Normalizations, reductions and searches, losses, and optimizer steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from costcore.numbers import Dim, is_symbolic
from costcore.translate import Arguments, Row

from ..node import Node, Rule
from ..values import Shape, Undetermined, Value
from . import X, axes_from, axis_of, determined, first_given, first_outputs, flag, node_of, nonzero, same_shape

# Normalizations.


def batch_norm(node: Node) -> Sequence[Value]:
    """Infer the output; in training also the running statistics (and the batch statistics, before opset 14)."""
    x, mean = node.value("X"), node.value("input_mean", "mean")
    return [node.result(x.known_shape, x.dtype), *(node.result(mean.known_shape, mean.dtype) for _ in range(4))]


def layer_norm(node: Node) -> Sequence[Value]:
    """Infer the output, and the mean and inverse standard deviation of each row."""
    x = node.value("X")
    axis = node.axis(len(x.known_shape), "axis") or 0
    rows = (*x.known_shape[:axis], *(1 for _ in x.known_shape[axis:]))
    return [node.result(x.known_shape, x.dtype), node.result(rows, "float32"), node.result(rows, "float32")]


NORMALIZATION_RULES: Mapping[str, Rule] = {
    "ai.onnx::BatchNormalization": batch_norm,
    "ai.onnx::LayerNormalization": layer_norm,
    **{
        f"ai.onnx::{op}": same_shape
        for op in (
            *("GroupNormalization", "InstanceNormalization", "LRN", "LpNormalization", "MeanVarianceNormalization"),
            "RMSNormalization",
        )
    },
}
"""Rules by full operator name."""


def _is_training(a: Arguments) -> bool:
    if node_of(a).version < 7:
        return not a.get("is_test")
    return bool(a.get("training_mode")) or len([o for o in node_of(a).outputs if o is not None]) > 1


def _norm_axes(a: Arguments) -> Any:
    return determined(lambda n: n.axes(len(n.value("X").known_shape), "axes"))(a)


NORMALIZATION_ROWS: tuple[Row, ...] = (
    Row(
        "ai.onnx::BatchNormalization",
        "batch_norm",
        {
            "x": "X",
            "w": "scale",
            "b": "B",
            "mean": first_given("input_mean", "mean"),
            "var": first_given("input_var", "var"),
        },
        {"training": _is_training, "eps": "epsilon"},
        outputs=first_outputs(1),
    ),
    Row(
        "ai.onnx::LayerNormalization",
        "layer_norm",
        {"x": "X", "w": "Scale", "b": "B"},
        {"axis": axes_from("X", 0), "eps": "epsilon"},
    ),
    Row(
        "ai.onnx::RMSNormalization",
        "rms_norm",
        {"x": "X", "w": "scale"},
        {"axis": axes_from("X", 0), "eps": "epsilon"},
    ),
    Row(
        "ai.onnx::GroupNormalization",
        "group_norm",
        {"x": "X", "w": "scale", "b": "bias"},
        {"groups": "num_groups", "eps": "epsilon"},
    ),
    Row(
        "ai.onnx::InstanceNormalization",
        "instance_norm",
        {"x": "input", "w": "scale", "b": "B"},
        {"eps": "epsilon"},
    ),
    Row("ai.onnx::MeanVarianceNormalization", "mean_variance_norm", {"x": "X"}, {"axis": _norm_axes}),
    Row("ai.onnx::LRN", "local_response_norm", {"x": "X"}, {"size": "size"}),
    Row(
        "ai.onnx::LpNormalization",
        lambda a: "l1_normalize" if a.get("p") == 1 else "l2_normalize",
        {"x": "input"},
        {"axis": lambda a: (axis_of("input")(a),)},
        ops=("l1_normalize", "l2_normalize"),
    ),
)


# Reductions, cumulative sums and searches.


FOLDS: Mapping[str, Callable[..., Any]] = {
    "ReduceProd": np.prod,
    "ReduceSum": np.sum,
    "ReduceMax": np.max,
    "ReduceMin": np.min,
}


def reduced_axes(node: Node) -> tuple[int, ...]:
    """Return the axes of a reduction; by default all axes, or no axis with ``noop_with_empty_axes``."""
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
    return [node.result(_reduced_shape(x.known_shape, axes, keep), x.dtype, fold)]


def arg_reduction(node: Node) -> Sequence[Value]:
    """Infer positions along one axis."""
    x = node.value("data")
    axis = node.axis(len(x.known_shape), "axis") or 0
    return [node.result(_reduced_shape(x.known_shape, (axis,), node.args.get("keepdims", 1)), "int64")]


def _reduced_shape(shape: Shape, axes: Sequence[int], keep: int) -> list[Dim]:
    # With ``keep``, the axes stay, of size 1.
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
    """Return the number of nonzero elements among the first ``read`` (all by default); None if it depends on data."""
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


REDUCTION_RULES: Mapping[str, Rule] = {
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


REDUCTIONS: Mapping[str, str] = {
    "L1": "l1",
    "L2": "l2",
    "LogSum": "log_sum",
    "LogSumExp": "log_sum_exp",
    "Max": "max",
    "Mean": "mean",
    "Min": "min",
    "Prod": "prod",
    "Sum": "sum",
    "SumSquare": "sum_square",
}

REDUCTION_ROWS: tuple[Row, ...] = (
    *(
        Row(
            f"ai.onnx::Reduce{kind}",
            f"reduce_{op}",
            X,
            {"axis": determined(reduced_axes), "keepdims": lambda a: bool(a.get("keepdims", 1))},
        )
        for kind, op in REDUCTIONS.items()
    ),
    *(
        Row(
            f"ai.onnx::Arg{kind}",
            f"arg{kind.lower()}",
            X,
            {"axis": lambda a: (axis_of("data")(a),), "keepdims": lambda a: bool(a.get("keepdims", 1))},
        )
        for kind in ("Max", "Min")
    ),
    Row("ai.onnx::CumSum", "cumsum", {"x": "x"}, {"axis": axis_of("x"), "exclusive": flag("exclusive")}),
    Row("ai.onnx::CumProd", "cumprod", {"x": "x"}, {"axis": axis_of("x"), "exclusive": flag("exclusive")}),
    Row(
        "ai.onnx::TopK",
        "topk",
        {"x": "X"},
        {"axis": axis_of("X"), "k": determined(lambda n: n.number("K", "k"))},
        outputs=first_outputs(2),
    ),
    Row(
        "ai.onnx::Unique",
        "unique",
        {"x": "X"},
        {"axis": determined(lambda n: n.axis(len(n.value("X").known_shape), "axis"))},
    ),
    Row("ai.onnx::NonMaxSuppression", "non_max_suppression", {"x0": "boxes", "x1": "scores"}),
    Row("ai.onnx::NonZero", "nonzero", {"x": "X"}),
)


# Losses.


def loss(node: Node) -> Sequence[Value]:
    """Infer the loss, one for each target or one in total, and the log-probabilities."""
    x, target = node.value("scores", "input"), node.value("labels", "target")
    shape = target.known_shape if node.args.get("reduction") == "none" else ()
    return [node.result(shape, x.dtype), node.result(x.known_shape, x.dtype)]


LOSS_RULES: Mapping[str, Rule] = {
    "ai.onnx::NegativeLogLikelihoodLoss": loss,
    "ai.onnx::SoftmaxCrossEntropyLoss": loss,
}
"""Rules by full operator name."""


LOSS_ROWS: tuple[Row, ...] = (
    Row(
        "ai.onnx::NegativeLogLikelihoodLoss",
        "nll_loss",
        {"x": "input", "target": "target", "w": "weight"},
        {"reduction": "reduction"},
    ),
    Row(
        "ai.onnx::SoftmaxCrossEntropyLoss",
        "cross_entropy",
        {"x": "scores", "target": "labels", "w": "weights"},
        {"reduction": "reduction"},
    ),
)


# Optimizer steps.


def optimizer(node: Node) -> Sequence[Value]:
    """Infer the updated parameters and moments; inputs are parameters, gradients, and moments."""
    given = node.values("inputs")
    parts = 4 if node.op == "Adam" else 3
    if len(given) % parts:
        raise node.error(f"has {len(given)} inputs (expected {parts} for each parameter)")
    count = len(given) // parts
    return [node.result(value.known_shape, value.dtype) for value in (*given[:count], *given[2 * count :])]


OPTIMIZER_RULES: Mapping[str, Rule] = {
    **{f"ai.onnx.preview.training::{op}": optimizer for op in ("Adagrad", "Adam", "Momentum")},
}
"""Rules by full operator name."""


OPTIMIZERS = {
    "Adagrad": lambda a: "adagrad_step",
    "Adam": lambda a: "adam_step",
    "Momentum": lambda a: "nesterov_step" if a.get("mode") == "nesterov" else "momentum_step",
}

STEPS = {
    "Adagrad": ("adagrad_step",),
    "Adam": ("adam_step",),
    "Momentum": ("momentum_step", "nesterov_step"),
}

OPTIMIZER_ROWS: tuple[Row, ...] = (
    *(
        Row(
            f"ai.onnx.preview.training::{native}",
            op,
            {"x*": "inputs"},
            {"weight_decay": nonzero("norm_coefficient"), "weight_decay_after": nonzero("norm_coefficient_post")},
            ops=STEPS[native],
        )
        for native, op in OPTIMIZERS.items()
    ),
)


ROWS: tuple[Row, ...] = (*NORMALIZATION_ROWS, *LOSS_ROWS, *OPTIMIZER_ROWS, *REDUCTION_ROWS)


RULES: Mapping[str, Rule] = {**NORMALIZATION_RULES, **REDUCTION_RULES, **LOSS_RULES, **OPTIMIZER_RULES}
