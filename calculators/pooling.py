"""Pooling over windows and over regions of interest, and its gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from costcore.ir import Cost, Dim, Layer, Operations, Pattern, Tensor, ceil_div, covers, gcd, minimum, pattern, prod

from ._shared import input_bytes, operations_of, power_operations
from .resampling import calc_resize

# Pooling over windows, and its inverses.


class WindowReduction(NamedTuple):
    """The reduction of one window.

    Attributes:
        combine: operations that join two elements.
        final: operations once per window.
        definition: the expression they are counted from, over the elements x of a window.
    """

    combine: Operations
    final: Operations
    definition: str


MAX = WindowReduction(Operations(cmp=1), Operations(), "max(x)")

AVERAGE = WindowReduction(Operations(add=1), Operations(div=1), "sum(x) / n")

POOLS: Mapping[str, WindowReduction] = {"max_pool": MAX, "avg_pool": AVERAGE, "fractional_max_pool": MAX}


def pool_pattern(layer: Layer) -> Pattern:
    """Return ``reduce`` for global pooling (windows are whole axes), else ``window``."""
    x, y = layer["x"].shape, layer.out.shape
    pooled = [size for size, count in zip(x, y, strict=False) if size != count]
    is_one = len(x) == len(y) and all(count in (1, size) for size, count in zip(x, y, strict=False))
    kernel = layer.attrs.get("kernel")
    return "reduce" if is_one and (kernel is None or prod(kernel) == prod(pooled)) else "window"


@pattern(pool_pattern)
@covers(POOLS)
def calc_pool(layer: Layer) -> Cost:
    """Pooling over windows of k elements.

    Per output element k - 1 maxima, or k - 1 additions and a division.

    Windows are counted completely: elements on padding, or beyond the edge with ``ceil_mode``, take operations but are
    not read. Global pooling has a kernel of the size of the input.

    The indices of maxima are written if they are an output, or if the backward pass will read them: then ``indices`` is
    their dtype.

    Shapes: x[N, C, H, W] -> y[N, C, P, Q]
    Settings: kernel=(K_h, K_w)
    """
    pool, k = POOLS[layer.op], prod(layer.attrs["kernel"])
    operations = layer.out.size * ((k - 1) * pool.combine + pool.final)
    indices = Tensor(layer.out.shape, layer.attrs["indices"]).nbytes if "indices" in layer.attrs else 0
    return Cost(operations, layer.read, layer.written + indices, layer.attrs)


ADAPTIVE: Mapping[str, WindowReduction] = {"adaptive_max_pool": MAX, "adaptive_avg_pool": AVERAGE}


def adaptive_elements(x: tuple[Dim, ...], y: tuple[Dim, ...]) -> Dim:
    """Return the elements of all windows ``floor(i*L/n) .. ceil((i+1)*L/n)`` together.

    Along an axis, they are L + n - gcd(L, n): two neighbors share one element unless their border ``i*L/n`` is an
    integer, as gcd - 1 of the n - 1 borders are.
    """
    return prod(size + count - gcd(size, count) for size, count in zip(x, y, strict=True))


@pattern(pool_pattern)
@covers(ADAPTIVE)
def calc_adaptive_pool(layer: Layer) -> Cost:
    """Adaptive pooling: a given output size, windows that may differ in size.

    Window i of n windows over a length L ranges from ``floor(i*L/n)`` to ``ceil((i+1)*L/n)``. All together have
    L + n - gcd(L, n) elements. A window of k elements takes k - 1 maxima, or k - 1 additions and a division.

    Shapes: x[N, C, H, W] -> y[N, C, P, Q]
    """
    pool, n = ADAPTIVE[layer.op], layer.out.size
    elements = adaptive_elements(layer["x"].shape, layer.out.shape)
    operations = (elements - n) * pool.combine + n * pool.final
    return Cost(operations, layer.read, layer.written, layer.attrs)


LP: Mapping[object, tuple[Operations, WindowReduction]] = {
    1: (Operations(add=1), WindowReduction(Operations(add=1), Operations(), "sum(abs(x))")),
    2: (Operations(), WindowReduction(Operations(fma=1), Operations(mul=1, special=1), "sqrt(dot(x, x))")),
    None: (
        Operations(add=1),
        WindowReduction(Operations(add=1), Operations(special=1), "sum(abs(x) ** p) ** (1 / p)"),
    ),
}


@pattern(pool_pattern)
def calc_lp_pool(layer: Layer) -> Cost:
    """The p-norm of every window of k elements.

    * p = 2 (default): 1 mul, k - 1 fma and a root.
    * p = 1: k absolute values and k - 1 additions.
    * Any other p: k absolute values and powers, k - 1 additions, a root. For p = 3 a power is 2 mul, else 1 special.

    Shapes: x[N, C, H, W] -> y[N, C, P, Q]
    Settings: kernel=(K_h, K_w), p=2
    """
    k = prod(layer.attrs["kernel"])
    p = layer.attrs.get("p", 2)
    each, pool = LP[p if p in LP else None]
    each += power_operations(p) if p not in LP else Operations()
    operations = layer.out.size * (k * each + (k - 1) * pool.combine + pool.final)
    return Cost(operations, layer.read, layer.written, layer.attrs)


INVERSES: Mapping[str, str] = {
    "unpool": "every element of x repeated over its window, or moved to the index that max_pool returned",
    "upsample": "every element of x moved to the index that max_pool returned, zeros elsewhere",
}


@pattern("opaque")
@covers(INVERSES)
def calc_unpool(layer: Layer) -> Cost:
    """Inverses of pooling by copying: no operations; x is read, and the indices if they are an operand.

    Shapes: x[N, C, P, Q], indices[N, C, P, Q] -> y[N, C, H, W]
    """
    return Cost(Operations(), layer.read, layer.written, layer.attrs)


@pattern("window")
def calc_masked_max_pool(layer: Layer) -> Cost:
    """``max_pool`` of the elements that a mask selects: 1 additional cmp per element of x; the mask is read.

    Shapes: x[N, C, H, W], mask[N, C, H, W] -> y[N, C, P, Q]
    Settings: kernel=(K_h, K_w)
    """
    plain = calc_pool(Layer("max_pool", {"x": layer["x"]}, layer.outputs, layer.attrs))
    operations = operations_of(plain) + Operations(cmp=layer["x"].size)
    return Cost(operations, layer.read, layer.written, layer.attrs)


JOINS: Mapping[str, Operations] = {
    "add": Operations(add=1),
    "max": Operations(cmp=1),
    "min": Operations(cmp=1),
    "mul": Operations(mul=1),
}
"""The operation that joins two elements of a window."""


@pattern("window")
def calc_window_reduction(layer: Layer) -> Cost:
    """Reduction of windows of k elements over any axes, by addition, multiplication, maxima or minima.

    k - 1 of these operations per output element. Windows are counted completely, as in pooling: elements on padding
    too.

    Shapes: x[N, H, W, C] -> y[N, P, Q, C]
    Settings: kernel=(1, K_h, K_w, 1), by="add"
    """
    joined = layer.out.size * (prod(layer.attrs["kernel"]) - 1)
    return Cost(joined * JOINS[layer.attrs["by"]], layer.read, layer.written, layer.attrs)


# Regions of interest: pooling, bilinear sampling, crops.


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


# Gradients of pooling over windows and over regions of interest, and of unpooling.


@pattern("window")
def calc_max_pool_backward(layer: Layer) -> Cost:
    """Gradient of max pooling: every element of dy is added at the position of its maximum, to zeros.

    With the indices of the maxima x is not needed. Without them x is read, and the maxima are searched again.

    Shapes: dy[N, C, P, Q], indices[N, C, P, Q] -> dx[N, C, H, W]
    Settings: kernel=(K_h, K_w)
    """
    dy = layer["dy"]
    if "indices" in layer:
        read = dy.nbytes + layer["indices"].nbytes
        return Cost(Operations(add=dy.size), read, layer.written, layer.attrs)
    searches = dy.size * (prod(layer.attrs["kernel"]) - 1)
    return Cost(Operations(add=dy.size, cmp=searches), layer.read, layer.written, layer.attrs)


@pattern("window")
def calc_avg_pool_backward(layer: Layer) -> Cost:
    """Gradient of average pooling: dy is divided once and added to all k elements of its window.

    Shapes: dy[N, C, P, Q] -> dx[N, C, H, W]
    Settings: kernel=(K_h, K_w)
    """
    dy = layer["dy"]
    operations = dy.size * Operations(add=prod(layer.attrs["kernel"]), div=1)
    return Cost(operations, dy.nbytes, layer.written, layer.attrs)


@pattern("window")
def calc_adaptive_max_pool_backward(layer: Layer) -> Cost:
    """Gradient of adaptive max pooling: every element of dy is added at the position of its maximum.

    Shapes: dy[N, C, P, Q], indices[N, C, P, Q] -> dx[N, C, H, W]
    """
    read = sum(operand.nbytes for name, operand in layer.inputs.items() if name != "x")
    return Cost(Operations(add=layer["dy"].size), read, layer.written, layer.attrs)


@pattern("window")
def calc_adaptive_avg_pool_backward(layer: Layer) -> Cost:
    """Gradient of adaptive average pooling: dy is divided once and added to all elements of its window.

    Shapes: dy[N, C, P, Q] -> dx[N, C, H, W]
    """
    dy = layer["dy"]
    elements = adaptive_elements(layer.out.shape, dy.shape)
    return Cost(Operations(add=elements, div=dy.size), dy.nbytes, layer.written, layer.attrs)


_INDEX_OPERANDS = ("dy", "rois", "roi_indices", "indices")


@pattern("opaque")
def calc_roi_max_pool_backward(layer: Layer) -> Cost:
    """Gradient of roi_max_pool: every element of dy is added at the position of its maximum, to zeros.

    Shapes: dy[R, C, P, Q], rois[R, 5], indices[R, C, P, Q] -> dx[N, C, H, W]
    """
    return Cost(Operations(add=layer["dy"].size), input_bytes(layer, *_INDEX_OPERANDS), layer.written, layer.attrs)


@pattern("opaque")
@covers("roi_avg_pool_backward", "ps_roi_avg_pool_backward")
def calc_roi_avg_pool_backward(layer: Layer) -> Cost:
    """Gradient of roi_avg_pool and ps_roi_avg_pool: dy is divided once and added to all elements of its window.

    The count assumes that every region covers the whole map, as for ``roi_avg_pool``.

    Shapes: dy[R, C, P, Q], rois[R, 5] -> dx[N, C, H, W]
    """
    dy = layer["dy"]
    elements = prod(dy.shape[:2]) * adaptive_elements(layer.out.shape[2:], dy.shape[2:])
    return Cost(Operations(add=elements, div=dy.size), input_bytes(layer, *_INDEX_OPERANDS), layer.written, layer.attrs)


@pattern("opaque")
@covers("roi_align_backward", "ps_roi_align_backward")
def calc_roi_align_backward(layer: Layer) -> Cost:
    """Gradient of roi_align and ps_roi_align: weighted dy is added to the four elements of x that each sample needed.

    4 mul and 4 add per sample, and one division of dy by the number of samples. With ``mode`` "max" only the largest
    sample has a gradient, and there is no division. Attributes are those of ``roi_align``.

    Shapes: dy[R, C, P, Q], rois[R, 5] -> dx[N, C, H, W]
    Settings: sampling=(S_h, S_w)
    """
    dy, dx = layer["dy"], layer.out
    sampling = layer.attrs.get("sampling") or (0, 0)
    bins = zip(sampling, dx.shape[2:], dy.shape[2:], strict=True)
    is_max = layer.attrs.get("mode", "avg") == "max"
    s = 1 if is_max else prod(ceil_div(size, count) if given == 0 else given for given, size, count in bins)
    operations = dy.size * (s * Operations(mul=4, add=4) + Operations(div=0 if is_max else 1))
    return Cost(operations, input_bytes(layer, *_INDEX_OPERANDS), layer.written, layer.attrs)


@pattern("window")
def calc_unpool_backward(layer: Layer) -> Cost:
    """Gradient of unpooling: the sum of dy over the copies of each element, or its element at the index.

    Shapes: dy[N, C, 2*P, 2*Q] -> dx[N, C, P, Q]
    """
    dy, dx = layer["dy"], layer.out
    if "indices" in layer:
        read = dy.bytes_of_part(dx.size) + layer["indices"].nbytes
        return Cost(Operations(), read, layer.written, layer.attrs)
    return Cost(Operations(add=dy.size - dx.size), dy.nbytes, layer.written, layer.attrs)
