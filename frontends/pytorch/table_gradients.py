"""Rows of gradients of activations, losses, pooling, resampling, embeddings and of operators that move elements."""

from __future__ import annotations

from typing import Any

from costcore.translate import Arguments, Row, Source

from .rules import axis, choice, constant, first, given, needs, only_first, reduction, spread, unlearned
from .table_nn import ANTIALIASED

_DY: dict[str, Source] = {"dy": first}
_XY: dict[str, Source] = {"dy": first, "x": "self"}


def _pointwise(words: str, inputs: dict[str, Source]) -> tuple[Row, ...]:
    pairs = (word.partition("=") for word in words.split())
    return tuple(Row(f"aten::{native}_backward", f"{op or native}_backward", inputs) for native, _, op in pairs)


ACTIVATIONS = (
    *_pointwise("threshold hardshrink=hard_shrink softshrink=soft_shrink hardsigmoid=hard_sigmoid", _XY),
    *_pointwise("hardswish=hard_swish leaky_relu silu mish log_sigmoid logit glu", _XY),
    *_pointwise("sigmoid tanh", {"dy": first, "y": "output"}),
    Row("aten::gelu_backward", "gelu_backward", _XY, {"approximate": "approximate"}),
    Row("aten::softplus_backward", "softplus_backward", _XY, {"beta": given("beta", 1)}),
    Row("aten::hardtanh_backward", "hard_tanh_backward", _XY, {"lower": "min_val", "upper": "max_val"}),
    Row(
        "aten::elu_backward",
        lambda args: "elu_backward" if args["scale"] == 1 else "selu_backward",
        {"dy": first, "x": "self_or_result"},
        ops=("elu_backward", "selu_backward"),
    ),
    Row(
        "aten::rrelu_with_noise_backward",
        "rrelu_backward",
        {**_XY, "slope": lambda args: args["noise"] if args["training"] else None},
    ),
    Row("aten::_prelu_kernel_backward", "prelu_backward", {**_XY, "w": "weight"}),
    Row("aten::native_dropout_backward", "dropout_backward", {"dy": first, "mask": "mask"}),
    Row("aten::_masked_scale", "dropout_backward", {"dy": first, "mask": "mask"}),
)

_LOSS: dict[str, Source] = {"dy": "grad_output", "x": "self", "target": "target"}
_WEIGHT: dict[str, Source] = {"w": unlearned("weight")}
_REDUCED: dict[str, Source] = {"reduction": reduction}

LOSSES = (
    *(Row(f"aten::{name}_backward", f"{name}_backward", _LOSS, _REDUCED) for name in ("mse_loss", "soft_margin_loss")),
    Row("aten::smooth_l1_loss_backward", "smooth_l1_loss_backward", _LOSS, {**_REDUCED, "beta": "beta"}),
    Row("aten::huber_loss_backward", "huber_loss_backward", _LOSS, {**_REDUCED, "delta": "delta"}),
    Row("aten::binary_cross_entropy_backward", "binary_cross_entropy_backward", {**_LOSS, **_WEIGHT}, _REDUCED),
    *(
        Row(f"aten::{name}", "nll_loss_backward", {"dy": "grad_output", "target": "target", **_WEIGHT}, _REDUCED)
        for name in ("nll_loss_backward", "nll_loss2d_backward")
    ),
    Row(
        "aten::multi_margin_loss",
        "multi_margin_loss",
        {"x": "self", "target": "target", **_WEIGHT},
        {**_REDUCED, "p": given("p", 1)},
    ),
    Row(
        "aten::multi_margin_loss_backward",
        "multi_margin_loss_backward",
        {**_LOSS, **_WEIGHT},
        {**_REDUCED, "p": given("p", 1)},
    ),
    Row("aten::multilabel_margin_loss_forward", "multilabel_margin_loss", {"x": "self", "target": "target"}, _REDUCED),
    Row(
        "aten::multilabel_margin_loss_backward",
        "multilabel_margin_loss_backward",
        {**_LOSS, "is_target": "is_target"},
        _REDUCED,
    ),
    Row(
        "aten::_ctc_loss_backward",
        "ctc_loss_backward",
        {"dy": "grad", "x": "log_probs", "target": "targets", "loss": "neg_log_likelihood", "alpha": "log_alpha"},
    ),
)


def _pool(native: str, op: str, rank: int, dy: str = "grad_output") -> Row:
    inputs: dict[str, Source] = {"dy": dy}
    if op.startswith("max"):
        inputs |= {"indices": "indices"}
    attrs: dict[str, Source] = {"kernel": spread("kernel_size", rank)}
    if "fractional" not in native:
        attrs |= {"stride": spread("stride", rank, "kernel_size"), "padding": spread("padding", rank)}
    return Row(f"aten::{native}", op, inputs, attrs)


