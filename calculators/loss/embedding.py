"""Losses that compare pairs and triples of embeddings."""

from __future__ import annotations

from costcore.ir import Cost, Layer, Operations, pattern, prod

from .._shared import dot_products
from ..reduction.norms import norm_operations
from .losses import reduction_operations


@pattern("reduce")
def calc_cosine_embedding_loss(layer: Layer) -> Cost:
    """Cosine embedding loss: 1 - cos(x0, x1) if the target is 1, else max(cos(x0, x1) - margin, 0).

    Per row the cosine as in ``cosine_similarity``, 2 add, 1 cmp for the maximum and 1 cmp for the choice; then the
    reduction.

    Shapes: x0[N, D], x1[N, D], target[N] -> y[]
    Settings: reduction="mean"
    """
    size, count = layer["x0"].size, layer["target"].size
    operations = dot_products(3 * count, 3 * size)
    operations += Operations(mul=1, add=2, div=1, cmp=4, special=2) * count + reduction_operations(layer, count)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("reduce")
def calc_triplet_margin_loss(layer: Layer) -> Cost:
    """Triplet loss of anchor, positive and negative rows, max(|x0 - x1| - |x0 - x2| + margin, 0).

    Per row two distances as in ``pairwise_distance``, 2 add, 1 cmp. The attribute ``swap`` adds the distance of x1 and
    x2 and 1 cmp for the minimum. Then the reduction.

    Shapes: x0[N, D], x1[N, D], x2[N, D] -> y[]
    Settings: reduction="mean"
    """
    size, count = layer["x0"].size, prod(layer["x0"].shape[:-1])
    distances, minima = (3, 1) if layer.attrs.get("swap") else (2, 0)
    distance = norm_operations(layer.attrs.get("p", 2), size, count) + Operations(add=2 * size)
    operations = distances * distance + Operations(add=2, cmp=1 + minima) * count + reduction_operations(layer, count)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("reduce")
def calc_squared_triplet_loss(layer: Layer) -> Cost:
    """Triplet loss of squared distances, max(|x0 - x1|^2 - |x0 - x2|^2 + margin, 0).

    Per row of c elements: 2c subtractions, two squared distances of 1 mul and c - 1 fma, 2 add, 1 cmp; then the
    reduction.

    Source: Schroff, Kalenichenko and Philbin, FaceNet, arXiv:1503.03832.

    Shapes: x0[N, C], x1[N, C], x2[N, C] -> y[]
    Settings: reduction="mean"
    """
    size, count = layer["x0"].size, layer["x0"].shape[0]
    operations = dot_products(2 * count, 2 * size) + Operations(add=2 * size)
    operations += Operations(add=2, cmp=1) * count + reduction_operations(layer, count)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("reduce")
def calc_contrastive_loss(layer: Layer) -> Cost:
    """Contrastive loss, (t d^2 + (1 - t) max(margin - d, 0)^2) / 2.

    d is the distance of two rows, and t the target. Per row of c elements:

    * c subtractions; d^2 by 1 mul and c - 1 fma; its root;
    * margin - d and the maximum;
    * t d^2 (1 mul), 1 - t, its product with the square (2 mul), the sum, and half of it.

    Then the reduction.

    Source: Hadsell, Chopra and LeCun, "Dimensionality Reduction by Learning an Invariant Mapping", CVPR 2006.

    Shapes: x0[N, C], x1[N, C], target[N] -> y[]
    Settings: reduction="mean"
    """
    size, count = layer["x0"].size, layer["target"].size
    operations = dot_products(count, size) + Operations(add=size)
    operations += Operations(mul=4, add=3, cmp=1, special=1) * count + reduction_operations(layer, count)
    return Cost(operations, layer.read, layer.written, layer.attrs)
