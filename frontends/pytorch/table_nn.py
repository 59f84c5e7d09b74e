"""Rows of normalisations, activations, pooling, resampling, dropout, embedding and losses."""

from __future__ import annotations

from typing import Any

from costcore.translate import Arguments, Row, Source

from .rules import axis, constant, first, given, normalized_axes, only_first, reduction, same, spread, unlearned

_WB: dict[str, Source] = {"w": "weight", "b": "bias"}
_STATISTICS: dict[str, Source] = {"mean": "running_mean", "var": "running_var"}


NORMS = (
    *(
        Row(
            f"aten::{name}",
            "batch_norm",
            {"x": "input", **_WB, **_STATISTICS},
            {"training": lambda args: bool(args.get("training", args.get("train", False))), "eps": "eps"},
            outputs=only_first,
        )
        for name in (
            *("batch_norm", "native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training"),
        )
    ),
    *(
        Row(
            f"aten::{name}",
            "batch_norm",
            {"x": "input", **_WB, **_STATISTICS},
            {"training": "training", "eps": "epsilon"},
            outputs=only_first,
        )
        for name in ("cudnn_batch_norm", "miopen_batch_norm")
    ),
    *(
        Row(
            f"aten::{name}",
            "batch_norm",
            {"x": "input", **_WB, **_STATISTICS},
            {"training": constant(training), "eps": "eps"},
            outputs=only_first,
        )
        for name, training in (("_batch_norm_with_update", True), ("_batch_norm_no_update", False))
    ),
    Row(
        "aten::instance_norm",
        lambda args: "instance_norm" if args["use_input_stats"] else "batch_norm",
        {"x": "input", **_WB, **_STATISTICS},
        {"training": lambda args: None if args["use_input_stats"] else False, "eps": "eps"},
        ops=("instance_norm", "batch_norm"),
    ),
    *(
        Row(
            f"aten::{name}",
            "layer_norm",
            {"x": "input", **_WB},
            {"axis": normalized_axes, "eps": "eps"},
            outputs=only_first,
        )
        for name in ("layer_norm", "native_layer_norm")
    ),
    *(
        Row(
            f"aten::{name}",
            "rms_norm",
            {"x": "input", "w": "weight"},
            {"axis": normalized_axes, "eps": "eps"},
            outputs=only_first,
        )
        for name in ("rms_norm", "_fused_rms_norm")
    ),
    Row("aten::group_norm", "group_norm", {"x": "input", **_WB}, {"groups": "num_groups", "eps": "eps"}),
    Row(
        "aten::native_group_norm",
        "group_norm",
        {"x": "input", **_WB},
        {"groups": "group", "eps": "eps"},
        outputs=only_first,
    ),
)


def _clamps_to_six(args: Arguments) -> str:
    return "relu6" if (args["min_val"], args["max_val"]) == (0, 6) else "hard_tanh"


def _is_scaled(args: Arguments) -> str:
    return "elu" if args["scale"] == 1 else "selu"


_X: dict[str, Source] = {"x": first}

ACTIVATIONS = (
    *same(
        "relu relu6 sigmoid tanh silu mish selu log_sigmoid hardsigmoid=hard_sigmoid hardswish=hard_swish",
        _X,
    ),
    Row("aten::log_sigmoid_forward", "log_sigmoid", _X, outputs=only_first),
    Row("aten::hardtanh", _clamps_to_six, _X, {"lower": "min_val", "upper": "max_val"}, ops=("relu6", "hard_tanh")),
    Row("aten::elu", _is_scaled, _X, {"alpha": "alpha"}, ops=("elu", "selu")),
    Row("aten::celu", "celu", _X, {"alpha": "alpha"}),
    Row("aten::leaky_relu", "leaky_relu", _X, {"slope": "negative_slope"}),
    Row("aten::gelu", "gelu", _X, {"approximate": "approximate"}),
    Row("aten::softplus", "softplus", _X, {"beta": "beta", "threshold": "threshold"}),
    Row("aten::threshold", "threshold", _X, {"threshold": "threshold", "value": "value"}),
    Row("aten::glu", "glu", _X, {"axis": axis()}),
    Row("aten::hardshrink", "hard_shrink", _X, {"lambd": "lambd"}),
    Row("aten::softshrink", "soft_shrink", _X, {"lambd": "lambd"}),
    *(Row(f"aten::{name}", "prelu", {"x": "self", "w": "weight"}) for name in ("prelu", "_prelu_kernel")),
    *(Row(f"aten::{name}", "rrelu", _X, outputs=only_first) for name in ("rrelu_with_noise", "rrelu")),
    *(Row(f"aten::{name}", "softmax", _X, {"axis": axis()}) for name in ("softmax", "_softmax", "_safe_softmax")),
    *(Row(f"aten::{name}", "log_softmax", _X, {"axis": axis()}) for name in ("log_softmax", "_log_softmax")),
)

_DROPOUT: dict[str, Source] = {"rate": "p", "training": "train"}

DROPOUT = (
    *(
        Row(f"aten::{name}", op, _X, _DROPOUT)
        for name, op in (
            ("dropout", "dropout"),
            ("feature_dropout", "feature_dropout"),
            ("alpha_dropout", "alpha_dropout"),
            ("feature_alpha_dropout", "feature_alpha_dropout"),
        )
    ),
    Row("aten::native_dropout", "dropout", _X, {"rate": "p", "training": lambda args: bool(args["train"])}),
)


