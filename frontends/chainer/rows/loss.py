"""Rows of losses, their gradients, and measures of accuracy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costcore.translate import Arguments, Row, Source

from ..arrays import Reshaped, array_of
from .arguments import (
    X0_X1,
    X_DY,
    X,
    array_attribute,
    attribute,
    constant,
    input_at,
    operands,
    output_gradient,
    row,
    rows_by_name,
    with_saved_array,
)

X_TARGET = operands("x", "target")
MEANS: Mapping[str, str] = {"MeanAbsoluteError": "l1_loss", "MeanSquaredError": "mse_loss"}
ELEMENTWISE: Mapping[str, str] = {"AbsoluteError": "l1_loss", "SquaredError": "mse_loss"}
REDUCTIONS: Mapping[str, str] = {
    "no": "none",
    "sum_along_second_axis": "sum",
    "uniform_average": "mean",
    "raw_values": "none",
}
CTC = {"x": input_at(3), "target": input_at(2), "input_lengths": input_at(0), "target_lengths": input_at(1)}


def reduction(args: Arguments) -> str:
    """Translate Chainer's ``reduce`` into the value that every frontend uses."""
    given: str = args["function"].reduce
    return REDUCTIONS.get(given, given)


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

ROWS: tuple[Row, ...] = (
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
    row("R2_score", "r2_score", X_TARGET, reduction=lambda args: REDUCTIONS[args["function"].multioutput]),
)
