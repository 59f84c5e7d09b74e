"""Rows of resizing and spatial transformers, and of their gradients."""

from __future__ import annotations

from costcore.translate import Arguments, Row

from .arguments import (
    DY,
    X,
    constant,
    input_at,
    operands,
    output_gradient,
    row,
)

LINEAR = constant("linear")


def resize_mode(args: Arguments) -> str:
    """Return how ``F.resize_images`` interpolates, by the name that holds for any rank."""
    return "linear" if args["function"].mode == "bilinear" else "nearest"


def aligns_corners(args: Arguments) -> bool | None:
    """Return whether linear interpolation aligns the corners; the mode nearest has no such option."""
    return None if resize_mode(args) == "nearest" else bool(args["function"].align_corners)


def coordinates(args: Arguments) -> str | None:
    """Return where samples are taken: of the mode nearest, at the first corner of elements."""
    return "asymmetric" if resize_mode(args) == "nearest" else None


RESIZE = {"mode": resize_mode, "align_corners": aligns_corners, "coordinates": coordinates}

ROWS: tuple[Row, ...] = (
    row("ResizeImages", "resize", X, **RESIZE),
    row("ResizeImagesGrad", "resize_backward", DY, **RESIZE),
    row("SpatialTransformerGrid", "affine_grid", operands("theta")),
    row("SpatialTransformerGridBackward", "affine_grid_backward", {"dy": output_gradient(0), "theta": input_at(0)}),
    row("SpatialTransformerSampler", "grid_sample", operands("x", "grid"), mode=LINEAR),
    row(
        "SpatialTransformerSamplerBackward",
        "grid_sample_backward",
        {"dy": output_gradient(0), "x": input_at(0), "grid": input_at(1)},
        mode=LINEAR,
    ),
)
