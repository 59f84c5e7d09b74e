"""Losses that compare embeddings or decorrelate features, and their gradients where one operator makes these."""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations

from .loss import reduce
from .parts import dot_products, read_of


def calc_contrastive_loss(layer: Layer) -> Cost:
    """Contrastive loss, (t d^2 + (1 - t) max(margin - d, 0)^2) / 2 with d the distance of two rows, t the target.

    Per row of c elements: c subtractions, d^2 by 1 mul and c-1 fma, its root, margin - d, the maximum; t d^2 1 mul,
    1 - t, its product with the square 2 mul, their sum, half of it. Then the reduction.

    Source: Hadsell, Chopra and LeCun, "Dimensionality Reduction by Learning an Invariant Mapping", CVPR 2006.

    Shapes: x0[N, C], x1[N, C], target[N] -> y[]
    Settings: reduction="mean"
    """
    size, count = layer["x0"].size, layer["target"].size
    operations = dot_products(count, size) + Operations(add=size)
    operations += Operations(mul=4, add=3, cmp=1, special=1) * count + reduce(layer, count)
    return Cost(operations, layer.read, layer.written, layer.attrs)


def calc_squared_triplet_loss(layer: Layer) -> Cost:
    """Triplet loss of squared distances: max(|x0 - x1|^2 - |x0 - x2|^2 + margin, 0).

    Per row of c elements: 2c subtractions, two squared distances of 1 mul and c-1 fma, 2 add, 1 cmp; the reduction.

    Source: Schroff, Kalenichenko and Philbin, FaceNet, arXiv:1503.03832.

    Shapes: x0[N, C], x1[N, C], x2[N, C] -> y[]
    Settings: reduction="mean"
    """
    size, count = layer["x0"].size, layer["x0"].shape[0]
    operations = dot_products(2 * count, 2 * size) + Operations(add=2 * size)
    operations += Operations(add=2, cmp=1) * count + reduce(layer, count)
    return Cost(operations, layer.read, layer.written, layer.attrs)


def _centred(elements: Dim, columns: Dim) -> Operations:
    """Every column less its mean: per column of n elements n-1 add and 1 div, then n subtractions."""
    return Operations(add=2 * elements - columns, div=columns)


def _covariance(layer: Layer, rows: Dim, products: Dim) -> Operations:
    """The covariance of ``products`` pairs of columns, and half the sum of its squares where it is reduced."""
    operations = dot_products(products, products * rows) + Operations(div=products)
    if layer.attrs.get("reduction") == "half_squared_sum":
        operations += dot_products(1, products) + Operations(mul=1)
    return operations


def calc_cross_covariance(layer: Layer) -> Cost:
    """Covariance of every column of x0 with every column of x1, or, as a loss, half the sum of its squares.

    Both operands are centred; each of C_0 C_1 dot products has the length of a column, N, and is divided by it.
    Setting ``reduction`` "half_squared_sum": the squares accumulate, and are halved.

    Source: Cheung et al., "Discovering Hidden Factors of Variation in Deep Networks", arXiv:1412.6583.

    Shapes: x0[N, C_0], x1[N, C_1] -> y[]
    Settings: reduction="half_squared_sum"
    """
    x0, x1 = layer["x0"], layer["x1"]
    rows, products = x0.shape[0], x0.shape[1] * x1.shape[1]
    operations = _centred(x0.size, x0.shape[1]) + _centred(x1.size, x1.shape[1]) + _covariance(layer, rows, products)
    return Cost(operations, layer.read, layer.written, layer.attrs, products * rows)


def calc_decov_loss(layer: Layer) -> Cost:
    """Covariance of all pairs of columns, its diagonal put to zero, or, as a loss, half the sum of its squares.

    Source: Cogswell et al., "Reducing Overfitting in Deep Networks by Decorrelating Representations", arXiv:1511.06068.

    Shapes: x[N, C] -> y[]
    Settings: reduction="half_squared_sum"
    """
    rows, columns = layer["x"].shape
    products = columns * columns
    operations = _centred(layer["x"].size, columns) + _covariance(layer, rows, products)
    return Cost(operations, layer.read, layer.written, layer.attrs, products * rows)


def calc_decov_loss_backward(layer: Layer) -> Cost:
    """Gradient of decov_loss, from the centred columns and their covariance: 2 h cov dy / N, one product of matrices.

    dy / N is 1 div; the factors 2 and dy / N are 2 mul per element. With ``reduction`` "none" dy is a matrix, and the
    product is with (dy + dy^T) / N: C^2 div and add.

    Shapes: dy[], x[N, C] -> dx[N, C]
    Settings: reduction="half_squared_sum"
    """
    size, columns = layer["x"].size, layer["x"].shape[1]
    operations = dot_products(size, size * columns)
    if layer.attrs.get("reduction") == "half_squared_sum":
        operations += Operations(mul=2 * size, div=1)
    else:
        operations += Operations(add=columns * columns, div=columns * columns)
    return Cost(operations, layer.read, layer.written, layer.attrs, size * columns)


def _sampled(layer: Layer) -> tuple[Dim, Dim, Dim]:
    """Pairs of a row of x and a row of w, products of their dot products, and bytes of the rows of w."""
    pairs = layer["indices"].size
    products = pairs * layer["x"].shape[1]
    return pairs, products, layer["w"].bytes_of(products)


def calc_negative_sampling_loss(layer: Layer) -> Cost:
    """Negative sampling: log(1 + exp(-x w_t)) of the target and log(1 + exp(x w_k)) of all samples k, summed.

    ``indices`` are the target and the samples of every row: for each one dot product of length D, and exp, 1 add, log;
    one negation a row; the sum over all, or over each row with ``reduction`` "none". Drawing samples costs nothing. One
    row of w is read for every index.

    Source: Mikolov et al., arXiv:1310.4546.

    Shapes: x[N, D], target[N], w[V, D], indices[N, K] -> y[]
    Settings: reduction="sum"
    """
    pairs, products, rows = _sampled(layer)
    operations = dot_products(pairs, products) + Operations(add=1, special=2) * pairs
    operations += Operations(add=layer["x"].shape[0] + pairs - layer.out.size)
    return Cost(operations, layer.read - layer["w"].nbytes + rows, layer.written, layer.attrs, products)


def calc_negative_sampling_loss_backward(layer: Layer) -> Cost:
    """Gradients of negative sampling: g = dy / (1 + exp(-f)) for each score f, dx = g w, dw_k += g x.

    The scores are dot products again (f of the target, and its g, negated); exp, negation, 1 add, 1 div each. dx is a
    dot product over the samples of a row; the products of dw are added onto zeros.

    Shapes: dy[], x[N, D], w[V, D], indices[N, K] -> dx[N, D], dw[V, D]
    """
    pairs, products, rows = _sampled(layer)
    x = layer["x"]
    operations = dot_products(pairs, products) + Operations(add=2, div=1, special=1) * pairs
    operations += Operations(add=2 * x.shape[0]) + dot_products(x.size, products) + Operations(fma=products)
    read = read_of(layer, "dy", "x", "indices") + rows
    return Cost(operations, read, layer.written, layer.attrs, 3 * products)
