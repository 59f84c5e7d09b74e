"""Gathering and scattering at given indices, and their gradients."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Layer, Operations, covers, minimum, pattern

GATHERS: Mapping[str, str] = {
    "gather": "slices of x at indices along an axis (index_select, take), or by several index arrays",
    "gather_elements": "elements of x, each at its own index along an axis",
    "gather_nd": "slices of x at tuples of indices",
}


@pattern("move")
@covers(GATHERS)
def calc_gather(layer: Layer) -> Cost:
    """Elements of x at given indices: no operations; |y| elements of x are read, and all indices.

    Shapes: x[N, C], indices[M] -> y[M, C]
    Settings: axis=0
    """
    x = layer["x"]
    read = x.bytes_of(layer.out.size) + layer.read - x.nbytes
    return Cost(Operations(), read, layer.written, layer.attrs)


SCATTERS: Mapping[str, str] = {
    "scatter": "x with slices updated at indices along an axis (index_add, index_put)",
    "scatter_elements": "x with each update at its own index along an axis",
    "scatter_nd": "x with updates at tuples of indices",
}
UPDATES: Mapping[str, Operations] = {
    "none": Operations(),
    "add": Operations(add=1),
    "mean": Operations(add=1),
    "mul": Operations(mul=1),
    "max": Operations(cmp=1),
    "min": Operations(cmp=1),
}
"""The operations that join one update to an element, by the attribute ``reduction``."""


@pattern("opaque")
@covers(SCATTERS)
def calc_scatter(layer: Layer) -> Cost:
    """Copy of x with updates at given indices: one operation per update, none if updates replace elements.

    ``reduction`` is ``"none"`` (default), ``"add"``, ``"mul"``, ``"max"``, ``"min"`` or ``"mean"`` (sums, then a
    division per output element). A scalar update counts once per index. A factor ``alpha`` other than 1 makes an
    addition an fma. x is read completely, because the replaced elements are unknown.

    Shapes: x[N, C], indices[M], updates[M, C] -> y[N, C]
    Settings: axis=0, reduction="add"
    """
    updates = layer["updates"] if not layer["updates"].is_scalar else layer["indices"]
    reduction = layer.attrs.get("reduction", "none")
    operations = updates.size * (UPDATES[reduction] if layer.attrs.get("alpha", 1) == 1 else Operations(fma=1))
    if reduction == "mean":
        operations += Operations(div=layer.out.size)
    return Cost(operations, layer.read, layer.written, layer.attrs)


OVERWRITES: Mapping[str, str] = {
    "slice_scatter": "x with a range replaced by updates",
    "select_scatter": "x with one index along an axis replaced by updates",
    "diagonal_scatter": "x with a diagonal replaced by updates",
    "tensor_scatter": "a cache x with updates at its fill positions",
}


@pattern("move")
@covers(OVERWRITES)
def calc_overwrite(layer: Layer) -> Cost:
    """Copy of x with a region replaced: no operations.

    The region is read from the updates, the other elements from x.

    Shapes: x[N, C], updates[M, C] -> y[N, C]
    """
    x, updates = layer["x"], layer["updates"]
    read = layer.read - x.nbytes + x.bytes_of_part(x.size - updates.size)
    return Cost(Operations(), read, layer.written, layer.attrs)


SELECTION_GRADIENTS: Mapping[str, str] = {
    "slice_backward": "dy at the range, zeros elsewhere",
    "select_backward": "dy at the index, zeros elsewhere",
    "diagonal_backward": "dy on the diagonal, zeros elsewhere",
    "split_backward": "the gradients of all outputs, concatenated",
    "concat_backward": "ranges of dy, one per operand",
}


@pattern("move")
@covers(SELECTION_GRADIENTS)
def calc_selection_gradient(layer: Layer) -> Cost:
    """Gradient of a selection: no operations; dy at its original positions, zeros elsewhere.

    Shapes: dy[M, C] -> dx[N, C]
    """
    return Cost(Operations(), layer.read, layer.written, layer.attrs)


GATHER_GRADIENTS: Mapping[str, str] = {
    "embedding_backward": "dy added to the selected rows of w",
    "gather_backward": "dy added at the gathered positions",
    "pad_backward": "dy added at the source positions of a reflected or replicated border",
    "as_strided_backward": "dy added at the strided positions",
    "unfold_backward": "dy added at the positions of the ranges",
}


@pattern("opaque")
@covers(GATHER_GRADIENTS)
def calc_gather_gradient(layer: Layer) -> Cost:
    """Gradient of elements selected by index: every element of dy is added to a gradient of zeros.

    The input of the forward operator is not needed. Its indices are read if they are an operand, ``indices`` (``x`` of
    an embedding).

    Shapes: dy[M, C], indices[M] -> dx[N, C]
    """
    read = sum(operand.nbytes for name, operand in layer.inputs.items() if name != "w")
    return Cost(Operations(add=layer["dy"].size), read, layer.written, layer.attrs)


@pattern("opaque")
def calc_compress(layer: Layer) -> Cost:
    """Slices of x for which a condition holds: no operations.

    At most |y| elements of x are read, and the condition.

    Shapes: x[N, C], condition[N] -> y[M, C]
    """
    x = layer["x"]
    read = x.bytes_of_part(minimum(layer.out.size, x.size)) + layer.read - x.nbytes
    return Cost(Operations(), read, layer.written, layer.attrs)
