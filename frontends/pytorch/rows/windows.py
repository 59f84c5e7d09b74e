"""Rows of convolutions, pooling, resampling and Fourier transforms, and of their gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from costcore.translate import Arguments, Row, Source

from ..operators.plan import is_differentiated
from .arguments import (
    X,
    constant,
    enum_name,
    first_argument,
    needed_gradients,
    non_default,
    ntuple,
    requested_indices,
    rows_by_name,
    to_ntuple,
)

_INPUT: dict[str, Source] = {"x": "input", "w": "weight", "b": "bias"}

_SELF: dict[str, Source] = {"x": "self", "w": "weight", "b": "bias"}


def _rank(args: Arguments) -> int:
    return int(args["weight"].dim()) - 2


def _kernel(args: Arguments) -> tuple[int, ...]:
    return tuple(args["weight"].shape[2:])


def _spatial(name: str) -> Callable[[Arguments], Any]:
    return lambda args: to_ntuple(args[name], _rank(args))


def _padding(args: Arguments) -> tuple[Any, ...]:
    padding = args["padding"]
    if not isinstance(padding, str):
        return to_ntuple(padding, _rank(args))
    if padding == "valid":
        return (0,) * _rank(args)
    dilation = to_ntuple(args["dilation"], _rank(args))
    totals = [d * (k - 1) for d, k in zip(dilation, _kernel(args), strict=True)]
    return tuple(t // 2 if t % 2 == 0 else (t // 2, t - t // 2) for t in totals)


_ATTRIBUTES: dict[str, Source] = {
    "kernel": _kernel,
    "stride": _spatial("stride"),
    "padding": _padding,
    "dilation": _spatial("dilation"),
    "groups": "groups",
}


def _conv_or_transpose(args: Arguments) -> str:
    return "conv_transpose" if args["transposed"] else "conv"


CONVOLUTIONS = (
    *(Row(f"aten::conv{rank}d", "conv", _INPUT, _ATTRIBUTES) for rank in (1, 2, 3)),
    *(
        Row(
            f"aten::conv_transpose{rank}d",
            "conv_transpose",
            _INPUT,
            {**_ATTRIBUTES, "output_padding": _spatial("output_padding")},
        )
        for rank in (1, 2, 3)
    ),
    *(
        Row(f"aten::{name}", _conv_or_transpose, _INPUT, _ATTRIBUTES, ops=("conv", "conv_transpose"))
        for name in ("convolution", "_convolution", "convolution_overrideable")
    ),
)

_WITHOUT_ATTRIBUTES = """
_slow_conv2d_forward slow_conv3d_forward slow_conv_dilated2d slow_conv_dilated3d _conv_depthwise2d conv_depthwise3d
miopen_depthwise_convolution
"""

BACKEND_SPECIFIC = (
    *rows_by_name("mkldnn_convolution miopen_convolution", _SELF, _ATTRIBUTES, op="conv"),
    Row("aten::cudnn_convolution", "conv", {"x": "self", "w": "weight"}, _ATTRIBUTES),
    Row("aten::cudnn_convolution_transpose", "conv_transpose", {"x": "self", "w": "weight"}),
    Row("aten::miopen_convolution_transpose", "conv_transpose", _SELF),
    *rows_by_name(_WITHOUT_ATTRIBUTES, _SELF, op="conv"),
    *rows_by_name("slow_conv_transpose2d slow_conv_transpose3d", _SELF, op="conv_transpose"),
)

CONV_GRADIENTS = tuple(
    Row(
        f"aten::{name}",
        lambda args: "conv_transpose_backward" if args["transposed"] else "conv_backward",
        {"dy": "grad_output", "x": "input", "w": "weight"},
        {**_ATTRIBUTES, "padding": _spatial("padding"), "needs": needed_gradients("x", "w", "b")},
        ops=("conv_backward", "conv_transpose_backward"),
    )
    for name in ("convolution_backward", "convolution_backward_overrideable")
)


def _along_axes(name: str) -> Callable[[Arguments], tuple[int, int]]:
    return lambda args: (args[f"{name}_h"], args[f"{name}_w"])


def _mask(args: Arguments) -> Any:
    # Without one, torchvision passes a tensor that it does not use.
    return args["mask"] if args["use_mask"] else None


_DEFORMED: dict[str, Source] = {"x": "input", "w": "weight", "offset": "offset", "mask": _mask}

_DEFORMED_ATTRIBUTES: dict[str, Source] = {
    "kernel": _kernel,
    **{
        name: _along_axes(short) for name, short in (("stride", "stride"), ("padding", "pad"), ("dilation", "dilation"))
    },
    "groups": "groups",
    "offset_groups": "offset_groups",
}


def _deformed_gradients(args: Arguments, outputs: Sequence[Any]) -> Sequence[Any]:
    # All gradients are computed at once; without a mask, its gradient means nothing.
    return [value for i, value in enumerate(outputs) if i != 3 or args["use_mask"]]


DEFORMABLE = (
    Row("torchvision::deform_conv2d", "deform_conv", {**_DEFORMED, "b": "bias"}, _DEFORMED_ATTRIBUTES),
    Row(
        "torchvision::_deform_conv2d_backward",
        "deform_conv_backward",
        {"dy": "grad", **_DEFORMED},
        {
            **_DEFORMED_ATTRIBUTES,
            "needs": lambda args: ("x", "w", "offset", *(("mask",) if args["use_mask"] else ()), "b"),
        },
        outputs=_deformed_gradients,
    ),
)

CONV_ROWS = (*CONVOLUTIONS, *BACKEND_SPECIFIC, *CONV_GRADIENTS, *DEFORMABLE)


# Pooling and its gradients


def _window(rank: int) -> dict[str, Source]:
    return {
        "kernel": ntuple("kernel_size", rank),
        "stride": ntuple("stride", rank, "kernel_size"),
        "padding": ntuple("padding", rank),
    }


def _saved_indices(args: Arguments) -> str | None:
    # A pooling without indices keeps them for its backward pass.
    return "int64" if is_differentiated(first_argument(args)) else None


def _max_pool(name: str, rank: int, attrs: dict[str, Source]) -> Row:
    settings: dict[str, Source] = {"ceil_mode": "ceil_mode", "dilation": ntuple("dilation", rank)}
    return Row(f"aten::{name}", "max_pool", X, {**_window(rank), **settings, **attrs})


def _avg_pool_attributes(rank: int) -> dict[str, Source]:
    counted: dict[str, Source] = {"count_include_pad": non_default("count_include_pad", True)}
    return {**_window(rank), "ceil_mode": "ceil_mode", **counted}


def _adaptive_pool(name: str, kind: str, rank: int) -> Row:
    def sizes(args: Arguments) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return tuple(first_argument(args).shape[-rank:]), ntuple("output_size", rank)(args)

    def divides(args: Arguments) -> bool:
        return all(y > 0 and x % y == 0 for x, y in zip(*sizes(args), strict=True))

    def kernel(args: Arguments) -> tuple[int, ...] | None:
        return tuple(x // y for x, y in zip(*sizes(args), strict=True)) if divides(args) else None

    return Row(
        f"aten::{name}",
        lambda args: f"{kind}_pool" if divides(args) else f"adaptive_{kind}_pool",
        X,
        {"kernel": kernel, "stride": kernel, "adaptive": lambda args: True if divides(args) else None},
        outputs=requested_indices if kind == "max" else None,
        ops=(f"{kind}_pool", f"adaptive_{kind}_pool"),
    )


POOLING_FORWARD = (
    *(_max_pool(f"max_pool{rank}d", rank, {"indices": _saved_indices}) for rank in (1, 2, 3)),
    *(_max_pool(f"max_pool{rank}d_with_indices", rank, {}) for rank in (1, 2, 3)),
    *(Row(f"aten::avg_pool{rank}d", "avg_pool", X, _avg_pool_attributes(rank)) for rank in (1, 2, 3)),
    *(_adaptive_pool(f"adaptive_{kind}_pool{rank}d", kind, rank) for kind in ("avg", "max") for rank in (1, 2, 3)),
    *(_adaptive_pool(f"_adaptive_avg_pool{rank}d", "avg", rank) for rank in (2, 3)),
    *(
        Row(
            f"aten::fractional_max_pool{rank}d",
            "fractional_max_pool",
            {"x": "self", "samples": "random_samples"},
            {"kernel": ntuple("kernel_size", rank)},
            outputs=requested_indices,
        )
        for rank in (2, 3)
    ),
    *(Row(f"aten::max_unpool{rank}d", "upsample", {"x": "self", "indices": "indices"}) for rank in (2, 3)),
    *(
        Row(f"aten::{name}{rank}d", "max_pool", X, {"kernel": ntuple("kernel_size", rank)})
        for name, ranks in (("quantized_max_pool", (1, 2, 3)), ("mkldnn_max_pool", (2, 3)))
        for rank in ranks
    ),
)

LP = tuple(
    Row(
        f"torch.nn.functional::lp_pool{rank}d",
        "lp_pool",
        {"x": "input"},
        {
            "kernel": ntuple("kernel_size", rank),
            "stride": ntuple("stride", rank, "kernel_size"),
            "ceil_mode": "ceil_mode",
            "p": "norm_type",
        },
    )
    for rank in (1, 2, 3)
)


def _adaptive_avg_pool_backward(rank: int) -> Row:
    def kernel(args: Arguments) -> tuple[int, ...] | None:
        sizes = zip(args["self"].shape[-rank:], args["grad_output"].shape[-rank:], strict=True)
        pairs = [(int(x), int(y)) for x, y in sizes]
        return tuple(x // y for x, y in pairs) if all(y and x % y == 0 for x, y in pairs) else None

    return Row(
        f"aten::_adaptive_avg_pool{rank}d_backward",
        lambda args: "avg_pool_backward" if kernel(args) else "adaptive_avg_pool_backward",
        {"dy": first_argument},
        {"kernel": kernel, "stride": kernel},
        ops=("avg_pool_backward", "adaptive_avg_pool_backward"),
    )


_AT_INDICES: dict[str, Source] = {"dy": "grad_output", "indices": "indices"}

POOLING_GRADIENTS = (
    *(
        Row(f"aten::max_pool{rank}d_with_indices_backward", "max_pool_backward", _AT_INDICES, _window(rank))
        for rank in (2, 3)
    ),
    *(
        Row(
            f"aten::fractional_max_pool{rank}d_backward",
            "max_pool_backward",
            _AT_INDICES,
            {"kernel": ntuple("kernel_size", rank)},
        )
        for rank in (2, 3)
    ),
    *(
        Row(f"aten::avg_pool{rank}d_backward", "avg_pool_backward", {"dy": "grad_output"}, _window(rank))
        for rank in (2, 3)
    ),
    *(Row(f"aten::adaptive_max_pool{rank}d_backward", "adaptive_max_pool_backward", _AT_INDICES) for rank in (2, 3)),
    *(_adaptive_avg_pool_backward(rank) for rank in (2, 3)),
    *(
        Row(
            f"aten::{name}",
            "max_pool_backward",
            {"dy": "grad_output", "x": x},
            {"kernel": ntuple("kernel_size", rank)},
        )
        for name, x, rank in (
            ("max_pool2d_backward", "self", 2),
            ("mkldnn_max_pool2d_backward", "input", 2),
            ("mkldnn_max_pool3d_backward", "input", 3),
        )
    ),
)


def _bin_samples(args: Arguments) -> tuple[int, int]:
    # With 0, the size of the region decides.
    return (max(int(args["sampling_ratio"]), 0),) * 2


_REGIONS: dict[str, Source] = {"x": "input", "rois": "rois"}

_DY_IN_REGIONS: dict[str, Source] = {"dy": "grad", "rois": "rois"}

_SAMPLED: dict[str, Source] = {"sampling": _bin_samples}

REGIONS = (
    Row("torchvision::roi_align", "roi_align", _REGIONS, _SAMPLED),
    Row("torchvision::ps_roi_align", "ps_roi_align", _REGIONS, _SAMPLED),
    Row("torchvision::roi_pool", "roi_max_pool", _REGIONS),
    Row("torchvision::ps_roi_pool", "ps_roi_avg_pool", _REGIONS),
    Row("torchvision::_roi_align_backward", "roi_align_backward", _DY_IN_REGIONS, _SAMPLED),
    Row(
        "torchvision::_ps_roi_align_backward",
        "ps_roi_align_backward",
        {**_DY_IN_REGIONS, "indices": "channel_mapping"},
        _SAMPLED,
    ),
    Row("torchvision::_roi_pool_backward", "roi_max_pool_backward", {**_DY_IN_REGIONS, "indices": "argmax"}),
    Row(
        "torchvision::_ps_roi_pool_backward",
        "ps_roi_avg_pool_backward",
        {**_DY_IN_REGIONS, "indices": "channel_mapping"},
    ),
)

POOLING_ROWS = (*POOLING_FORWARD, *LP, *POOLING_GRADIENTS, *REGIONS)


# Resizing, grid sampling and affine grids, and their gradients


_RESIZE = {
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
"""Interpolation mode by operator."""

_ANTIALIASED = {
    "_upsample_bilinear2d_aa": "linear",
    "_upsample_bicubic2d_aa": "cubic",
    "_upsample_lanczos2d_aa": "lanczos",
}
"""Interpolation mode by antialiased operator."""

_MODE = enum_name("interpolation_mode", "linear", "nearest", "cubic")


def _aligns_corners(args: Arguments) -> bool | None:
    return True if args.get("align_corners") else None


def _inexact_scale(args: Arguments) -> tuple[float, ...] | None:
    # None if the sizes are these multiples whatever the input. So a factor of 1.5 is an attribute at even sizes, too,
    # and a network has the same attributes at all sizes.
    x, sizes = first_argument(args).shape[2:], args.get("output_size")
    given = args.get("scale_factors") or [args.get(f"scales_{name}") for name in "dhw"[-len(x) :]]
    if len(x) == 1 and args.get("scales") is not None:
        given = [args["scales"]]
    if any(factor is None for factor in given):
        return None
    sizes = [int(size * factor) for size, factor in zip(x, given, strict=True)] if sizes is None else sizes
    is_exact = all(size * factor == new for size, factor, new in zip(x, given, sizes, strict=True))
    is_whole = all(float(factor).is_integer() for factor in given)
    return None if is_exact and is_whole else tuple(map(float, given))


def _resize_attributes(name: str, mode: str) -> dict[str, Source]:
    # The exact modes sample at the centers of elements.
    attrs: dict[str, Source] = {"mode": constant(mode), "align_corners": _aligns_corners, "scale": _inexact_scale}
    if mode != "nearest":
        return attrs
    is_centered = "exact" in name
    attrs["coordinates"] = constant(None if is_centered else "asymmetric")
    attrs["rounding"] = constant("round_prefer_ceil" if is_centered else None)
    return attrs


RESAMPLING_FORWARD = (
    *(Row(f"aten::{name}", "resize", X, _resize_attributes(name, mode)) for name, mode in _RESIZE.items()),
    *(
        Row(f"aten::{name}", "antialiased_resize", X, _resize_attributes(name, mode))
        for name, mode in _ANTIALIASED.items()
    ),
    *(
        Row(f"aten::grid_sampler_{rank}d", "grid_sample", {"x": "input", "grid": "grid"}, {"mode": _MODE})
        for rank in (2, 3)
    ),
    Row("aten::cudnn_grid_sampler", "grid_sample", {"x": "self", "grid": "grid"}, {"mode": constant("linear")}),
    *rows_by_name("affine_grid_generator cudnn_affine_grid_generator", {"theta": "theta"}, op="affine_grid"),
)

_DY: dict[str, Source] = {"dy": first_argument}

RESAMPLING_GRADIENTS = (
    *(Row(f"aten::{name}_backward", "resize_backward", _DY, {"mode": constant(m)}) for name, m in _RESIZE.items()),
    *(
        Row(f"aten::{name}_backward", "antialiased_resize_backward", _DY, {"mode": constant(mode)})
        for name, mode in _ANTIALIASED.items()
    ),
    *(
        Row(
            f"aten::{name}",
            "grid_sample_backward",
            {"dy": "grad_output", "x": "input", "grid": "grid"},
            {"mode": _MODE, "needs": needed_gradients("x", "grid")},
        )
        for name in ("grid_sampler_2d_backward", "grid_sampler_3d_backward", "_grid_sampler_2d_cpu_fallback_backward")
    ),
    Row(
        "aten::cudnn_grid_sampler_backward",
        "grid_sample_backward",
        {"dy": "grad_output", "x": "self", "grid": "grid"},
        {"mode": constant("linear"), "needs": constant(("x", "grid"))},
    ),
)

RESAMPLING_ROWS = (*RESAMPLING_FORWARD, *RESAMPLING_GRADIENTS)


# Fourier transforms and window functions


def _axes(args: Arguments) -> tuple[int, ...]:
    rank = args["self"].dim()
    return tuple(int(axis) % rank for axis in args["dim"])


def _is_scaled(args: Arguments) -> bool:
    return bool(args["normalization"])


_FFT: dict[str, Source] = {"axes": _axes, "scaled": _is_scaled}

SIGNAL_ROWS = (
    Row("aten::_fft_c2c", "fft", X, {**_FFT, "inverse": lambda args: not args["forward"]}),
    Row("aten::_fft_r2c", "real_fft", X, {**_FFT, "onesided": "onesided"}),
    Row("aten::_fft_c2r", "inverse_real_fft", X, _FFT),
    *(Row(f"aten::{name}", name, {}) for name in ("hann_window", "hamming_window", "blackman_window")),
)


ROWS = (*CONV_ROWS, *POOLING_ROWS, *RESAMPLING_ROWS, *SIGNAL_ROWS)
