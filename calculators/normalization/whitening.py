"""Normalisations beyond the usual ones, their gradients, and the pieces a normalisation may be run in."""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations

from .._shared import dot_products
from ..linalg.spectral import symmetric_eigen_operations


def _group_sizes(layer: Layer) -> tuple[Dim, Dim, Dim]:
    """Groups, channels of a group, and products of a group's matrix with all its columns, over all groups."""
    x, groups = layer.get("x") or layer["dy"], layer.attrs["groups"]
    width = x.shape[1] // groups
    return groups, width, x.size * width


def calc_decorrelated_batch_norm(layer: Layer) -> Cost:
    """Decorrelated batch normalisation in training: channels of a group are centred and whitened by their covariance.

    Per group of c channels and m columns: means (m-1 add, 1 div each) and differences; the covariance, c^2 dot products
    of length m, divided by m, eps on its diagonal; its eigenvalues and eigenvectors V (9 c^3 FLOPs with FMA 2); U, rows
    of V^T over the roots of the eigenvalues (c special, c div, c^2 mul); U x and V U x, each c m dot products of
    length c. Running mean and projection V U (c^2 dot products) are updated, 1 mul and 1 fma an element, and written.

    Source: Huang et al., "Decorrelated Batch Normalization", arXiv:1804.08450.

    Shapes: x[N, C, H, W], mean[G, C/G], projection[G, C/G, C/G] -> y[N, C, H, W]
    Settings: groups=G
    """
    x, (groups, width, products) = layer["x"], _group_sizes(layer)
    channels, square = x.shape[1], groups * width * width
    operations = Operations(add=2 * x.size - channels, div=channels)
    operations += dot_products(square, products) + Operations(add=channels, div=square)
    operations += groups * symmetric_eigen_operations(width) + Operations(mul=square, div=channels, special=channels)
    operations += dot_products(2 * x.size, 2 * products)
    macs, updated = 3 * products, 0
    if "mean" in layer:
        operations += dot_products(square, square * width) + Operations(fma=1, mul=1) * (channels + square)
        macs, updated = macs + square * width, layer["mean"].nbytes + layer["projection"].nbytes
    return Cost(operations, layer.read, layer.written + updated, layer.attrs, macs)


def calc_decorrelated_batch_norm_backward(layer: Layer) -> Cost:
    """Backward of decorrelated batch normalisation, from eigenvalues e, eigenvectors V and whitened y = U x.

    Per group of c channels and m columns, g = V^T dy: F = g y^T / m; K = 1 / (e_i - e_j) where they differ (c^2 add,
    cmp and div); the matrix K^T (e F^T + e^1/2 F e^1/2) with diagonals e (4 c^2 mul, c^2 add, c special), and its
    transpose added, the diagonal of F subtracted (c^2 + c add); R = g - mean(g) + that times y, its products added onto
    the difference; dx = V (e^-1/2 R). Four products of c^2 m.

    Source: Huang et al., arXiv:1804.08450, appendix.

    Shapes: dy[N, C, H, W], values[G, C/G], vectors[G, C/G, C/G], y[G, C/G, N*H*W] -> dx[N, C, H, W]
    Settings: groups=G
    """
    dy, (groups, width, products) = layer["dy"], _group_sizes(layer)
    channels, square, size = dy.shape[1], groups * width * width, dy.size
    operations = dot_products(2 * size, 2 * products) + dot_products(square, products) + Operations(fma=products)
    operations += Operations(mul=4, add=3, div=2, cmp=1) * square + Operations(add=1, special=2, div=1) * channels
    operations += Operations(add=2 * size - channels, div=channels, mul=size)
    return Cost(operations, layer.read, layer.written, layer.attrs, 4 * products)


def calc_fixed_decorrelated_batch_norm(layer: Layer) -> Cost:
    """Decorrelated batch normalisation at inference: the channels of a group, less their means, times its projection.

    Shapes: x[N, C, H, W], mean[G, C/G], projection[G, C/G, C/G] -> y[N, C, H, W]
    Settings: groups=G
    """
    x, (_, _, products) = layer["x"], _group_sizes(layer)
    operations = Operations(add=x.size) + dot_products(x.size, products)
    return Cost(operations, layer.read, layer.written, layer.attrs, products)


def calc_fixed_decorrelated_batch_norm_backward(layer: Layer) -> Cost:
    """Backward of fixed_decorrelated_batch_norm: dx = P^T dy, the mean's -sum(dx), the projection's dy (x - mean)^T.

    Shapes: dy[N, C, H, W], x[N, C, H, W], mean[G, C/G], projection[G, C/G, C/G]
        -> dx[N, C, H, W], dmean[G, C/G], dprojection[G, C/G, C/G]
    Settings: groups=G
    """
    size, (groups, width, products) = layer["x"].size, _group_sizes(layer)
    operations = dot_products(size, products) + Operations(add=size) + dot_products(groups * width * width, products)
    operations += Operations(add=size)  # per channel of m elements m-1 for the sum, and its sign
    return Cost(operations, layer.read, layer.written, layer.attrs, 2 * products)
