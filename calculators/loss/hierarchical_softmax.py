"""Hierarchical softmax over a binary tree, and its gradients."""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations, pattern

from .._shared import dot_products, input_bytes


def _path_products(layer: Layer) -> tuple[Dim, Dim, Dim]:
    """Return the nodes of all paths, the products of their dot products, and the bytes read of w."""
    nodes = layer["indices"].size
    products = nodes * layer["x"].shape[1]
    return nodes, products, layer["w"].bytes_of(products)


@pattern("opaque")
def calc_hierarchical_softmax_loss(layer: Layer) -> Cost:
    """Hierarchical softmax: the sum of log(1 + exp(-c x w_i)) over the nodes i on the path to the target of each row.

    ``indices`` contains the nodes of the paths of all rows, L in all, and ``codes`` the direction c at each of them, 1
    or -1. The lengths of the paths depend on the targets. For each node:

    * one dot product of length D (MACs);
    * its product with the code, a negation, exp, 1 add and log.

    Then a sum of L terms. One row of w is read per node.

    Source: Morin and Bengio, "Hierarchical Probabilistic Neural Network Language Model", AISTATS 2005.

    Shapes: x[N, D], target[N], w[V, D], indices[L], codes[L] -> y[]
    """
    nodes, products, rows = _path_products(layer)
    operations = dot_products(nodes, products) + Operations(mul=1, add=2, special=2) * nodes
    operations += Operations(add=nodes - 1)
    return Cost(operations, layer.read - layer["w"].nbytes + rows, layer.written, layer.attrs, products)


@pattern("opaque")
def calc_hierarchical_softmax_loss_backward(layer: Layer) -> Cost:
    """Gradients of hierarchical softmax, g = -dy c / (1 + exp(c f)) for each score f, dx = g w, dw_i += g x.

    * The scores are computed again as dot products.
    * 2 products with the code, exp, 1 add and 1 div per score; dy is negated once.
    * dx is a dot product over the path of a row; the products of dw are added to zeros.

    Shapes: dy[], x[N, D], target[N], w[V, D], indices[L], codes[L] -> dx[N, D], dw[V, D]
    """
    nodes, products, rows = _path_products(layer)
    operations = dot_products(nodes, products) + Operations(mul=2, add=1, div=1, special=1) * nodes
    operations += Operations(add=1) + dot_products(layer["x"].size, products) + Operations(fma=products)
    read = input_bytes(layer, "dy", "x", "target", "indices", "codes") + rows
    return Cost(operations, read, layer.written, layer.attrs, 3 * products)
