"""Rows of convolutions, pooling, resizing, spatial transformers and Fourier transforms, and of their gradients."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.translate import Arguments, Row, Source

from .arguments import (
    DY,
    WINDOW_2D,
    X_DY,
    X,
    array_attribute,
    attribute,
    attributes,
    constant,
    input_at,
    operands,
    output_gradient,
    pooling_attribute,
    row,
    with_saved_array,
)

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

CONV_ROWS: tuple[Row, ...] = (
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


# Pooling, unpooling, and regions of interest.


WINDOW_ND: Mapping[str, Source] = {
    "kernel": attribute("ksize"),
    "stride": attribute("stride"),
    "padding": attribute("pad"),
}

ROI_INPUTS = operands("x", "rois", "roi_indices")

ROI_GRADIENT_INPUTS = {"dy": output_gradient(0), "rois": input_at(1), "roi_indices": input_at(2)}

ROI_ALIGN_MODES: Mapping[str, str] = {"ROIAverageAlign2D": "avg", "ROIMaxAlign2D": "max"}


def sampling(args: Arguments) -> tuple[int, ...]:
    """Return the samples along each axis of a bin, 0 if they depend on the size of the region."""
    return tuple(ratio or 0 for ratio in args["function"].sampling_ratio)


POOLING_ROWS: tuple[Row, ...] = (
    Row(
        "chainer::MaxPoolingND",
        "max_pool",
        X,
        {**WINDOW_ND, "ceil_mode": attribute("cover_all")},
        outputs=with_saved_array("indexes"),
    ),
    row("AveragePooling2D", "avg_pool", X, **WINDOW_2D),
    row("AveragePoolingND", "avg_pool", X, **WINDOW_ND),
    row("Unpooling2D", "unpool", X, **WINDOW_2D),
    row("UnpoolingND", "unpool", X, **WINDOW_ND),
    row("Upsampling2D", "upsample", {"x": input_at(0), "indices": array_attribute("indexes")}, **WINDOW_2D),
    # gradients
    row("AveragePooling2DGrad", "avg_pool_backward", DY, **WINDOW_2D),
    row("AveragePoolingNDGrad", "avg_pool_backward", DY, kernel=pooling_attribute("ksize")),
    row(
        "MaxPoolingNDGrad",
        "max_pool_backward",
        {"dy": input_at(0), "indices": pooling_attribute("indexes")},
        kernel=pooling_attribute("ksize"),
    ),
    row("Unpooling2DGrad", "unpool_backward", DY, **WINDOW_2D),
    row("UnpoolingNDGrad", "unpool_backward", DY, kernel=attribute("ksize")),
    row("Upsampling2DGrad", "unpool_backward", {"dy": input_at(0), "indices": array_attribute("indexes")}, **WINDOW_2D),
    # regions of interest
    Row("chainer::ROIPooling2D", "roi_max_pool", operands("x", "rois"), outputs=with_saved_array("argmax_data")),
    row("ROIAveragePooling2D", "roi_avg_pool", ROI_INPUTS),
    Row("chainer::ROIMaxPooling2D", "roi_max_pool", ROI_INPUTS, outputs=with_saved_array("argmax_data")),
    *(
        Row(
            f"chainer::{name}",
            "roi_align",
            ROI_INPUTS,
            {"sampling": sampling, "mode": constant(mode)},
            outputs=with_saved_array("argmax_data"),
        )
        for name, mode in ROI_ALIGN_MODES.items()
    ),
    # gradients of regions of interest
    row(
        "ROIPooling2DGrad",
        "roi_max_pool_backward",
        {"dy": input_at(1), "rois": input_at(0), "indices": array_attribute("argmax_data")},
    ),
    row(
        "ROIMaxPooling2DBackward",
        "roi_max_pool_backward",
        {**ROI_GRADIENT_INPUTS, "indices": array_attribute("argmax_data")},
    ),
    row("ROIAveragePooling2DBackward", "roi_avg_pool_backward", ROI_GRADIENT_INPUTS),
    *(
        row(
            f"{name}Backward",
            "roi_align_backward",
            {**ROI_GRADIENT_INPUTS, "indices": array_attribute("argmax_data")},
            sampling=sampling,
            mode=constant(mode),
        )
        for name, mode in ROI_ALIGN_MODES.items()
    ),
)


# Resizing and spatial transformers.


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

RESAMPLING_ROWS: tuple[Row, ...] = (
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


# Fourier transforms.


def is_inverse(args: Arguments) -> bool | None:
    """Return True for an inverse Fourier transform, None for a forward one, which is the default."""
    return True if args["function"]._method == "ifft" else None


SIGNAL_ROWS: tuple[Row, ...] = (row("FFT", "fft", operands("real", "imaginary"), inverse=is_inverse),)


ROWS: tuple[Row, ...] = (*CONV_ROWS, *POOLING_ROWS, *RESAMPLING_ROWS, *SIGNAL_ROWS)
