"""Gradients of pooling over windows and over regions of interest, and of unpooling."""

from __future__ import annotations

from costcore.ir import Cost, Layer, Operations, ceil_div, covers, pattern, prod

from .._shared import input_bytes
from .pooling import adaptive_elements


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

    4 mul and 4 add per sample, and a division of dy by their number. With ``mode`` "max" only the sample that was the
    maximum counts. Attributes are those of ``roi_align``.

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
