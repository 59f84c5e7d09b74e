"""Rows of normalizations, losses and reductions, of their gradients, and of fused optimizer steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from costcore.translate import Arguments, Row, Source

from ..operators.plan import any_is_differentiated, is_differentiated, statistics_dtype
from ..tensors import dtype_name
from .arguments import (
    X,
    as_data,
    axes,
    axis,
    constant,
    first_output,
    needed_gradients,
    non_default,
    normalized_axes,
    reduction,
    rows_by_name,
    tensor_or_number,
    tensors_in,
)

_WEIGHT_BIAS: dict[str, Source] = {"w": "weight", "b": "bias"}

_RUNNING: dict[str, Source] = {"mean": "running_mean", "var": "running_var"}


def _saved(args: Arguments) -> str | None:
    # A norm keeps mean and deviation for its backward pass.
    x, weight = args["input"], args.get("weight")
    if not any_is_differentiated(x, weight, args.get("bias")):
        return None
    return statistics_dtype(x, weight)


def _saved_in_training(args: Arguments) -> str | None:
    # In inference, the statistics are given.
    in_training = args.get("training", args.get("train", args.get("use_input_stats")))
    return _saved(args) if in_training else None


BATCH_NORM = (
    *(
        Row(
            f"aten::{name}",
            "batch_norm",
            {"x": "input", **_WEIGHT_BIAS, **_RUNNING},
            {
                "training": lambda args: bool(args.get("training", args.get("train", False))),
                "eps": "eps",
                "saved": _saved_in_training,
            },
            outputs=first_output,
        )
        for name in (
            "batch_norm",
            "native_batch_norm",
            "_native_batch_norm_legit",
            "_native_batch_norm_legit_no_training",
        )
    ),
    *(
        Row(
            f"aten::{name}",
            "batch_norm",
            {"x": "input", **_WEIGHT_BIAS, **_RUNNING},
            {"training": "training", "eps": "epsilon"},
            outputs=first_output,
        )
        for name in ("cudnn_batch_norm", "miopen_batch_norm")
    ),
    *(
        Row(
            f"aten::{name}",
            "batch_norm",
            {"x": "input", **_WEIGHT_BIAS, **_RUNNING},
            {"training": constant(training), "eps": "eps"},
            outputs=first_output,
        )
        for name, training in (
            ("_batch_norm_with_update", True),
            ("_batch_norm_no_update", False),
            ("_batch_norm_with_update_functional", True),
            ("_native_batch_norm_legit_functional", True),
        )
    ),
    Row(
        "aten::instance_norm",
        lambda args: "instance_norm" if args["use_input_stats"] else "batch_norm",
        {"x": "input", **_WEIGHT_BIAS, **_RUNNING},
        {
            "training": lambda args: None if args["use_input_stats"] else False,
            "eps": "eps",
            "saved": _saved_in_training,
        },
        ops=("instance_norm", "batch_norm"),
    ),
)

LAYER_AND_GROUP_NORM = (
    *(
        Row(
            f"aten::{name}",
            "layer_norm",
            {"x": "input", **_WEIGHT_BIAS},
            {"axis": normalized_axes, "eps": "eps", "saved": _saved},
            outputs=first_output,
        )
        for name in ("layer_norm", "native_layer_norm")
    ),
    *(
        Row(
            f"aten::{name}",
            "rms_norm",
            {"x": "input", "w": "weight"},
            {"axis": normalized_axes, "eps": "eps"},
            outputs=first_output,
        )
        for name in ("rms_norm", "_fused_rms_norm")
    ),
    Row(
        "aten::group_norm",
        "group_norm",
        {"x": "input", **_WEIGHT_BIAS},
        {"groups": "num_groups", "eps": "eps", "saved": _saved},
    ),
    Row(
        "aten::native_group_norm",
        "group_norm",
        {"x": "input", **_WEIGHT_BIAS},
        {"groups": "group", "eps": "eps", "saved": _saved},
        outputs=first_output,
    ),
)


def _with_norms(args: Arguments, outputs: Sequence[Any]) -> Sequence[Any]:
    # The norms are for a backward pass.
    return outputs if any_is_differentiated(args["v"], args["g"]) else outputs[:1]


WEIGHT_NORM = (
    Row(
        "aten::_weight_norm_interface",
        "weight_norm",
        {"w0": "v", "w1": "g"},
        {"axis": "dim"},
        outputs=_with_norms,
    ),
)

PYTHON_FUNCTIONS = (
    Row(
        "torch.nn.functional::normalize",
        lambda args: "l1_normalize" if args["p"] == 1 else "l2_normalize",
        {"x": "input"},
        {"axis": axes(), "eps": "eps"},
        ops=("l1_normalize", "l2_normalize"),
    ),
    Row("torch.nn.functional::local_response_norm", "local_response_norm", {"x": "input"}, {"size": "size"}),
)

RENORM = (
    *(
        Row(f"aten::{name}", "renorm_rows", {"w": "self", "x": "indices"}, {"p": non_default("norm_type", 2)})
        for name in ("embedding_renorm", "embedding_renorm_")
    ),
    Row(
        "aten::renorm",
        "renorm",
        {"x": "self"},
        {"p": non_default("p", 2), "axis": lambda args: int(args["dim"]) % args["self"].dim()},
    ),
)

_DY_X_W: dict[str, Source] = {"dy": "grad_out", "x": "input", "w": "weight"}

_NEEDED: dict[str, Source] = {"needs": needed_gradients("x", "w", "b")}

_SAVED: dict[str, Source] = {"mean": "save_mean", "var": "save_var"}


def _in_training(args: Arguments) -> bool:
    return bool(args["train"])


def _uses_batch_statistics(args: Arguments) -> bool:
    return bool(args["update"])


def _batch_norm_backward(native: str, inputs: dict[str, Source], training: bool, **options: Any) -> Row:
    return Row(f"aten::{native}", "batch_norm_backward", inputs, {"training": constant(training), **_NEEDED}, **options)


NORMALIZATION_GRADIENTS = (
    Row(
        "aten::native_layer_norm_backward",
        "layer_norm_backward",
        {**_DY_X_W, "b": "bias", "mean": "mean", "var": "rstd"},
        {"axis": normalized_axes, **_NEEDED},
    ),
    Row(
        "aten::native_group_norm_backward",
        "group_norm_backward",
        {**_DY_X_W, "mean": "mean", "var": "rstd"},
        {"groups": "group", **_NEEDED},
    ),
    Row(
        "aten::_fused_rms_norm_backward",
        "rms_norm_backward",
        {**_DY_X_W, "var": "rstd"},
        {"axis": normalized_axes, "needs": needed_gradients("x", "w")},
    ),
    _batch_norm_backward(
        "native_batch_norm_backward",
        {**_DY_X_W, "mean": "save_mean", "var": "save_invstd"},
        True,
        when=_in_training,
    ),
    _batch_norm_backward("native_batch_norm_backward", {**_DY_X_W, **_RUNNING}, False),
    _batch_norm_backward("batch_norm_backward", {**_DY_X_W, **_SAVED}, True, when=_uses_batch_statistics),
    _batch_norm_backward("batch_norm_backward", {**_DY_X_W, **_RUNNING}, False),
    *(
        _batch_norm_backward(name, {**_DY_X_W, "dy": "grad_output", **_SAVED}, True)
        for name in ("cudnn_batch_norm_backward", "miopen_batch_norm_backward")
    ),
    Row(
        "aten::_weight_norm_interface_backward",
        "weight_norm_backward",
        {"dy": "grad_w", "w0": "saved_v", "w1": "saved_g", "norms": "saved_norms"},
        {"axis": "dim"},
    ),
)

NORMALIZATION_ROWS = (
    *BATCH_NORM,
    *LAYER_AND_GROUP_NORM,
    *WEIGHT_NORM,
    *PYTHON_FUNCTIONS,
    *RENORM,
    *NORMALIZATION_GRADIENTS,
)


# Losses and their gradients


def _loss(names: str, op: str, inputs: dict[str, Source], attrs: dict[str, Source] | None = None) -> tuple[Row, ...]:
    attributes: dict[str, Source] = {"reduction": reduction, **(attrs or {})}
    return tuple(Row(f"aten::{name}", op, inputs, attributes, outputs=first_output) for name in names.split())


_TARGET: dict[str, Source] = {"x": "self", "target": "target"}

_WEIGHT: dict[str, Source] = {"w": as_data("weight")}

_WEIGHTED: dict[str, Source] = {**_TARGET, **_WEIGHT}

_REDUCTION: dict[str, Source] = {"reduction": reduction}


def _saved_probabilities(args: Arguments) -> str | None:
    # Cross entropy keeps log-probabilities for its backward pass.
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

_LOSS_GRADIENT: dict[str, Source] = {"dy": "grad_output", **_TARGET}

LOSS_GRADIENTS = (
    *(
        Row(f"aten::{name}_backward", f"{name}_backward", _LOSS_GRADIENT, _REDUCTION)
        for name in ("mse_loss", "soft_margin_loss")
    ),
    Row("aten::smooth_l1_loss_backward", "smooth_l1_loss_backward", _LOSS_GRADIENT, {**_REDUCTION, "beta": "beta"}),
    Row("aten::huber_loss_backward", "huber_loss_backward", _LOSS_GRADIENT, {**_REDUCTION, "delta": "delta"}),
    Row(
        "aten::binary_cross_entropy_backward",
        "binary_cross_entropy_backward",
        {**_LOSS_GRADIENT, **_WEIGHT},
        _REDUCTION,
    ),
    *(
        Row(f"aten::{name}", "nll_loss_backward", {"dy": "grad_output", "target": "target", **_WEIGHT}, _REDUCTION)
        for name in ("nll_loss_backward", "nll_loss2d_backward")
    ),
    Row(
        "aten::multi_margin_loss_backward",
        "multi_margin_loss_backward",
        {**_LOSS_GRADIENT, **_WEIGHT},
        {**_REDUCTION, "p": non_default("p", 1)},
    ),
    Row(
        "aten::multilabel_margin_loss_backward",
        "multilabel_margin_loss_backward",
        {**_LOSS_GRADIENT, "is_target": "is_target"},
        _REDUCTION,
    ),
    Row(
        "aten::_ctc_loss_backward",
        "ctc_loss_backward",
        {"dy": "grad", "x": "log_probs", "target": "targets", "loss": "neg_log_likelihood", "alpha": "log_alpha"},
    ),
)

LOSS_ROWS = (*FORWARD, *LOSS_GRADIENTS)


# Reductions, cumulative operators, sorting, searching, histograms, comparisons of whole tensors


_AXES: dict[str, Source] = {"axis": axes(), "keepdims": "keepdim"}


def _norm_by_order(name: str) -> Any:
    ops_by_order = {1: "reduce_l1", 2: "reduce_l2", float("inf"): "reduce_linf"}

    def op(args: Arguments) -> str:
        order = args.get(name)
        return ops_by_order.get(2 if order is None else order, "reduce_lp")

    return op


_NORM_OPS = ("reduce_l1", "reduce_l2", "reduce_linf", "reduce_lp")

REDUCTIONS = (
    *rows_by_name(
        "sum=reduce_sum nansum=reduce_nansum mean=reduce_mean prod=reduce_prod amax=reduce_max amin=reduce_min "
        "max=reduce_max min=reduce_min all=reduce_all any=reduce_any argmax argmin logsumexp=reduce_log_sum_exp "
        "aminmax=min_max",
        X,
        _AXES,
    ),
    Row("aten::_aminmax", "min_max", X, {"axis": axes()}),
    Row("aten::count_nonzero", "count_nonzero", X, {"axis": axes()}),
    *rows_by_name("var std var_mean std_mean", X, {**_AXES, "correction": "correction"}),
    Row("aten::linalg_vector_norm", _norm_by_order("ord"), X, {**_AXES, "p": "ord"}, ops=_NORM_OPS),
    Row("aten::norm", _norm_by_order("p"), X, {**_AXES, "p": "p"}, ops=_NORM_OPS),
    Row("aten::hash_tensor", "reduce_xor", X, {"axis": axes()}),
    Row("aten::trace", "trace", X),
)

CUMULATIVE = tuple(
    rows_by_name(
        "cumsum cumprod cummax cummin logcumsumexp _cummax_helper=cummax _cummin_helper=cummin "
        "_logcumsumexp=logcumsumexp",
        X,
        {"axis": axis()},
    )
)

SORTING_AND_SEARCHING = (
    *rows_by_name("sort argsort", X, {"axis": axis()}),
    Row("aten::topk", "topk", X, {"axis": axis(), "k": "k"}),
    Row("aten::kthvalue", "kth_value", X, {"axis": axis(), "k": "k"}),
    *(
        row
        for name in ("median", "nanmedian")
        for row in (Row(f"aten::{name}.dim", "median", X, {"axis": axis()}), Row(f"aten::{name}", "median", X))
    ),
    Row("aten::mode", "mode", X, {"axis": axis()}),
    *rows_by_name("_unique _unique2 unique_consecutive unique_dim unique_dim_consecutive", X, op="unique"),
    *rows_by_name("nonzero nonzero_static", X, op="nonzero"),
    *rows_by_name("bincount=bin_count histc=histogram", X),
    Row(
        "aten::searchsorted",
        "search_sorted",
        {"x": tensor_or_number("self"), "sorted": "sorted_sequence", "sorter": "sorter"},
    ),
    Row("aten::bucketize", "search_sorted", {"x": tensor_or_number("self"), "sorted": "boundaries"}),
    Row("aten::isin", "is_in", {"x": tensor_or_number("elements"), "values": tensor_or_number("test_elements")}),
    Row("aten::isin.Scalar_Tensor", "is_in", {"x": tensor_or_number("element"), "values": "test_elements"}),
    Row("aten::isin.Tensor_Scalar", "is_in", {"x": "elements", "values": tensor_or_number("test_element")}),
)


def _bin_counts(name: str) -> Source:
    def bins(args: Arguments) -> tuple[int, ...]:
        value = args[name]
        if isinstance(value, int):
            return (value,)
        edges = [value] if isinstance(value, torch.Tensor) else value
        return tuple(each if isinstance(each, int) else each.numel() - 1 for each in edges)

    return bins


def _edges(args: Arguments) -> list[Any]:
    return [args["bins"]] if isinstance(args["bins"], torch.Tensor) else list(args["bins"])


def _histogram(native: str, equal_widths: bool) -> Row:
    edges: dict[str, Source] = {} if equal_widths else {"edges*": _edges}
    return Row(
        f"aten::{native}",
        "binned_histogram",
        {"x": "self", **edges, "weights": "weight"},
        {"bins": _bin_counts("bins"), "equal": constant(equal_widths), "density": non_default("density", False)},
    )


HISTOGRAMS = (
    _histogram("histogram.bin_ct", equal_widths=True),
    _histogram("histogram.bins_tensor", equal_widths=False),
    _histogram("_histogramdd_from_bin_cts", equal_widths=True),
    _histogram("_histogramdd_from_bin_tensors", equal_widths=False),
    Row(
        "aten::_histogramdd_bin_edges",
        "bin_edges",
        {"x": "self"},
        {"ranged": lambda args: True if args["range"] is not None else None},
    ),
)

LISTS = (
    Row("aten::_foreach_max", "foreach_max", {"x*": "self"}),
    Row("aten::_foreach_norm", "foreach_norm", {"x*": "self"}, {"p": "ord"}),
    Row("aten::_foreach_powsum", "foreach_powsum", {"x*": "self"}, {"p": "ord"}),
)

DETECTION = (Row("torchvision::nms", "non_max_suppression", {"x0": "dets", "x1": "scores"}),)

WHOLE_TENSOR = (
    Row("aten::equal", "all_equal", {"x0": "self", "x1": "other"}),
    Row("aten::allclose", "all_close", {"x0": "self", "x1": "other"}),
    *rows_by_name("_is_all_true=reduce_all _is_any_true=reduce_any", X),
    Row("aten::_nested_tensor_from_mask_left_aligned", "all_true", {"x": "mask"}),
)

REDUCTION_ROWS = (*REDUCTIONS, *CUMULATIVE, *SORTING_AND_SEARCHING, *HISTOGRAMS, *LISTS, *DETECTION, *WHOLE_TENSOR)


# Fused optimizer steps, which update all parameters in one call, and the scale of the loss


def _parameters_and_moments(args: Arguments, outputs: Sequence[Any]) -> Sequence[Any]:
    # The schema of a step lists gradients and step counts as outputs, too.
    not_updated = {id(value) for value in (*args["grads"], *args.get("state_steps", ()))}
    return [value for value in outputs if id(value) not in not_updated]


_DECAY: dict[str, Source] = {"weight_decay": non_default("weight_decay", 0), "maximize": non_default("maximize", 0)}

_GRAD_SCALE: dict[str, Source] = {"scaled": lambda args: True if args.get("grad_scale") is not None else None}


def _sgd_step(args: Arguments) -> str:
    if not args["momentum"]:
        return "sgd_step"
    return "sgd_nesterov_step" if args["nesterov"] else "sgd_momentum_step"


OPTIMIZER_ROWS = (
    *(
        Row(
            f"aten::{name}",
            "adam_step",
            {"x*": tensors_in("self", "grads", "exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs")},
            {**decay, **_GRAD_SCALE, "amsgrad": non_default("amsgrad", 0), "maximize": non_default("maximize", 0)},
            outputs=_parameters_and_moments,
        )
        for name, decay in (
            ("_fused_adam", {"weight_decay": non_default("weight_decay", 0)}),
            ("_fused_adamw", {"weight_decay_after": non_default("weight_decay", 0)}),
        )
    ),
    Row(
        "costcore::adam_8bit_step",
        "adam_step",
        {"x*": tensors_in("parameter", "gradient", "moment", "square"), "scale0": "scale", "scale1": "scale_square"},
        {"weight_decay_after": non_default("weight_decay", 0), "quantized": constant(True)},
    ),
    Row(
        "aten::_fused_sgd",
        _sgd_step,
        {"x*": tensors_in("self", "grads", "momentum_buffer_list")},
        {**_DECAY, **_GRAD_SCALE, "dampening": non_default("dampening", 0)},
        outputs=_parameters_and_moments,
        ops=("sgd_step", "sgd_momentum_step", "sgd_nesterov_step"),
    ),
    Row(
        "aten::_fused_adagrad",
        "adagrad_step",
        {"x*": tensors_in("self", "grads", "state_sums")},
        {**_DECAY, **_GRAD_SCALE},
        outputs=_parameters_and_moments,
    ),
    Row(
        "aten::_amp_update_scale",
        "update_loss_scale",
        {"scale": "self", "count": "growth_tracker", "is_infinite": "found_inf"},
        {"growth_interval": "growth_interval"},
        outputs=first_output,
    ),
)


ROWS = (*NORMALIZATION_ROWS, *LOSS_ROWS, *REDUCTION_ROWS, *OPTIMIZER_ROWS)
