"""Rows of normalization, losses, accuracies, reductions and cumulative functions, and of their gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costcore.translate import Arguments, Row, Source

from ..arrays import (
    X0_X1,
    X_DY,
    Reshaped,
    X,
    array_attribute,
    array_of,
    attribute,
    axes,
    axis,
    constant,
    input_at,
    operands,
    output_gradient,
    row,
    rows_by_name,
    with_saved_array,
)

XWB = operands("x", "w", "b")

EPS = attribute("eps")

GROUPS = attribute("groups")

INVERSE_STD = array_attribute("inv_std")

ALL_GRADIENTS = constant(("x", "w", "b"))

NORMALIZATION_ROWS: tuple[Row, ...] = (
    row(
        "BatchNormalization",
        "batch_norm",
        {**XWB, "mean": array_attribute("running_mean"), "var": array_attribute("running_var")},
        training=constant(True),
        eps=EPS,
    ),
    row(
        "FixedBatchNormalization",
        "batch_norm",
        operands("x", "w", "b", "mean", "var"),
        training=constant(False),
        eps=EPS,
    ),
    row(
        "BatchRenormalizationFunction",
        "batch_renorm",
        {**XWB, "mean": array_attribute("_running_mean"), "var": array_attribute("_running_var")},
        eps=EPS,
    ),
    row(
        "DecorrelatedBatchNormalization",
        "decorrelated_batch_norm",
        {**X, "mean": array_attribute("running_mean"), "projection": array_attribute("running_projection")},
        groups=GROUPS,
    ),
    row(
        "FixedDecorrelatedBatchNormalization",
        "fixed_decorrelated_batch_norm",
        operands("x", "mean", "projection"),
        groups=GROUPS,
    ),
    row("GroupNormalization", "group_norm", XWB, groups=GROUPS, eps=EPS),
    row("LayerNormalization", "layer_norm", XWB, axis=constant((1,)), eps=EPS),
    row("LocalResponseNormalization", "local_response_norm", X, size=attribute("n")),
    row("NormalizeL2", "l2_normalize", X, axis=axes, eps=EPS),
    # gradients
    row(
        "BatchNormalizationGrad",
        "batch_norm_backward",
        operands("x", "w", "dy"),
        training=constant(True),
        needs=ALL_GRADIENTS,
    ),
    row(
        "FixedBatchNormalizationGrad",
        "batch_norm_backward",
        operands("x", "w", "mean", "var", "dy"),
        training=constant(False),
        needs=ALL_GRADIENTS,
    ),
    row(
        "BatchRenormalizationFunctionBackward",
        "batch_renorm_backward",
        {"dy": output_gradient(0), "x": input_at(0), "w": input_at(1)},
    ),
    row(
        "DecorrelatedBatchNormalizationGrad",
        "decorrelated_batch_norm_backward",
        {
            "dy": input_at(0),
            "values": array_attribute("eigvals"),
            "vectors": array_attribute("eigvectors"),
            "y": array_attribute("y_hat_pca"),
        },
        groups=GROUPS,
    ),
    row(
        "FixedDecorrelatedBatchNormalizationGrad",
        "fixed_decorrelated_batch_norm_backward",
        {"dy": input_at(3), "x": input_at(0), "mean": input_at(1), "projection": input_at(2)},
        groups=GROUPS,
    ),
    row(
        "LocalResponseNormalizationGrad",
        "local_response_norm_backward",
        {
            "dy": input_at(2),
            "x": input_at(0),
            "y": input_at(1),
            "u": array_attribute("unit_scale"),
            "scale": array_attribute("scale"),
        },
        size=attribute("n"),
    ),
    # the backward pass of group normalization consists of these functions
    row(
        "_XHat",
        "normalize_rows",
        {"x": input_at(0), "mean": array_attribute("mean"), "scale": INVERSE_STD},
    ),
    row("_ScaleShiftGrad", "scale_shift_backward", {"dy": input_at(2), "x": input_at(0), "w": input_at(1)}),
    # input 0, x, stands for the normalized x of the same size, which the function has released after it ran
    row(
        "_XHatGrad",
        "normalize_rows_backward",
        {"dy": input_at(1), "y": input_at(0), "scale": INVERSE_STD},
    ),
)


# Losses and accuracies.


X_TARGET = operands("x", "target")

MEANS: Mapping[str, str] = {"MeanAbsoluteError": "l1_loss", "MeanSquaredError": "mse_loss"}

ELEMENTWISE: Mapping[str, str] = {"AbsoluteError": "l1_loss", "SquaredError": "mse_loss"}

LOSS_REDUCTIONS: Mapping[str, str] = {
    "no": "none",
    "sum_along_second_axis": "sum",
    "uniform_average": "mean",
    "raw_values": "none",
}

CTC = {"x": input_at(3), "target": input_at(2), "input_lengths": input_at(0), "target_lengths": input_at(1)}


def reduction(args: Arguments) -> str:
    """Translate Chainer's ``reduce`` into the value that every frontend uses."""
    given: str = args["function"].reduce
    return LOSS_REDUCTIONS.get(given, given)


