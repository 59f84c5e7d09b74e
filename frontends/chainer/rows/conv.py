"""Rows of convolutions, and of the gradients of their weights."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.translate import Arguments, Row, Source

from .arguments import WINDOW_2D, X_DY, attribute, attributes, constant, operands, row

XWB = operands("x", "w", "b")
GROUPS = attribute("groups")
DILATION_2D = attributes("dy", "dx")
WEIGHT = constant(("w",))


def kernel_size(args: Arguments) -> tuple[int, ...]:
    """Return the spatial sizes of the weight: all but its first two."""
    return tuple(args["inputs"][1].shape[2:])


CONV_2D: Mapping[str, Source] = {**WINDOW_2D, "kernel": kernel_size, "dilation": DILATION_2D, "groups": GROUPS}
CONV_ND: Mapping[str, Source] = {
    "kernel": kernel_size,
    "stride": attribute("stride"),
    "padding": attribute("pad"),
    "dilation": attribute("dilate"),
    "groups": GROUPS,
}

ROWS: tuple[Row, ...] = (
    row("Convolution2DFunction", "conv", XWB, **CONV_2D),
    row("ConvolutionND", "conv", XWB, **CONV_ND),
    row("Deconvolution2DFunction", "conv_transpose", XWB, **CONV_2D),
    row("DeconvolutionND", "conv_transpose", XWB, **CONV_ND),
    row(
        "LocalConvolution2DFunction",
        "local_conv",
        XWB,
        kernel=lambda args: tuple(args["inputs"][1].shape[-2:]),
        stride=attributes("sy", "sx"),
    ),
    # gradients
    row(
        "Convolution2DGradW",
        "conv_backward",
        X_DY,
        needs=WEIGHT,
        groups=GROUPS,
        **WINDOW_2D,
        dilation=DILATION_2D,
    ),
    row(
        "ConvolutionNDGradW",
        "conv_backward",
        X_DY,
        needs=WEIGHT,
        groups=GROUPS,
        kernel=attribute("ksize"),
        stride=attribute("stride"),
        padding=attribute("pad"),
        dilation=attribute("dilate"),
    ),
)
