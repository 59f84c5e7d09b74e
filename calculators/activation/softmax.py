"""Softmax, its relatives and their gradients."""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations, pattern

from .._shared import dot_products, row_count


def softmax_operations(elements: Dim, count: Dim) -> Operations:
    """Return the operations of the softmax of ``count`` rows with ``elements`` elements in all."""
    return Operations(add=elements - count, div=elements, special=elements)


def log_softmax_operations(elements: Dim, count: Dim) -> Operations:
    """Return the operations of the log_softmax of ``count`` rows with ``elements`` elements in all."""
    return Operations(add=2 * elements - count, special=elements + count)


@pattern("reduce")
def calc_softmax(layer: Layer) -> Cost:
    """Softmax, exp(x) / sum(exp(x)) along ``axis`` (a tuple of several axes is allowed).

    Per row of length c:

    * c exp;
    * c - 1 add for the sum;
    * c div.

    Implementations subtract the maximum first. That is not part of the definition and is not counted, as in
    chainer-computational-cost.

    Shapes: x[N, C] -> y[N, C]
    Settings: axis=1
    """
    x = layer["x"]
    operations = softmax_operations(x.size, row_count(x.shape, layer.attrs["axis"]))
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("reduce")
def calc_log_softmax(layer: Layer) -> Cost:
    """Logarithm of softmax, x - log(sum(exp(x))) along ``axis``.

    Per row of length c: c exp, c - 1 add for the sum, 1 log, c subtractions. As in ``softmax``, the subtraction of the
    maximum is not counted.

    Shapes: x[N, C] -> y[N, C]
    Settings: axis=1
    """
    x = layer["x"]
    operations = log_softmax_operations(x.size, row_count(x.shape, layer.attrs["axis"]))
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("reduce")
def calc_softmin(layer: Layer) -> Cost:
    """Softmin: the softmax of -x along ``axis``, with one negation more per element.

    Shapes: x[N, C] -> y[N, C]
    Settings: axis=1
    """
    x = layer["x"]
    operations = softmax_operations(x.size, row_count(x.shape, layer.attrs["axis"])) + Operations(add=x.size)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("reduce")
def calc_softmax_backward(layer: Layer) -> Cost:
    """Backward of softmax, dx = y (dy - sum(dy y)) along ``axis``.

    Per row of length c: the sum (1 mul, c - 1 fma), c subtractions, c mul.

    Shapes: dy[N, C], y[N, C] -> dx[N, C]
    Settings: axis=1
    """
    size = layer["dy"].size
    operations = dot_products(row_count(layer["dy"].shape, layer.attrs["axis"]), size) + Operations(add=size, mul=size)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("reduce")
def calc_log_softmax_backward(layer: Layer) -> Cost:
    """Backward of log_softmax, dx = dy - exp(y) sum(dy) along ``axis``.

    Per row of length c: the sum (c - 1 add), c exp, and their products with the sum, subtracted from dy (c fma).

    Shapes: dy[N, C], y[N, C] -> dx[N, C]
    Settings: axis=1
    """
    size = layer["dy"].size
    count = row_count(layer["dy"].shape, layer.attrs["axis"])
    operations = Operations(fma=size, add=size - count, special=size)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("reduce")
def calc_softmin_backward(layer: Layer) -> Cost:
    """Backward of softmin, dx = y (sum(dy y) - dy): the same operations as ``softmax_backward``.

    Shapes: dy[N, C], y[N, C] -> dx[N, C]
    Settings: axis=1
    """
    return calc_softmax_backward(layer)


@pattern("reduce")
def calc_masked_softmax(layer: Layer) -> Cost:
    """Softmax along ``axis`` of the elements that a mask selects: 1 cmp per element, and the softmax.

    Shapes: x[N, C], mask[N, C] -> y[N, C]
    Settings: axis=1
    """
    x = layer["x"]
    operations = softmax_operations(x.size, row_count(x.shape, layer.attrs["axis"])) + Operations(cmp=x.size)
    return Cost(operations, layer.read, layer.written, layer.attrs)