def is_soft(args: Arguments) -> bool:
    """Return True if the targets of a cross entropy are probabilities."""
    return bool(args["inputs"][1].dtype.kind == "f")


def is_kl_divergence(args: Arguments) -> bool:
    """Return True if softmax cross entropy computes the divergence from target probabilities."""
    return is_soft(args) and bool(args["function"].soft_target_loss == "kl-divergence")


def class_weight(args: Arguments) -> Any:
    """Return the class weights; Chainer ignores them if the targets are probabilities."""
    return None if is_soft(args) else args["function"].class_weight


def probabilities(args: Arguments) -> Any:
    """Return the probabilities that softmax cross entropy saved, or the logits to compute them from."""
    saved = args["function"].y
    return args["inputs"][0] if saved is None else saved


def on_paths(name: str) -> Source:
    """Read the part of an attribute of hierarchical softmax that belongs to the paths of all targets."""

    def read(args: Arguments) -> Reshaped:
        function, targets = args["function"], array_of(args["inputs"][1])
        length = (function.begins[targets + 1] - function.begins[targets]).sum()
        return Reshaped(getattr(function, name), (int(length),))

    return read


PATHS = {**operands("x", "target", "w"), "indices": on_paths("paths"), "codes": on_paths("codes")}

LOSS_ROWS: tuple[Row, ...] = (
    *rows_by_name(MEANS, X_TARGET, reduction=constant("mean")),
    *rows_by_name(ELEMENTWISE, X_TARGET, reduction=constant("none")),
    Row(
        "chainer::SoftmaxCrossEntropy",
        "kl_div_with_logits",
        X_TARGET,
        {"reduction": reduction},
        when=is_kl_divergence,
    ),
    Row(
        "chainer::SoftmaxCrossEntropy",
        "cross_entropy",
        {**X_TARGET, "w": class_weight},
        {"reduction": reduction},
        outputs=with_saved_array("y"),
    ),
    row("SigmoidCrossEntropy", "binary_cross_entropy_with_logits", X_TARGET, reduction=reduction),
    row("Hinge", "hinge_loss", X_TARGET, norm=attribute("norm"), reduction=reduction),
    row("HuberLoss", "huber_loss", X_TARGET, delta=attribute("delta"), reduction=reduction),
    row(
        "Contrastive",
        "contrastive_loss",
        operands("x0", "x1", "target"),
        margin=attribute("margin"),
        reduction=reduction,
    ),
    row("Triplet", "squared_triplet_loss", operands("x0", "x1", "x2"), margin=attribute("margin"), reduction=reduction),
    row("CrossCovariance", "cross_covariance", X0_X1, reduction=reduction),
    row("DeCov", "decov_loss", X, reduction=reduction),
    row(
        "NegativeSamplingFunction",
        "negative_sampling_loss",
        {**operands("x", "target", "w"), "indices": array_attribute("samples")},
        reduction=reduction,
    ),
    row("ConnectionistTemporalClassification", "ctc_loss_with_logits", CTC, reduction=reduction),
    row("BinaryHierarchicalSoftmaxFunction", "hierarchical_softmax_loss", PATHS),
    # gradients
    row(
        "HingeBackward",
        "hinge_loss_backward",
        {"dy": output_gradient(0), "x": input_at(0), "target": input_at(1)},
        norm=attribute("norm"),
        reduction=reduction,
    ),
    row("DeCovBackward", "decov_loss_backward", {"dy": output_gradient(0), "x": input_at(0)}, reduction=reduction),
    row(
        "SigmoidCrossEntropyGrad",
        "binary_cross_entropy_with_logits_backward",
        {**X_DY, "target": array_attribute("t")},
        reduction=reduction,
    ),
    row(
        "_SoftmaxCrossEntropyGrad_NoDoubleBackprop",
        "cross_entropy_backward",
        {"y": probabilities, "target": input_at(1), "dy": input_at(2)},
    ),
    row(
        "NegativeSamplingFunctionGrad",
        "negative_sampling_loss_backward",
        {"dy": input_at(2), "x": input_at(0), "w": input_at(1), "indices": array_attribute("samples")},
        reduction=reduction,
    ),
    row(
        "ConnectionistTemporalClassificationBackward",
        "ctc_loss_with_logits_backward",
        {"dy": output_gradient(0), **CTC},
        reduction=reduction,
    ),
    row(
        "BinaryHierarchicalSoftmaxFunctionBackward",
        "hierarchical_softmax_loss_backward",
        {"dy": output_gradient(0), **PATHS},
    ),
    # measures
    row("Accuracy", "accuracy", X_TARGET, ignore_index=attribute("ignore_label")),
    row("BinaryAccuracy", "binary_accuracy", X_TARGET),
    row("ClassificationSummary", "classification_summary", X_TARGET, ignore_index=attribute("ignore_label")),
    row("R2_score", "r2_score", X_TARGET, reduction=lambda args: LOSS_REDUCTIONS[args["function"].multioutput]),
)


