"""Decorrelated batch normalization (whitening) and its gradients."""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations, pattern

from .._shared import dot_products
from ..linalg.spectral import symmetric_eigen_operations


def _group_sizes(layer: Layer) -> tuple[Dim, Dim, Dim]:
    """Return the groups, the channels per group, and the products with matrices of all groups.

    Each group has one matrix, which multiplies all its columns.
    """
    x, groups = layer.get("x") or layer["dy"], layer.attrs["groups"]
    width = x.shape[1] // groups
    return groups, width, x.size * width


@pattern("opaque")
def calc_decorrelated_batch_norm(layer: Layer) -> Cost:
    """Decorrelated batch normalization in training: channels of a group, centered and whitened.

    Per group of c channels and m columns:

    * means (m - 1 add, 1 div each) and differences;
    * the covariance: c^2 dot products of length m, divided by m; eps on its diagonal;
    * its eigenvalues and eigenvectors V: 9 c^3 FLOPs with FMA = 2;
    * U, the rows of V^T over the roots of the eigenvalues: c special, c div, c^2 mul;
    * U x and V U x: c m dot products of length c each.

    If running mean and projection are given: the projection V U (c^2 dot products), and the update of both, 1 mul and 1
    fma per element; they are written.

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


@pattern("opaque")
def calc_decorrelated_batch_norm_backward(layer: Layer) -> Cost:
    """Backward of decorrelated batch normalization.

    Eigenvalues e, eigenvectors V and whitened y = U x of the forward pass are given. Per group of c channels and m
    columns:

    * g = V^T dy, and F = g y^T / m;
    * K = 1 / (e_i - e_j) if they differ: c^2 add, cmp and div;
    * the matrix K^T (e F^T + e^1/2 F e^1/2) with diagonals e: 4 c^2 mul, c^2 add, c special;
    * its transpose added, the diagonal of F subtracted: c^2 + c add;
    * R = g - mean(g) plus that matrix times y, whose products are added to the difference;
    * dx = V (e^-1/2 R).

    These are four products of c^2 m (MACs).

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


@pattern("product")
def calc_fixed_decorrelated_batch_norm(layer: Layer) -> Cost:
    """Decorrelated batch normalization at inference.

    The channels of a group minus their means are multiplied by a projection.

    Shapes: x[N, C, H, W], mean[G, C/G], projection[G, C/G, C/G] -> y[N, C, H, W]
    Settings: groups=G
    """
    x, (_, _, products) = layer["x"], _group_sizes(layer)
    operations = Operations(add=x.size) + dot_products(x.size, products)
    return Cost(operations, layer.read, layer.written, layer.attrs, products)


@pattern("opaque")
def calc_fixed_decorrelated_batch_norm_backward(layer: Layer) -> Cost:
    """Backward of fixed_decorrelated_batch_norm.

    dx = P^T dy; the gradient of the mean is -sum(dx), that of the projection P is dy (x - mean)^T.

    Shapes: dy[N, C, H, W], x[N, C, H, W], mean[G, C/G], projection[G, C/G, C/G]
        -> dx[N, C, H, W], dmean[G, C/G], dprojection[G, C/G, C/G]
    Settings: groups=G
    """
    size, (groups, width, products) = layer["x"].size, _group_sizes(layer)
    operations = dot_products(size, products) + Operations(add=size) + dot_products(groups * width * width, products)
    operations += Operations(add=size)  # per channel of m elements m-1 for the sum, and its sign
    return Cost(operations, layer.read, layer.written, layer.attrs, 2 * products)
