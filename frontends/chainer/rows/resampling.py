"""Rows of resizing and spatial transformers, and of their gradients."""

from __future__ import annotations

from costcore.translate import Arguments, Row

from .arguments import (
    DY,
    X,
    attribute,
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


RESIZE = {"mode": resize_mode, "align_corners": attribute("align_corners")}

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
