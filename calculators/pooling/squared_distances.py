"""Squared Euclidean distances."""

from __future__ import annotations

from costcore.ir import Cost, Layer, Operations

from .._shared import dot_products


def calc_squared_distances(layer: Layer) -> Cost:
    """Squared Euclidean distance of every row of x0 to every row of x1.

    Per pair of rows of D features D subtractions, 1 mul and D - 1 fma: ``pairwise_distances`` without the root.
    Libraries may compute a matrix product; this is not counted, so there are no MACs.

    Shapes: x0[M, D], x1[N, D] -> y[M, N]
    """
    pairs = layer.out.size
    elements = pairs * layer["x0"].shape[-1]
    operations = Operations(add=elements) + dot_products(pairs, elements)
    return Cost(operations, layer.read, layer.written, layer.attrs)
