"""Pooling over windows, its inverses, and their gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from costcore.ir import Cost, Dim, Layer, Operations, ceil_div, covers, gcd, minimum, prod


class Window(NamedTuple):
    """What pooling does: to join two elements of a window, to finish it, and the definition over its elements x."""

    combine: Operations
    final: Operations
    definition: str


MAX = Window(Operations(cmp=1), Operations(), "max(x)")
AVERAGE = Window(Operations(add=1), Operations(div=1), "sum(x) / n")

POOLS: Mapping[str, Window] = {"max_pool": MAX, "avg_pool": AVERAGE, "fractional_max_pool": MAX}


@covers(POOLS)
def calc_pool(layer: Layer) -> Cost:
    """Pooling over windows of k elements: k - 1 maxima, or k - 1 additions and a division, per output element.

    Windows count whole: elements on padding, or beyond the edge with ``ceil_mode``, are computed with, but not read.
    The indices of maxima are written where they are an output. Global pooling has a kernel of the input's size.

    Shapes: x[N, C, H, W] -> y[N, C, P, Q]
    Settings: kernel=(K_h, K_w)
    """
    pool, k = POOLS[layer.op], prod(layer.attrs["kernel"])
    operations = layer.out.size * ((k - 1) * pool.combine + pool.final)
    return Cost(operations, layer.read, layer.written, layer.attrs)


ADAPTIVE: Mapping[str, Window] = {"adaptive_max_pool": MAX, "adaptive_avg_pool": AVERAGE}


def adaptive_elements(x: tuple[Dim, ...], y: tuple[Dim, ...]) -> Dim:
    """Elements of all windows ``floor(i*L/n) .. ceil((i+1)*L/n)`` together: L + n - gcd(L, n) along an axis.

    Two neighbours share one element unless their border ``i*L/n`` is whole, which it is at gcd - 1 of n - 1 borders.
    """
    return prod(size + count - gcd(size, count) for size, count in zip(x, y, strict=True))


@covers(ADAPTIVE)
def calc_adaptive_pool(layer: Layer) -> Cost:
    """Pooling to a given output size, in windows that may differ in size.

    Of n windows over a length L, window i reaches from ``floor(i*L/n)`` to ``ceil((i+1)*L/n)``; all together hold
    L + n - gcd(L, n) elements. A window of k elements takes k - 1 maxima, or k - 1 additions and a division.

    Shapes: x[N, C, H, W] -> y[N, C, P, Q]
    """
    pool, n = ADAPTIVE[layer.op], layer.out.size
    elements = adaptive_elements(layer["x"].shape, layer.out.shape)
    operations = (elements - n) * pool.combine + n * pool.final
    return Cost(operations, layer.read, layer.written, layer.attrs)


LP: Mapping[object, tuple[Operations, Window]] = {
    1: (Operations(add=1), Window(Operations(add=1), Operations(), "sum(abs(x))")),
    2: (Operations(), Window(Operations(fma=1), Operations(mul=1, special=1), "sqrt(dot(x, x))")),
    None: (
        Operations(add=1, special=1),
        Window(Operations(add=1), Operations(special=1), "sum(abs(x) ** p) ** (1 / p)"),
    ),
}


def calc_lp_pool(layer: Layer) -> Cost:
    """The p-norm of every window of k elements: for p = 2 (the default) 1 mul, k - 1 fma and a root.

    For p = 1 k absolute values and k - 1 additions; otherwise k absolute values and powers, k - 1 additions, a root.

    Shapes: x[N, C, H, W] -> y[N, C, P, Q]
    Settings: kernel=(K_h, K_w), p=2
    """
    k = prod(layer.attrs["kernel"])
    p = layer.attrs.get("p", 2)
    each, pool = LP[p if p in LP else None]
    operations = layer.out.size * (k * each + (k - 1) * pool.combine + pool.final)
    return Cost(operations, layer.read, layer.written, layer.attrs)


INVERSES: Mapping[str, str] = {
    "unpool": "every element of x repeated over its window, or put where the indices of max_pool say",
    "upsample": "every element of x put where the indices of max_pool say, zeros elsewhere",
}


@covers(INVERSES)
def calc_unpool(layer: Layer) -> Cost:
    """Inverse of pooling by copying: no operations; x is read, and the indices where they are an operand.

    Shapes: x[N, C, P, Q], indices[N, C, P, Q] -> y[N, C, H, W]
    """
    return Cost(Operations(), layer.read, layer.written, layer.attrs)


ROI_POOLS: Mapping[str, Window] = {"roi_max_pool": MAX, "roi_avg_pool": AVERAGE}


@covers(ROI_POOLS)
def calc_roi_pool(layer: Layer) -> Cost:
    """Pooling of regions whose places are data: the bound where every region covers the whole map.

    A region is cut into windows as in adaptive pooling; so all together hold at most L + n - gcd(L, n) elements along
    an axis. x and the regions are read whole.

    Source: Girshick, Fast R-CNN, arXiv:1504.08083.

    Shapes: x[N, C, H, W], rois[R, 5] -> y[R, C, P, Q]
    """
    pool, n = ROI_POOLS[layer.op], layer.out.size
    regions = prod(layer.out.shape[:2])
    elements = regions * adaptive_elements(layer["x"].shape[2:], layer.out.shape[2:])
    operations = (elements - n) * pool.combine + n * pool.final
    return Cost(operations, layer.read, layer.written, layer.attrs)


ROI_ALIGNS: Mapping[str, str] = {
    "roi_align": "samples of the region's map",
    "ps_roi_align": "samples of the map that belongs to the bin's place",
}


@covers(ROI_ALIGNS)
def calc_roi_align(layer: Layer) -> Cost:
    """Bilinear samples at s places of every bin of a region, averaged or their maximum taken (``mode`` avg or max).

    A sample is 3 mul and 6 add; s samples are joined by s - 1 additions and a division, or s - 1 maxima.
    ``sampling`` is the number of samples along each axis (a tuple); None, or 0 for an axis, leaves it to the region's
    size, and the bound of a region that covers the whole map is taken, ``ceil(L / n)``. Each sample needs four
    elements of x.

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
    read = x.bytes_of(minimum(4 * s * y.size, x.size)) + layer.read - x.nbytes
    return Cost(operations, read, layer.written, layer.attrs)


