"""Rows of pooling, unpooling and pooling of regions of interest, and of their gradients."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.translate import Arguments, Row, Source

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
    pooling_attribute,
    row,
    with_saved_array,
)

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


ROWS: tuple[Row, ...] = (
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