def _pool(name: str, op: str, rank: int) -> Row:
    attrs: dict[str, Source] = {
        "kernel": spread("kernel_size", rank),
        "stride": spread("stride", rank, "kernel_size"),
        "padding": spread("padding", rank),
        "ceil_mode": "ceil_mode",
    }
    if op == "max_pool":
        attrs["dilation"] = spread("dilation", rank)
    return Row(f"aten::{name}", op, _X, attrs)


def _adaptive(name: str, kind: str, rank: int) -> Row:
    def sizes(args: Arguments) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return tuple(first(args).shape[-rank:]), spread("output_size", rank)(args)

    def is_even(args: Arguments) -> bool:
        return all(y > 0 and x % y == 0 for x, y in zip(*sizes(args), strict=True))

    def kernel(args: Arguments) -> tuple[int, ...] | None:
        return tuple(x // y for x, y in zip(*sizes(args), strict=True)) if is_even(args) else None

    return Row(
        f"aten::{name}",
        lambda args: f"{kind}_pool" if is_even(args) else f"adaptive_{kind}_pool",
        _X,
        {"kernel": kernel, "stride": kernel},
        ops=(f"{kind}_pool", f"adaptive_{kind}_pool"),
    )


POOLING = (
    *(_pool(f"max_pool{rank}d", "max_pool", rank) for rank in (1, 2, 3)),
    *(_pool(f"max_pool{rank}d_with_indices", "max_pool", rank) for rank in (1, 2, 3)),
    *(_pool(f"avg_pool{rank}d", "avg_pool", rank) for rank in (1, 2, 3)),
    *(_adaptive(f"adaptive_{kind}_pool{rank}d", kind, rank) for kind in ("avg", "max") for rank in (1, 2, 3)),
    *(_adaptive(f"_adaptive_avg_pool{rank}d", "avg", rank) for rank in (2, 3)),
    *(
        Row(
            f"aten::fractional_max_pool{rank}d",
            "fractional_max_pool",
            {"x": "self", "samples": "random_samples"},
            {"kernel": spread("kernel_size", rank)},
        )
        for rank in (2, 3)
    ),
    *(Row(f"aten::max_unpool{rank}d", "upsample", {"x": "self", "indices": "indices"}) for rank in (2, 3)),
)

_UPSAMPLE = {
    "nearest": ("nearest1d", "nearest2d", "nearest3d", "_nearest_exact1d", "_nearest_exact2d", "_nearest_exact3d"),
    "linear": ("linear1d", "bilinear2d", "trilinear3d"),
    "cubic": ("bicubic2d",),
}

ANTIALIASED = {
    "_upsample_bilinear2d_aa": "linear",
    "_upsample_bicubic2d_aa": "cubic",
    "_upsample_lanczos2d_aa": "lanczos",
}
"""Resizing with antialiasing, and its mode."""

RESAMPLING = (
    *(Row(f"aten::{name}", "antialiased_resize", _X, {"mode": constant(mode)}) for name, mode in ANTIALIASED.items()),
    *(
        Row(f"aten::{'_' if name[0] == '_' else ''}upsample_{name.lstrip('_')}", "resize", _X, {"mode": constant(mode)})
        for mode, names in _UPSAMPLE.items()
        for name in names
    ),
    *(
        Row(
            f"aten::grid_sampler_{rank}d",
            "grid_sample",
            {"x": "input", "grid": "grid"},
            {"mode": lambda args: ("linear", "nearest", "cubic")[args["interpolation_mode"]]},
        )
        for rank in (2, 3)
    ),
    Row("aten::affine_grid_generator", "affine_grid", {"theta": "theta"}),
)

EMBEDDING = (
    Row("aten::embedding", "embedding", {"x": "indices", "w": "weight"}),
    *(
        Row(
            f"aten::{name}",
            "embedding_bag",
            {"x": "indices", "w": "weight", "offsets": "offsets", "per_sample_weights": "per_sample_weights"},
            {"mode": lambda args: ("sum", "mean", "max")[args["mode"]]},
            outputs=only_first,
        )
        for name in ("embedding_bag", "_embedding_bag", "_embedding_bag_forward_only")
    ),
)


def _loss(names: str, op: str, inputs: dict[str, Source], attrs: dict[str, Source] | None = None) -> tuple[Row, ...]:
    settings: dict[str, Source] = {"reduction": reduction, **(attrs or {})}
    return tuple(Row(f"aten::{name}", op, inputs, settings, outputs=only_first) for name in names.split())


def _smoothing(args: Arguments) -> Any:
    return args.get("label_smoothing") or None


_TARGET: dict[str, Source] = {"x": "self", "target": "target"}
_WEIGHTED: dict[str, Source] = {**_TARGET, "w": unlearned("weight")}

LOSSES = (
    *_loss("cross_entropy_loss", "cross_entropy", _WEIGHTED, {"label_smoothing": _smoothing}),
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
        {**_WEIGHTED, "pos_weight": unlearned("pos_weight")},
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
    *_loss(
        "triplet_margin_loss",
        "triplet_margin_loss",
        {"x0": "anchor", "x1": "positive", "x2": "negative"},
        {"swap": "swap", "p": given("p", 2)},
    ),
    *_loss("ctc_loss _ctc_loss", "ctc_loss", {"x": "log_probs", "target": "targets"}),
    Row("aten::cosine_similarity", "cosine_similarity", {"x0": "x1", "x1": "x2"}, {"axis": axis()}),
    Row("aten::pairwise_distance", "pairwise_distance", {"x0": "x1", "x1": "x2"}, {"p": "p"}),
    *_loss("soft_margin_loss", "soft_margin_loss", _TARGET),
)

ROWS = (*NORMS, *ACTIVATIONS, *DROPOUT, *POOLING, *RESAMPLING, *EMBEDDING, *LOSSES)
