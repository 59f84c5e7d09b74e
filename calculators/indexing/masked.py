"""Gathering, scattering and selecting under a mask."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Layer, Operations, covers, pattern


@pattern("opaque")
def calc_masked_gather(layer: Layer) -> Cost:
    """Elements of x at indices, and a fill value if the mask does not hold: 1 cmp per element of y.

    |y| elements of x are read.

    Shapes: x[N, C], mask[M], indices[M] -> y[M]
    """
    x, y = layer["x"], layer.out
    read = x.bytes_of_part(y.size) + layer.read - x.nbytes
    return Cost(Operations(cmp=y.size), read, layer.written, layer.attrs)


@pattern("opaque")
def calc_masked_scatter_add(layer: Layer) -> Cost:
    """Copy of x with updates added at indices if the mask holds: 1 cmp and 1 add per update.

    Shapes: x[N, C], mask[M], indices[M], updates[M] -> y[N, C]
    """
    n = layer["updates"].size
    return Cost(Operations(add=n, cmp=n), layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_masked_scatter_backward(layer: Layer) -> Cost:
    """Gradient of masked_scatter for its updates: the elements of dy under the mask, no operations.

    Shapes: dy[N, C], mask[N, C] -> dupdates[M]
    """
    return Cost(Operations(), layer.read, layer.written, layer.attrs)


MASKED: Mapping[str, str] = {
    "masked_select": "the elements of x that the mask selects",
    "masked_scatter": "x with consecutive updates at the elements that the mask selects",
}


@pattern("opaque")
@covers(MASKED)
def calc_masked(layer: Layer) -> Cost:
    """Elements moved from or to the positions that a mask selects: no operations.

    All operands are read, because the selected elements are unknown.

    Shapes: x[N, C], mask[N, C] -> y[N*C]
    """
    return Cost(Operations(), layer.read, layer.written, layer.attrs)
