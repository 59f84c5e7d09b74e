"""Regions of interest: pooling, bilinear sampling, crops."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Layer, Operations, ceil_div, covers, minimum, pattern, prod

from .._shared import input_bytes
from ..resampling.interpolation import calc_resize
from .pooling import AVERAGE, MAX, WindowReduction, adaptive_elements

ROI_POOLS: Mapping[str, WindowReduction] = {"roi_max_pool": MAX, "roi_avg_pool": AVERAGE, "ps_roi_avg_pool": AVERAGE}


@pattern("window")
@covers(ROI_POOLS)
def calc_roi_pool(layer: Layer) -> Cost:
    """Pooling of regions of interest; in ``ps_roi_avg_pool`` every position of a window has channels of its own.

    The count assumes that every region covers the whole map, the maximum.

    A region is divided into windows as in adaptive pooling, which together have at most L + n - gcd(L, n) elements
    along an axis. x and the regions are read completely.

    Source: Girshick, Fast R-CNN, arXiv:1504.08083; Dai et al., R-FCN, arXiv:1605.06409.

    Shapes: x[N, C, H, W], rois[R, 5] -> y[R, C, P, Q]
    """
    pool, n = ROI_POOLS[layer.op], layer.out.size
    regions = prod(layer.out.shape[:2])
    elements = regions * adaptive_elements(layer["x"].shape[2:], layer.out.shape[2:])
    operations = (elements - n) * pool.combine + n * pool.final
    return Cost(operations, layer.read, layer.written, layer.attrs)


ROI_ALIGNS: Mapping[str, str] = {
    "roi_align": "samples of the map of each channel",
    "ps_roi_align": "samples of the map that belongs to the position of the bin",
}


@pattern("window")
@covers(ROI_ALIGNS)
def calc_roi_align(layer: Layer) -> Cost:
    """Bilinear samples of regions of interest: s samples per bin.

    They are averaged, or their maximum is taken (``mode`` avg or max).

    * A sample: 3 mul and 6 add; it needs four elements of x.
    * The bin: s - 1 additions and a division, or s - 1 maxima.

    ``sampling`` is the number of samples along each axis (a tuple). None, or 0 for an axis, means that it depends on
    the size of the region; the count then assumes a region that covers the whole map, ``ceil(L / n)`` samples.

    Source: He et al., Mask R-CNN, arXiv:1703.06870.

    Shapes: x[N, C, H, W], rois[R, 5] -> y[R, C, P, Q]
    Settings: sampling=(S_h, S_w)
    """
    x, y = layer["x"], layer.out
    sampling = layer.attrs.get("sampling") or (0, 0)
    bins = zip(sampling, x.shape[2:], y.shape[2:], strict=True)
    s = prod(ceil_div(size, count) if given == 0 else given for given, size, count in bins)
    pool = MAX if layer.attrs.get("mode", "avg") == "max" else AVERAGE
    operations = y.size * (s * Operations(mul=3, add=6) + (s - 1) * pool.combine + pool.final)
    read = x.bytes_of_part(minimum(4 * s * y.size, x.size)) + layer.read - x.nbytes
    return Cost(operations, read, layer.written, layer.attrs)


@pattern("window")
def calc_crop_and_resize(layer: Layer) -> Cost:
    """Crops of images at boxes that are data, each resized by interpolation as in ``resize``.

    The boxes and the image index of each are read. Their conversion to positions and weights is index arithmetic.

    Shapes: x[N, C, H, W], rois[R, 4], indices[R] -> y[R, C, P, Q]
    Settings: mode="linear"
    """
    plain = calc_resize(Layer("resize", {"x": layer["x"]}, layer.outputs, layer.attrs))
    read = plain.mread + input_bytes(layer, "rois", "indices")
    return Cost(plain.flops, read, layer.written, layer.attrs)
