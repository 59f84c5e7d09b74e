"""Rows of losses and of measures of accuracy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costcore.translate import Arguments, Row

from .rows.arguments import X0_X1, X, array, at, constant, gradient, named, row, same_rows, setting

X_TARGET = {"x": at(0), "target": at(1)}
MEANS: Mapping[str, str] = {"MeanAbsoluteError": "l1_loss", "MeanSquaredError": "mse_loss"}
ELEMENTS: Mapping[str, str] = {"AbsoluteError": "l1_loss", "SquaredError": "mse_loss"}
REDUCTIONS: Mapping[str, str] = {
    "no": "none",
    "sum_along_second_axis": "sum",
    "uniform_average": "mean",
    "raw_values": "none",
}


def reduction(args: Arguments) -> str:
    """Chainer's ``reduce``, in the words of all others."""
    given: str = args["function"].reduce
    return REDUCTIONS.get(given, given)


def is_soft(args: Arguments) -> bool:
    """Whether the targets of a cross entropy are probabilities."""
    return bool(args["inputs"][1].dtype.kind == "f")


def class_weight(args: Arguments) -> Any:
    """The weights of the classes, which targets that are probabilities leave aside."""
    return None if is_soft(args) else args["function"].class_weight


ROWS: tuple[Row, ...] = (
    *same_rows(MEANS, X_TARGET, reduction=constant("mean")),
    *same_rows(ELEMENTS, X_TARGET, reduction=constant("none")),
    Row(
        "chainer::SoftmaxCrossEntropy",
        "kl_div_with_logits",
        X_TARGET,
        {"reduction": reduction},
        when=lambda args: is_soft(args) and args["function"].soft_target_loss == "kl-divergence",
    ),
    row("SoftmaxCrossEntropy", "cross_entropy", {**X_TARGET, "w": class_weight}, reduction=reduction),
    row("SigmoidCrossEntropy", "binary_cross_entropy_with_logits", X_TARGET, reduction=reduction),
    row("Hinge", "hinge_loss", X_TARGET, norm=setting("norm"), reduction=reduction),
    row(
        "HingeBackward",
        "hinge_loss_backward",
        {"dy": gradient(0), "x": at(0), "target": at(1)},
        norm=setting("norm"),
        reduction=reduction,
    ),
    row("HuberLoss", "huber_loss", X_TARGET, delta=setting("delta"), reduction=reduction),
    row("Contrastive", "contrastive_loss", named("x0", "x1", "target"), margin=setting("margin"), reduction=reduction),
    row("Triplet", "squared_triplet_loss", named("x0", "x1", "x2"), margin=setting("margin"), reduction=reduction),
    row("CrossCovariance", "cross_covariance", X0_X1, reduction=reduction),
    row("DeCov", "decov_loss", X, reduction=reduction),
    row("DeCovBackward", "decov_loss_backward", {"dy": gradient(0), "x": at(0)}, reduction=reduction),
    row(
        "NegativeSamplingFunction",
        "negative_sampling_loss",
        {**named("x", "target", "w"), "indices": array("samples")},
        reduction=reduction,
    ),
    row(
        "NegativeSamplingFunctionGrad",
        "negative_sampling_loss_backward",
        {"dy": at(2), "x": at(0), "w": at(1), "indices": array("samples")},
        reduction=reduction,
    ),
    row(
        "ConnectionistTemporalClassification",
        "ctc_loss_with_logits",
        {"x": at(3), "target": at(2), "input_lengths": at(0), "target_lengths": at(1)},
        reduction=reduction,
    ),
    row(
        "ConnectionistTemporalClassificationBackward",
        "ctc_loss_with_logits_backward",
        {"dy": gradient(0), "x": at(3), "target": at(2), "input_lengths": at(0), "target_lengths": at(1)},
        reduction=reduction,
    ),
    # measures
    row("Accuracy", "accuracy", X_TARGET, ignore_index=setting("ignore_label")),
    row("BinaryAccuracy", "binary_accuracy", X_TARGET),
    row("ClassificationSummary", "classification_summary", X_TARGET, ignore_index=setting("ignore_label")),
    row("R2_score", "r2_score", X_TARGET, reduction=lambda args: REDUCTIONS[args["function"].multioutput]),
)