# Reductions, and cumulative sums, products and recurrences.


REDUCTIONS: Mapping[str, str] = {
    "LogSumExp": "reduce_log_sum_exp",
    "Max": "reduce_max",
    "Mean": "reduce_mean",
    "Min": "reduce_min",
    "Prod": "reduce_prod",
    "Sum": "reduce_sum",
}

INDEX_REDUCTIONS: Mapping[str, str] = {"ArgMax": "argmax", "ArgMin": "argmin"}

CUMULATIVE: Mapping[str, str] = {"Cumprod": "cumprod", "Cumsum": "cumsum"}


def summed_axes(args: Arguments) -> tuple[int, ...]:
    """Return the axes that ``F.sum_to``, the reverse of broadcasting, sums over."""
    shape, target = args["inputs"][0].shape, args["function"]._shape
    lead = len(shape) - len(target)
    return (*range(lead), *(lead + i for i, size in enumerate(target) if size == 1 != shape[lead + i]))


def all_but_first_axis(args: Arguments) -> tuple[int, ...]:
    """Return all axes but the first."""
    return tuple(range(1, args["inputs"][0].ndim))


def flattened_without_axis(args: Arguments) -> Any:
    """Return the input, flattened if the function has no axis."""
    x = args["inputs"][0]
    return x if args["function"].axis is not None else Reshaped(x, (x.size,))


REDUCTION_ROWS: tuple[Row, ...] = (
    *rows_by_name(REDUCTIONS, X, axis=axes, keepdims=attribute("keepdims")),
    *rows_by_name(INDEX_REDUCTIONS, X, axis=axes, keepdims=constant(False)),
    *rows_by_name(CUMULATIVE, {"x": flattened_without_axis}, axis=lambda args: axis(args) or 0),
    row("SumTo", "reduce_sum", X, axis=summed_axes, keepdims=constant(True)),
    row("BatchL2NormSquared", "reduce_sum_square", X, axis=all_but_first_axis),
    row("Cumprodsum", "linear_recurrence", {"x0": input_at(1), "x1": input_at(0)}, axis=attribute("axis")),
    # gradients
    row("BatchL2NormSquaredGrad", "reduce_sum_square_backward", X_DY),
)


ROWS: tuple[Row, ...] = (*NORMALIZATION_ROWS, *LOSS_ROWS, *REDUCTION_ROWS)
