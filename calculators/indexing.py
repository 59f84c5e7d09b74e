"""Gathering, scattering and reducing elements that indices, masks or segments select.

Equal indices are unknown, so an element that is selected twice is read twice.
"""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Layer, Operations, covers, minimum, pattern

from ._shared import dot_products, index_bytes, input_bytes, saved_bytes

# Gathering and scattering at given indices, and their gradients.


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
    "div": Operations(div=1),
    "max": Operations(cmp=1),
    "min": Operations(cmp=1),
}
"""The operations that join one update to an element, by the attribute ``reduction``."""


@pattern("opaque")
@covers(SCATTERS)
def calc_scatter(layer: Layer) -> Cost:
    """Copy of x with updates at given indices: one operation per update, none if updates replace elements.

    ``reduction`` is ``"none"`` (default), ``"add"``, ``"mul"``, ``"div"``, ``"max"``, ``"min"`` or ``"mean"`` (sums,
    then a division per output element). A scalar update counts once per index. A factor ``alpha`` other than 1 makes
    an addition an fma. x is read completely, because the replaced elements are unknown.

    The updates may be the values of a sparse tensor: the attribute ``indices`` has the number of its indices, of 8
    bytes each.

    Shapes: x[N, C], indices[M]?, updates[M, C] -> y[N, C]
    Settings: axis=0, reduction="add"
    """
    updates = layer["updates"] if not layer["updates"].is_scalar else layer["indices"]
    reduction = layer.attrs.get("reduction", "none")
    operations = updates.size * (UPDATES[reduction] if layer.attrs.get("alpha", 1) == 1 else Operations(fma=1))
    if reduction == "mean":
        operations += Operations(div=layer.out.size)
    return Cost(operations, layer.read + index_bytes(layer), layer.written, layer.attrs)


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


# Embeddings, embedding bags and their gradients.


@pattern("move")
def calc_embedding(layer: Layer) -> Cost:
    """Rows of a weight matrix by index: no operations; |y| elements of w are read, and the indices x.

    Shapes: x[N, T], w[V, D] -> y[N, T, D]
    """
    x, w = layer["x"], layer["w"]
    return Cost(Operations(), x.nbytes + w.bytes_of(layer.out.size), layer.written, layer.attrs)


@pattern("window")
def calc_embedding_bag(layer: Layer) -> Cost:
    """Rows of a weight matrix by index, reduced within bags: |x| rows are reduced to |y| / D bags.

    * ``mode="sum"``: one add per element joined.
    * ``mode="mean"``: also one div per output element.
    * ``mode="max"``: one cmp per element joined.
    * ``per_sample_weights``: every bag is a weighted sum, 1 mul and n - 1 fma for n rows.

    For a backward pass integers of the dtype ``saved`` are written: the bag of every index, for "mean" the size of
    every bag, for "max" the index of every maximum.

    Shapes: x[B*T], w[V, D] -> y[B, D]
    Settings: mode="sum"
    """
    w, bags = layer["w"], layer.out.size
    elements = layer["x"].size * w.shape[-1]
    if isinstance(bags, int) and isinstance(elements, int):
        bags = min(bags, elements)  # with more bags than indices, some are empty
    joined, mode = elements - bags, layer.attrs.get("mode", "sum")
    if "per_sample_weights" in layer:
        operations = Operations(fma=joined, mul=bags)
    elif mode == "max":
        operations = Operations(cmp=joined)
    else:
        operations = Operations(add=joined, div=bags if mode == "mean" else 0)
    read = layer.read - w.nbytes + w.bytes_of(elements)
    saved = layer["x"].size + {"mean": layer.out.shape[0], "max": bags}.get(mode, 0)
    return Cost(operations, read, layer.written + saved_bytes(layer, saved), layer.attrs)


@pattern("opaque")
def calc_embedding_bag_backward(layer: Layer) -> Cost:
    """Gradient of embedding_bag for its weight: dy of each bag, added to the rows that its indices select.

    * 1 add per index and feature; for ``mode`` "max" 1 add per element of dy.
    * ``mode`` "mean": dy is divided by the number of rows first, 1 div per element of dy.
    * ``per_sample_weights``: the addition is an fma.

    The operands that assign indices to bags are read.

    Shapes: dy[B, D], x[N] -> dw[V, D]
    Settings: mode="sum"
    """
    dy, mode = layer["dy"], layer.attrs.get("mode", "sum")
    added = dy.size if mode == "max" else layer["x"].size * dy.shape[-1]
    operations = Operations(fma=added) if "per_sample_weights" in layer else Operations(add=added)
    operations += Operations(div=dy.size if mode == "mean" else 0)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_embedding_bag_weights_backward(layer: Layer) -> Cost:
    """Gradient of embedding_bag for its per-sample weights.

    For each index its row times dy of its bag, a dot product.

    Shapes: dy[B, D], w[V, D], x[N] -> dweights[N]
    """
    w, count = layer["w"], layer["x"].size
    products = count * w.shape[-1]
    read = layer.read - w.nbytes + w.bytes_of(products)
    return Cost(dot_products(count, products), read, layer.written, layer.attrs)


@pattern("opaque")
def calc_scaled_embedding_backward(layer: Layer) -> Cost:
    """Gradient of an embedding that is divided by the frequency of each index.

    1 add per index for the counts; 1 div and 1 add per element of dy.

    Shapes: dy[N, D], x[N] -> dw[V, D]
    """
    size = layer["dy"].size
    operations = Operations(add=size + layer["x"].size, div=size)
    return Cost(operations, input_bytes(layer, "dy", "x"), layer.written, layer.attrs)


# Gathering, scattering and selecting under a mask.


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


# Reductions of segments of different lengths.


DIVISIONS: Mapping[str, Operations] = {"mean": Operations(div=1)}
"""The operations per output element, by the attribute ``reduction``; none for the others."""


@pattern("opaque")
def calc_segment_reduce(layer: Layer) -> Cost:
    """Reduction of consecutive segments along an axis; their lengths are data.

    At most one operation per element of x, which is joined to the starting value of its segment: ``reduction`` "sum" or
    "mean" an add (mean: also a div per output element), "prod" a mul, "max" or "min" a cmp.

    Shapes: x[N, C], lengths[M] -> y[M, C]
    Settings: reduction="sum"
    """
    x, y, reduction = layer["x"], layer.out, layer.attrs["reduction"]
    joined = UPDATES[{"sum": "add", "prod": "mul"}.get(reduction, reduction)]
    operations = x.size * joined + y.size * DIVISIONS.get(reduction, Operations())
    return Cost(operations, layer.read, layer.written, layer.attrs)


SEGMENT_GRADIENTS: Mapping[str, Operations] = {
    "sum": Operations(),
    "mean": Operations(div=1),
    "max": Operations(cmp=1),
    "min": Operations(cmp=1),
    "prod": Operations(mul=1, div=1),
}
"""The operations per element of x: dy, dy / n, dy if x equals y, dy y / x."""


@pattern("opaque")
def calc_segment_reduce_backward(layer: Layer) -> Cost:
    """Gradient of segment_reduce: every element receives dy of its segment.

    Per element of x, by ``reduction``: "sum" nothing, "mean" 1 div, "max" and "min" 1 cmp (is x equal to y), "prod" 1
    mul and 1 div (dy y / x).

    Shapes: dy[M, C], y[M, C], x[N, C], lengths[M] -> dx[N, C]
    Settings: reduction="sum"
    """
    operations = layer["x"].size * SEGMENT_GRADIENTS[layer.attrs["reduction"]]
    return Cost(operations, layer.read, layer.written, layer.attrs)
