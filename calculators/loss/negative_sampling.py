"""Negative sampling and its gradients."""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations, pattern

from .._shared import dot_products, input_bytes


def _sampled_products(layer: Layer) -> tuple[Dim, Dim, Dim]:
    """Return the pairs of rows of x and w, the products of their dot products, and the bytes read of w."""
    pairs = layer["indices"].size
    products = pairs * layer["x"].shape[1]
    return pairs, products, layer["w"].bytes_of(products)


@pattern("opaque")
def calc_negative_sampling_loss(layer: Layer) -> Cost:
    """Negative sampling: log(1 + exp(-x w_t)) of the target t plus log(1 + exp(x w_k)) of all samples k.

    ``indices`` contains the target and the samples of every row. For each index:

    * one dot product of length D (MACs);
    * exp, 1 add and log.

    A negation per row; the sum over all, or over each row with ``reduction`` "none". Drawing samples costs nothing. One
    row of w is read per index.

    Source: Mikolov et al., arXiv:1310.4546.

    Shapes: x[N, D], target[N], w[V, D], indices[N, K] -> y[]
    Settings: reduction="sum"
    """
    pairs, products, rows = _sampled_products(layer)
    operations = dot_products(pairs, products) + Operations(add=1, special=2) * pairs
    operations += Operations(add=layer["x"].shape[0] + pairs - layer.out.size)
    return Cost(operations, layer.read - layer["w"].nbytes + rows, layer.written, layer.attrs, products)


@pattern("opaque")
def calc_negative_sampling_loss_backward(layer: Layer) -> Cost:
    """Gradients of negative sampling, g = dy / (1 + exp(-f)) for each score f, dx = g w, dw_k += g x.

    * The scores are computed again as dot products (f of the target, and its g, negated).
    * exp, a negation, 1 add and 1 div per score.
    * dx is a dot product over the samples of a row; the products of dw are added to zeros.

    Shapes: dy[], x[N, D], w[V, D], indices[N, K] -> dx[N, D], dw[V, D]
    """
    pairs, products, rows = _sampled_products(layer)
    x = layer["x"]
    operations = dot_products(pairs, products) + Operations(add=2, div=1, special=1) * pairs
    operations += Operations(add=2 * x.shape[0]) + dot_products(x.size, products) + Operations(fma=products)
    read = input_bytes(layer, "dy", "x", "indices") + rows
    return Cost(operations, read, layer.written, layer.attrs, 3 * products)
