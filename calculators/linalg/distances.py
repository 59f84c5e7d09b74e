"""Distances and similarities of points, and gradients of distances.

The attribute ``p`` is that of the p-norm (default: 2).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costcore.ir import Cost, Dim, Layer, Operations, PerElement, maximum, pattern

from .._shared import dot_products, power_operations
from ..reduction.norms import norm_operations


@pattern("opaque")
def calc_pairwise_distances(layer: Layer) -> Cost:
    """Distance of every row of x0 to every row of x1: the p-norm of their difference.

    Per pair of rows of D features: D subtractions, and the norm.

    * p = 2: 1 mul, D - 1 fma and a root.
    * p = 1: D absolute values, D - 1 add.
    * p infinite: D absolute values, D - 1 cmp.
    * p = 0: D cmp, D - 1 add.
    * Any other p: D absolute values and powers, D - 1 add, a root. For p = 3 a power is 2 mul, else 1 special.

    Libraries may compute p = 2 by a matrix product; this is not counted, so there are no MACs.

    Shapes: x0[B, M, D], x1[B, N, D] -> y[B, M, N]
    """
    pairs = layer.out.size
    elements = pairs * layer["x0"].shape[-1]
    operations = Operations(add=elements) + norm_operations(layer.attrs.get("p", 2), elements, pairs)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_self_distances(layer: Layer) -> Cost:
    """Distance of every two rows of x, each pair once: ``pairwise_distances`` for N (N-1) / 2 pairs.

    Shapes: x[N, D] -> y[N*(N-1)/2]
    """
    pairs = layer.out.size
    elements = pairs * layer["x"].shape[-1]
    operations = Operations(add=elements) + norm_operations(layer.attrs.get("p", 2), elements, pairs)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("reduce")
def calc_distance(layer: Layer) -> Cost:
    """Distance of two tensors, with broadcasting: the p-norm of all elements of their difference.

    The number of elements is that of the larger operand.

    Shapes: x0[N, C], x1[N, C] -> y[]
    """
    n = layer.attrs.get("elements", layer["x0"].size)
    operations = Operations(add=n) + norm_operations(layer.attrs.get("p", 2), n, 1)
    return Cost(operations, layer.read, layer.written, layer.attrs)


DISTANCE_GRADIENTS: Mapping[object, tuple[PerElement, PerElement]] = {
    1: (PerElement(Operations(), "dy"), PerElement(Operations(add=1, cmp=2, fma=1), "fma(sign(x0 - x1), s, dx)")),
    2: (PerElement(Operations(div=1), "dy / y"), PerElement(Operations(add=1, fma=1), "fma(x0 - x1, s, dx)")),
    float("inf"): (
        PerElement(Operations(), "dy"),
        PerElement(Operations(add=2, cmp=3, fma=1), "d = x0 - x1; fma(where(abs(d) == y, sign(d), 0), s, dx)"),
    ),
}
"""By p: the operations per pair, which compute s, and per feature of a pair."""


def other_gradient(p: Any) -> tuple[PerElement, PerElement]:
    """Return the operations per pair and per feature for a p that is not in :data:`DISTANCE_GRADIENTS`."""
    power = Operations() if p == 3 else power_operations(p - 2)
    return (
        PerElement(Operations(div=1) + power_operations(p - 1), "dy / y ** (p - 1)"),
        PerElement(Operations(add=2, mul=1, fma=1) + power, "d = x0 - x1; fma(d * abs(d) ** (p - 2), s, dx)"),
    )


def _gradient_operations(layer: Layer, pairs: Dim, features: Dim, sides: int) -> Operations:
    """Return the operations of the gradient for one or both ``sides`` of each pair."""
    p = layer.attrs.get("p", 2)
    if p == 0:
        return Operations()
    pair, element = DISTANCE_GRADIENTS[p] if p in DISTANCE_GRADIENTS else other_gradient(p)
    other_side = Operations(fma=sides - 1)
    return pairs * pair.operations + pairs * features * (element.operations + other_side)


@pattern("opaque")
def calc_pairwise_distances_backward(layer: Layer) -> Cost:
    """Gradient of ``pairwise_distances`` for x0.

    For p = 2 dx0_i is the sum of dy_ij (x0_i - x1_j) / y_ij over all j.

    * p = 2: 1 div per pair; 1 subtraction and 1 fma per feature of a pair.
    * p = 1: the sign of the difference (2 cmp) instead of the difference, no div.
    * p infinite: as p = 1, if the absolute value equals y (1 add, 1 cmp more).
    * Any other p: |d|^(p-2) d / y^(p-1), 1 special per pair more; 1 special, 1 add and 1 mul per feature more. Squares
      and cubes of p = 3, 4 and 5 are 1 and 2 mul instead of 1 special.

    Both operands, y and dy are read.

    Shapes: dy[B, M, N], x0[B, M, D], x1[B, N, D], y[B, M, N] -> dx0[B, M, D]
    """
    operations = _gradient_operations(layer, layer["dy"].size, layer["x0"].shape[-1], sides=1)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_self_distances_backward(layer: Layer) -> Cost:
    """Gradient of ``self_distances``: that of ``pairwise_distances``, added to both rows of a pair.

    1 fma per feature of a pair more.

    Shapes: dy[N*(N-1)/2], x[N, D], y[N*(N-1)/2] -> dx[N, D]
    """
    operations = _gradient_operations(layer, layer["dy"].size, layer["x"].shape[-1], sides=2)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("opaque")
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


@pattern("reduce")
def calc_cosine_similarity(layer: Layer) -> Cost:
    """Cosine of the angle between x0 and x1 along ``axis``, x0 . x1 / (max(|x0|, eps) * max(|x1|, eps)).

    Per row three dot products, two square roots, 2 cmp, 1 mul, 1 div.

    Shapes: x0[N, D], x1[N, D] -> y[N]
    Settings: axis=1
    """
    count = layer.out.size
    length = layer["x0"].shape[layer.attrs["axis"]] if layer["x0"].shape else 1
    operations = dot_products(3 * count, 3 * count * length) + Operations(mul=1, div=1, cmp=2, special=2) * count
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("reduce")
def calc_pairwise_distance(layer: Layer) -> Cost:
    """Distance of the rows of x0 and x1, the p-norm of x0 - x1 + eps.

    Per row of c elements 2c add, then for p = 2 (default) 1 mul, c - 1 fma and a root. Other norms are those of
    ``pairwise_distances``.

    Shapes: x0[N, D], x1[N, D] -> y[N]
    """
    size, count = maximum(layer["x0"].size, layer["x1"].size), layer.out.size
    operations = norm_operations(layer.attrs.get("p", 2), size, count) + Operations(add=2 * size)
    return Cost(operations, layer.read, layer.written, layer.attrs)
