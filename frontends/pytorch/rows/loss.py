"""Rows of losses and their gradients."""

from __future__ import annotations

from costcore.translate import Arguments, Row, Source

from ..operators.saved_for_backward import is_differentiated
from ..tensors import dtype_name
from .arguments import as_data, first_output, non_default, reduction


def _loss(names: str, op: str, inputs: dict[str, Source], attrs: dict[str, Source] | None = None) -> tuple[Row, ...]:
    attributes: dict[str, Source] = {"reduction": reduction, **(attrs or {})}
    return tuple(Row(f"aten::{name}", op, inputs, attributes, outputs=first_output) for name in names.split())


_TARGET: dict[str, Source] = {"x": "self", "target": "target"}
_WEIGHT: dict[str, Source] = {"w": as_data("weight")}
_WEIGHTED: dict[str, Source] = {**_TARGET, **_WEIGHT}
_REDUCTION: dict[str, Source] = {"reduction": reduction}


def _saved_probabilities(args: Arguments) -> str | None:
    """Return the dtype of the log-probabilities that cross entropy keeps for its backward pass."""
    return dtype_name(args["self"].dtype) if is_differentiated(args["self"]) else None


FORWARD = (
    *_loss(
        "cross_entropy_loss",
        "cross_entropy",
        _WEIGHTED,
        {"label_smoothing": non_default("label_smoothing", 0), "saved": _saved_probabilities},
    ),
    *_loss("nll_loss nll_loss_nd nll_loss_forward nll_loss2d nll_loss2d_forward", "nll_loss", _WEIGHTED),
    *_loss("mse_loss", "mse_loss", _TARGET),
    *_loss("l1_loss", "l1_loss", _TARGET),
    *_loss("smooth_l1_loss", "smooth_l1_loss", _TARGET, {"beta": "beta"}),
    *_loss("huber_loss", "huber_loss", _TARGET, {"delta": "delta"}),
    *_loss("kl_div", "kl_div", _TARGET, {"log_target": "log_target"}),
    *_loss("binary_cross_entropy", "binary_cross_entropy", _WEIGHTED),
    *_loss(
        "binary_cross_entropy_with_logits",
        "binary_cross_entropy_with_logits",
        {**_WEIGHTED, "pos_weight": as_data("pos_weight")},
    ),
    *_loss(
        "poisson_nll_loss",
        "poisson_nll_loss",
        {"x": "input", "target": "target"},
        {"log_input": "log_input", "full": "full"},
    ),
    *_loss("margin_ranking_loss", "margin_ranking_loss", {"x0": "input1", "x1": "input2", "target": "target"}),
    *_loss("cosine_embedding_loss", "cosine_embedding_loss", {"x0": "input1", "x1": "input2", "target": "target"}),
    *_loss("hinge_embedding_loss", "hinge_embedding_loss", _TARGET),
    *_loss("soft_margin_loss", "soft_margin_loss", _TARGET),
    Row("aten::multi_margin_loss", "multi_margin_loss", _WEIGHTED, {**_REDUCTION, "p": non_default("p", 1)}),
    Row("aten::multilabel_margin_loss_forward", "multilabel_margin_loss", _TARGET, _REDUCTION),
    *_loss(
        "triplet_margin_loss",
        "triplet_margin_loss",
        {"x0": "anchor", "x1": "positive", "x2": "negative"},
        {"swap": "swap", "p": non_default("p", 2)},
    ),
    *_loss("ctc_loss _ctc_loss", "ctc_loss", {"x": "log_probs", "target": "targets"}),
)

_GRADIENT: dict[str, Source] = {"dy": "grad_output", **_TARGET}

GRADIENTS = (
    *(
        Row(f"aten::{name}_backward", f"{name}_backward", _GRADIENT, _REDUCTION)
        for name in ("mse_loss", "soft_margin_loss")
    ),
    Row("aten::smooth_l1_loss_backward", "smooth_l1_loss_backward", _GRADIENT, {**_REDUCTION, "beta": "beta"}),
    Row("aten::huber_loss_backward", "huber_loss_backward", _GRADIENT, {**_REDUCTION, "delta": "delta"}),
    Row("aten::binary_cross_entropy_backward", "binary_cross_entropy_backward", {**_GRADIENT, **_WEIGHT}, _REDUCTION),
    *(
        Row(f"aten::{name}", "nll_loss_backward", {"dy": "grad_output", "target": "target", **_WEIGHT}, _REDUCTION)
        for name in ("nll_loss_backward", "nll_loss2d_backward")
    ),
    Row(
        "aten::multi_margin_loss_backward",
        "multi_margin_loss_backward",
        {**_GRADIENT, **_WEIGHT},
        {**_REDUCTION, "p": non_default("p", 1)},
    ),
    Row(
        "aten::multilabel_margin_loss_backward",
        "multilabel_margin_loss_backward",
        {**_GRADIENT, "is_target": "is_target"},
        _REDUCTION,
    ),
    Row(
        "aten::_ctc_loss_backward",
        "ctc_loss_backward",
        {"dy": "grad", "x": "log_probs", "target": "targets", "loss": "neg_log_likelihood", "alpha": "log_alpha"},
    ),
)

ROWS = (*FORWARD, *GRADIENTS)
