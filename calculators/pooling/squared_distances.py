"""Squared distances of points."""

from __future__ import annotations

from costcore.ir import Cost, Layer, Operations

from .._shared import dot_products


def calc_squared_distances(layer: Layer) -> Cost:
    """Squared Euclidean distance of every row of x0 to every row of x1: D subtractions, 1 mul, D - 1 fma a pair.

    As ``pairwise_distances`` without the root; a detour over a matrix product is not counted: no macs.

    Shapes: x0[M, D], x1[N, D] -> y[M, N]
    """
    pairs = layer.out.size
    elements = pairs * layer["x0"].shape[-1]
    operations = Operations(add=elements) + dot_products(pairs, elements)
    return Cost(operations, layer.read, layer.written, layer.attrs)
