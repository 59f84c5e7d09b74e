"""Rows of pooling over regions and of sampling at given points."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.translate import Arguments, Row

from .rows.arguments import array, at, constant, gradient, named, row, same_rows

X_REGIONS = named("x", "rois", "roi_indices")
GRADIENT = {"dy": gradient(0), "rois": at(1), "roi_indices": at(2)}
POOLS: Mapping[str, str] = {"ROIAveragePooling2D": "roi_avg_pool", "ROIMaxPooling2D": "roi_max_pool"}
ALIGNS: Mapping[str, str] = {"ROIAverageAlign2D": "avg", "ROIMaxAlign2D": "max"}


def sampling(args: Arguments) -> tuple[int, ...]:
    """Samples along each axis of a bin, 0 where they depend on the region's size."""
    return tuple(given or 0 for given in args["function"].sampling_ratio)


ROWS: tuple[Row, ...] = (
    row("ROIPooling2D", "roi_max_pool", named("x", "rois")),
    row("ROIPooling2DGrad", "roi_max_pool_backward", {"dy": at(1), "rois": at(0), "indices": array("argmax_data")}),
    *same_rows(POOLS, X_REGIONS),
    row("ROIMaxPooling2DBackward", "roi_max_pool_backward", {**GRADIENT, "indices": array("argmax_data")}),
    row("ROIAveragePooling2DBackward", "roi_avg_pool_backward", GRADIENT),
    *(row(name, "roi_align", X_REGIONS, sampling=sampling, mode=constant(mode)) for name, mode in ALIGNS.items()),
    *(
        row(
            f"{name}Backward",
            "roi_align_backward",
            {**GRADIENT, "indices": array("argmax_data")},
            sampling=sampling,
            mode=constant(mode),
        )
        for name, mode in ALIGNS.items()
    ),
    row("SpatialTransformerGrid", "affine_grid", named("theta")),
    row("SpatialTransformerGridBackward", "affine_grid_backward", {"dy": gradient(0), "theta": at(0)}),
    row("SpatialTransformerSampler", "grid_sample", named("x", "grid"), mode=constant("linear")),
    row(
        "SpatialTransformerSamplerBackward",
        "grid_sample_backward",
        {"dy": gradient(0), "x": at(0), "grid": at(1)},
        mode=constant("linear"),
    ),
)