def _adaptive_average(rank: int) -> Row:
    def kernel(args: Arguments) -> tuple[int, ...] | None:
        sizes = zip(args["self"].shape[-rank:], args["grad_output"].shape[-rank:], strict=True)
        pairs = [(int(x), int(y)) for x, y in sizes]
        return tuple(x // y for x, y in pairs) if all(y and x % y == 0 for x, y in pairs) else None

    return Row(
        f"aten::_adaptive_avg_pool{rank}d_backward",
        lambda args: "avg_pool_backward" if kernel(args) else "adaptive_avg_pool_backward",
        _DY,
        {"kernel": kernel, "stride": kernel},
        ops=("avg_pool_backward", "adaptive_avg_pool_backward"),
    )


POOLING = (
    *(_pool(f"max_pool{rank}d_with_indices_backward", "max_pool_backward", rank) for rank in (2, 3)),
    *(_pool(f"fractional_max_pool{rank}d_backward", "max_pool_backward", rank) for rank in (2, 3)),
    *(_pool(f"avg_pool{rank}d_backward", "avg_pool_backward", rank) for rank in (2, 3)),
    *(
        Row(
            f"aten::adaptive_max_pool{rank}d_backward",
            "adaptive_max_pool_backward",
            {"dy": "grad_output", "indices": "indices"},
        )
        for rank in (2, 3)
    ),
    *(_adaptive_average(rank) for rank in (2, 3)),
    *(
        Row(
            f"aten::{name}",
            "max_pool_backward",
            {"dy": "grad_output", "x": x},
            {"kernel": spread("kernel_size", rank)},
        )
        for name, x, rank in (
            ("max_pool2d_backward", "self", 2),
            ("mkldnn_max_pool2d_backward", "input", 2),
            ("mkldnn_max_pool3d_backward", "input", 3),
        )
    ),
)

_RESIZED = {
    "upsample_nearest1d": "nearest",
    "upsample_nearest2d": "nearest",
    "upsample_nearest3d": "nearest",
    "_upsample_nearest_exact1d": "nearest",
    "_upsample_nearest_exact2d": "nearest",
    "_upsample_nearest_exact3d": "nearest",
    "upsample_linear1d": "linear",
    "upsample_bilinear2d": "linear",
    "upsample_trilinear3d": "linear",
    "upsample_bicubic2d": "cubic",
}
RESAMPLING = (
    *(Row(f"aten::{name}_backward", "resize_backward", _DY, {"mode": constant(m)}) for name, m in _RESIZED.items()),
    *(
        Row(f"aten::{name}_backward", "antialiased_resize_backward", _DY, {"mode": constant(mode)})
        for name, mode in ANTIALIASED.items()
    ),
    *(
        Row(
            f"aten::{name}",
            "grid_sample_backward",
            {"dy": "grad_output", "x": "input", "grid": "grid"},
            {"mode": choice("interpolation_mode", "linear", "nearest", "cubic"), "needs": needs("x", "grid")},
        )
        for name in ("grid_sampler_2d_backward", "grid_sampler_3d_backward", "_grid_sampler_2d_cpu_fallback_backward")
    ),
)

MOVES = (
    *(Row(f"aten::{name}_backward", f"{name}_backward", _DY) for name in ("slice", "select", "diagonal", "unfold")),
    *(
        Row(f"aten::{kind}_pad{rank}d_backward", "pad_backward", _DY, {"padding": "padding"})
        for kind in ("reflection", "replication")
        for rank in (1, 2, 3)
    ),
    Row("aten::masked_scatter_backward", "masked_scatter_backward", {"dy": first, "mask": "mask"}),
)


def _bags(args: Arguments) -> Any:
    """The bag of each index; where each bag starts, where the forward pass did not keep the former."""
    return args["offset2bag"] if args["offset2bag"].numel() else args["offsets"]


_BAG: dict[str, Source] = {
    "dy": "grad",
    "x": "indices",
    "offsets": _bags,
    "sizes": lambda args: args.get("bag_size") if args["mode"] == 1 else None,
    "maxima": lambda args: args.get("maximum_indices") if args["mode"] == 2 else None,
    "per_sample_weights": "per_sample_weights",
}
_MODE: dict[str, Source] = {"mode": choice("mode", "sum", "mean", "max")}

EMBEDDING = (
    Row(
        "aten::embedding_dense_backward",
        lambda args: "scaled_embedding_backward" if args["scale_grad_by_freq"] else "embedding_backward",
        {"dy": "grad_output", "x": "indices"},
        ops=("embedding_backward", "scaled_embedding_backward"),
    ),
    *(
        Row(f"aten::{name}", "embedding_bag_backward", _BAG, _MODE, outputs=only_first)
        for name in ("_embedding_bag_backward", "_embedding_bag_dense_backward")
    ),
    Row(
        "aten::_embedding_bag_per_sample_weights_backward",
        "embedding_bag_weights_backward",
        {"dy": "grad", "w": "weight", "x": "indices", "offsets": _bags},
        _MODE,
    ),
)


def _reduce(args: Arguments) -> str:
    word: str = args["reduce"]
    return {"amax": "max", "amin": "min"}.get(word, word)


SEGMENTS = (
    Row(
        "aten::segment_reduce",
        "segment_reduce",
        {"x": "data", "lengths": "lengths", "offsets": "offsets", "indices": "indices"},
        {"reduction": _reduce, "axis": axis("axis")},
    ),
    Row(
        "aten::_segment_reduce_backward",
        "segment_reduce_backward",
        {"dy": "grad", "y": "output", "x": "data", "lengths": "lengths", "offsets": "offsets"},
        {"reduction": _reduce, "axis": axis("axis")},
    ),
)

ROWS = (*ACTIVATIONS, *LOSSES, *POOLING, *RESAMPLING, *MOVES, *EMBEDDING, *SEGMENTS)
