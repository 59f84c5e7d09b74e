"""Slices and rows limited to a norm."""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations, pattern, prod

from ..reduction.norms import norm_operations


def _norm_limit(layer: Layer, elements: Dim, count: Dim) -> Operations:
    """Return the operations of the norm of ``count`` slices and of their division."""
    return norm_operations(layer.attrs.get("p", 2), elements, count) + Operations(
        mul=elements, add=count, cmp=count, div=count
    )


@pattern("reduce", rows=lambda layer: layer["x"].shape[layer.attrs["axis"]])
def calc_renorm(layer: Layer) -> Cost:
    """Slices along an axis limited to a norm of at most ``limit``.

    Per slice of n elements: its p-norm (as in ``pairwise_distances``), 1 cmp with the limit, 1 add of eps and 1 div;
    then n mul. Every slice is assumed to exceed the limit, because data decides which ones do.

    Shapes: x[N, C] -> y[N, C]
    Settings: axis=0, p=2
    """
    x = layer["x"]
    return Cost(_norm_limit(layer, x.size, x.shape[layer.attrs["axis"]]), layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_renorm_rows(layer: Layer) -> Cost:
    """Rows of a weight, selected by indices, limited in place to a norm of at most ``limit``.

    As ``renorm``, with at most one row per index; only these rows are read and written.

    Shapes: w[V, D], x[N] -> y[V, D]
    Settings: p=2
    """
    w, count = layer["w"], layer["x"].size
    elements = count * prod(w.shape[1:])
    operations = _norm_limit(layer, elements, count)
    read = layer["x"].nbytes + w.bytes_of(elements)
    return Cost(operations, read, layer.out.bytes_of(elements), layer.attrs)
