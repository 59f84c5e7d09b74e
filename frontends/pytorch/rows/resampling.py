"""Rows of resizing, grid sampling and affine grids, and of their gradients."""

from __future__ import annotations

from costcore.translate import Arguments, Row, Source

from .arguments import X, constant, enum_name, first_argument, needed_gradients, rows_by_name

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
    """Return the factors that samples are taken at, unless the sizes are these multiples whatever the input.

    So a factor of 1.5 is an attribute at even sizes too, and a network has the same attributes at all sizes.
    """
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


def _sampling(name: str, mode: str) -> dict[str, Source]:
    """Return the attributes of a resize: its mode, and where it takes samples if not at the centers of elements."""
    attrs: dict[str, Source] = {"mode": constant(mode), "align_corners": _aligns_corners, "scale": _inexact_scale}
    if mode != "nearest":
        return attrs
    is_centered = "exact" in name
    attrs["coordinates"] = constant(None if is_centered else "asymmetric")
    attrs["rounding"] = constant("round_prefer_ceil" if is_centered else None)
    return attrs


FORWARD = (
    *(Row(f"aten::{name}", "resize", X, _sampling(name, mode)) for name, mode in _RESIZE.items()),
    *(Row(f"aten::{name}", "antialiased_resize", X, _sampling(name, mode)) for name, mode in _ANTIALIASED.items()),
    *(
        Row(f"aten::grid_sampler_{rank}d", "grid_sample", {"x": "input", "grid": "grid"}, {"mode": _MODE})
        for rank in (2, 3)
    ),
    Row("aten::cudnn_grid_sampler", "grid_sample", {"x": "self", "grid": "grid"}, {"mode": constant("linear")}),
    *rows_by_name("affine_grid_generator cudnn_affine_grid_generator", {"theta": "theta"}, op="affine_grid"),
)

_DY: dict[str, Source] = {"dy": first_argument}

GRADIENTS = (
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

ROWS = (*FORWARD, *GRADIENTS)
