"""Rows of resizing, spatial transformers and the gradients of unpooling."""

from __future__ import annotations

from costcore.translate import Arguments, Row

from .arguments import (
    DY,
    WINDOW_2D,
    X,
    array_attribute,
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
    # gradients of unpooling, whose forward rows are in pooling.py
    row("Unpooling2DGrad", "unpool_backward", DY, **WINDOW_2D),
    row("UnpoolingNDGrad", "unpool_backward", DY, kernel=attribute("ksize")),
    row("Upsampling2DGrad", "unpool_backward", {"dy": input_at(0), "indices": array_attribute("indexes")}, **WINDOW_2D),
)
