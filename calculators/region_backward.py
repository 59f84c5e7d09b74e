"""Gradients of pooling over regions and of sampling."""

from __future__ import annotations

from costcore.ir import Cost, Layer, Operations, ceil_div, minimum, prod

from .parts import dot_products, needed, read_of
from .pooling import adaptive_elements
from .resampling import SAMPLES

_PLACES = ("dy", "rois", "roi_indices", "indices")


def calc_roi_max_pool_backward(layer: Layer) -> Cost:
    """Gradient of roi_max_pool: every element of dy is added where the maximum was, onto a gradient of zeros.

    Shapes: dy[R, C, P, Q], rois[R, 5], indices[R, C, P, Q] -> dx[N, C, H, W]
    """
    return Cost(Operations(add=layer["dy"].size), read_of(layer, *_PLACES), layer.written, layer.attrs)


def calc_roi_avg_pool_backward(layer: Layer) -> Cost:
    """Gradient of roi_avg_pool: dy is divided once and added to all elements of its window.

    The bound where every region covers the whole map, as for the pooling itself.

    Shapes: dy[R, C, P, Q], rois[R, 5] -> dx[N, C, H, W]
    """
    dy = layer["dy"]
    elements = prod(dy.shape[:2]) * adaptive_elements(layer.out.shape[2:], dy.shape[2:])
    return Cost(Operations(add=elements, div=dy.size), read_of(layer, *_PLACES), layer.written, layer.attrs)


def calc_roi_align_backward(layer: Layer) -> Cost:
    """Gradient of roi_align: dy, weighted, is added to the four elements of x that each sample needed.

    4 mul and 4 add a sample, and a division of dy by their number. ``mode`` "max": only the sample that was the
    maximum. Settings are those of roi_align.

    Shapes: dy[R, C, P, Q], rois[R, 5] -> dx[N, C, H, W]
    Settings: sampling=(S_h, S_w)
    """
    dy, dx = layer["dy"], layer.out
    sampling = layer.attrs.get("sampling") or (0, 0)
    bins = zip(sampling, dx.shape[2:], dy.shape[2:], strict=True)
    is_max = layer.attrs.get("mode", "avg") == "max"
    s = 1 if is_max else prod(ceil_div(size, count) if given == 0 else given for given, size, count in bins)
    operations = dy.size * (s * Operations(mul=4, add=4) + Operations(div=0 if is_max else 1))
    return Cost(operations, read_of(layer, *_PLACES), layer.written, layer.attrs)


def calc_grid_sample_backward(layer: Layer) -> Cost:
    """Gradients of samples at given points, of x and of the points, as far as ``needs`` names them.

    A sample is a weighted sum of t elements of x (nearest 1, linear 2^r, cubic 4^r). dx: dy, weighted, added to them,
    t mul and add (nearest t add). The gradient of each of r coordinates: another weighted sum of the same elements
    (t mul, t-1 add) for every element of dy, its dot product with dy over the channels, 1 mul for the scale of the
    coordinate; for the mode nearest it is zero. Weights are index arithmetic.

    Source: Jaderberg et al., Spatial Transformer Networks, arXiv:1506.02025.

    Shapes: dy[N, C, P, Q], x[N, C, H, W], grid[N, P, Q, 2] -> dx[N, C, H, W], dgrid[N, P, Q, 2]
    Settings: mode="linear", needs=("x", "grid")
    """
    dy, x, grid, wanted = layer["dy"], layer["x"], layer["grid"], needed(layer, "x", "grid")
    rank, is_nearest = x.ndim - 2, layer.attrs["mode"] == "nearest"
    taps, _ = SAMPLES[layer.attrs["mode"]](rank)
    operations, read = Operations(), dy.nbytes + grid.nbytes
    if "x" in wanted:
        operations += dy.size * taps * Operations(mul=0 if is_nearest else 1, add=1)
    if "grid" in wanted and not is_nearest:
        operations += dy.size * rank * Operations(mul=taps, add=taps - 1)
        operations += dot_products(grid.size, dy.size * rank) + Operations(mul=grid.size)
        read += x.bytes_of(minimum(taps * dy.size, x.size))
    return Cost(operations, read, layer.written, layer.attrs)


def calc_affine_grid_backward(layer: Layer) -> Cost:
    """Gradient of affine_grid: dy times the points in homogeneous coordinates, (p_1, ..., p_r, 1), which are free.

    Each of r (r + 1) elements of theta's gradient is a dot product over all points of the grid, and macs.

    Shapes: dy[N, P, Q, 2], theta[N, 2, 3] -> dtheta[N, 2, 3]
    """
    dy, dtheta = layer["dy"], layer.out
    products = dy.size * dtheta.shape[2]
    return Cost(dot_products(dtheta.size, products), dy.nbytes, layer.written, layer.attrs, products)