def calc_max_pool_backward(layer: Layer) -> Cost:
    """Gradient of max pooling: every element of dy is added where the maximum was, onto a gradient starting at zero.

    With the indices of the maxima x is not needed; without them x is read, and the maxima are found again.

    Shapes: dy[N, C, P, Q], indices[N, C, P, Q] -> dx[N, C, H, W]
    Settings: kernel=(K_h, K_w)
    """
    dy = layer["dy"]
    if "indices" in layer:
        read = dy.nbytes + layer["indices"].nbytes
        return Cost(Operations(add=dy.size), read, layer.written, layer.attrs)
    searches = dy.size * (prod(layer.attrs["kernel"]) - 1)
    return Cost(Operations(add=dy.size, cmp=searches), layer.read, layer.written, layer.attrs)


def calc_avg_pool_backward(layer: Layer) -> Cost:
    """Gradient of average pooling: dy is divided once and added to all k elements of its window.

    Shapes: dy[N, C, P, Q] -> dx[N, C, H, W]
    Settings: kernel=(K_h, K_w)
    """
    dy = layer["dy"]
    operations = dy.size * Operations(add=prod(layer.attrs["kernel"]), div=1)
    return Cost(operations, dy.nbytes, layer.written, layer.attrs)


def calc_adaptive_avg_pool_backward(layer: Layer) -> Cost:
    """Gradient of adaptive average pooling: dy is divided once and added to all elements of its window.

    Shapes: dy[N, C, P, Q] -> dx[N, C, H, W]
    """
    dy = layer["dy"]
    elements = adaptive_elements(layer.out.shape, dy.shape)
    return Cost(Operations(add=elements, div=dy.size), dy.nbytes, layer.written, layer.attrs)


def calc_adaptive_max_pool_backward(layer: Layer) -> Cost:
    """Gradient of adaptive max pooling: every element of dy is added where the maximum was.

    Shapes: dy[N, C, P, Q], indices[N, C, P, Q] -> dx[N, C, H, W]
    """
    read = sum(operand.nbytes for name, operand in layer.inputs.items() if name != "x")
    return Cost(Operations(add=layer["dy"].size), read, layer.written, layer.attrs)
