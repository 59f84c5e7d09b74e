"""Gathering, scattering and softmax under a mask."""

from __future__ import annotations

from costcore.ir import Cost, Layer, Operations

from .._shared import row_count
from ..activation.softmax import softmax_operations


def calc_masked_gather(layer: Layer) -> Cost:
    """Elements of x at indices, and a fill value if the mask does not hold: 1 cmp per element of y.

    |y| elements of x are read.

    Shapes: x[N, C], mask[M], indices[M] -> y[M]
    """
    x, y = layer["x"], layer.out
    read = x.bytes_of(y.size) + layer.read - x.nbytes
    return Cost(Operations(cmp=y.size), read, layer.written, layer.attrs)


def calc_masked_scatter_add(layer: Layer) -> Cost:
    """Copy of x with updates added at indices if the mask holds: 1 cmp and 1 add per update.

    Shapes: x[N, C], mask[M], indices[M], updates[M] -> y[N, C]
    """
    n = layer["updates"].size
    return Cost(Operations(add=n, cmp=n), layer.read, layer.written, layer.attrs)


def calc_masked_scatter_backward(layer: Layer) -> Cost:
    """Gradient of masked_scatter for its updates: the elements of dy under the mask, no operations.

    Shapes: dy[N, C], mask[N, C] -> dupdates[M]
    """
    return Cost(Operations(), layer.read, layer.written, layer.attrs)


def calc_masked_softmax(layer: Layer) -> Cost:
    """Softmax along ``axis`` of the elements that a mask selects: 1 cmp per element, and the softmax.

    Shapes: x[N, C], mask[N, C] -> y[N, C]
    Settings: axis=1
    """
    x = layer["x"]
    operations = softmax_operations(x.size, row_count(x.shape, layer.attrs["axis"])) + Operations(cmp=x.size)
    return Cost(operations, layer.read, layer.written, layer.attrs)
