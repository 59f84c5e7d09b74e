"""Normalisations beyond the usual ones, their gradients, and the pieces a normalisation may be run in."""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations

from .linalg import symmetric_eigen
from .normalization import moments
from .parts import dot_products


def calc_normalize_rows(layer: Layer) -> Cost:
    """Rows less their mean, times the reciprocal of their deviation, both given: 1 add and 1 mul per element.

    Shapes: x[N, C], mean[N], scale[N] -> y[N, C]
    """
    return Cost(layer["x"].size * Operations(add=1, mul=1), layer.read, layer.written, layer.attrs)


def calc_normalize_rows_backward(layer: Layer) -> Cost:
    """Gradient through standardised rows n and their statistics: dx = (dy - mean(dy) - n mean(dy n)) * scale.

    Per row of c elements: mean(dy) c-1 add, 1 div; mean(dy n) 1 mul, c-1 fma, 1 div; c add, c fma; c mul.

    Shapes: dy[N, C], y[N, C], scale[N] -> dx[N, C]
    """
    size, count = layer["dy"].size, layer["dy"].shape[0]
    operations = dot_products(count, size) + Operations(fma=size, mul=size, add=2 * size - count, div=2 * count)
    return Cost(operations, layer.read, layer.written, layer.attrs)


def calc_scale_shift_backward(layer: Layer) -> Cost:
    """Gradients of x * w + b with a weight and a bias per channel: dx = dy w, dw = sum(dy x), db = sum(dy).

    Shapes: dy[N, C, L], x[N, C, L], w[C] -> dx[N, C, L], dw[C], db[C]
    """
    size, channels = layer["dy"].size, layer["w"].size
    operations = Operations(mul=size, add=size - channels) + dot_products(channels, size)
    return Cost(operations, layer.read, layer.written, layer.attrs)


def calc_local_response_norm_backward(layer: Layer) -> Cost:
    """Gradient of local response normalisation: dx = dy u^-beta - 2 alpha beta x sum(y dy / u) over the window.

    u = k + alpha s and its power, ``scale``, are kept from the forward pass. Per element, with a window of n channels:
    y dy / u (1 mul, 1 div), the window's sum (n-1 add, taps beyond the ends count), 3 mul, 1 subtraction.

    Shapes: dy[N, C, H, W], x[N, C, H, W], y[N, C, H, W], u[N, C, H, W], scale[N, C, H, W] -> dx[N, C, H, W]
    Settings: size=n
    """
    operations = Operations(mul=4, add=layer.attrs["size"], div=1) * layer["dy"].size
    return Cost(operations, layer.read, layer.written, layer.attrs)


def calc_batch_renorm(layer: Layer) -> Cost:
    """Batch renormalisation in training: y = ((x - mean) / std * r + d) * w + b.

    r = clip(std / running std) and d = clip((mean - running mean) / running std) are constants for the gradient. Per
    channel of m elements: batch statistics as in batch_norm; the running deviation (1 add, 1 special), r (1 div, 2
    cmp), d (1 add, 1 div, 2 cmp); per element 1 mul and 2 fma. Running statistics are read, updated (3 mul, 2 fma a
    channel) and written; they are not to stand among the outputs.

    Source: Ioffe, "Batch Renormalization", arXiv:1702.03275.

    Shapes: x[N, C, H, W], w[C], b[C], mean[C], var[C] -> y[N, C, H, W]
    """
    size, channels = layer["x"].size, layer["w"].size
    per_channel = Operations(fma=2, mul=3, add=2, div=2, cmp=4, special=1)
    operations = moments(size, channels) + channels * per_channel + Operations(fma=2 * size, mul=size)
    updated = layer["mean"].nbytes + layer["var"].nbytes
    return Cost(operations, layer.read, layer.written + updated, layer.attrs)


def calc_batch_renorm_backward(layer: Layer) -> Cost:
    """Backward of batch renormalisation: dx = (w r / std) (dy - (db + n sum(dy n)) / m), n the normalised x.

    Per channel of m elements: n (m add, m mul) and n r + d (m fma); sum(dy n), dw = sum(dy (n r + d)) (1 mul, m-1 fma
    each), db = sum(dy) (m-1 add); two means (2 div), w r / std (2 mul); m add, m fma, m mul. The statistics of the
    forward pass are there already.

    Shapes: dy[N, C, H, W], x[N, C, H, W], w[C] -> dx[N, C, H, W], dw[C], db[C]
    """
    size, channels = layer["x"].size, layer["w"].size
    operations = dot_products(2 * channels, 2 * size) + Operations(fma=2 * size, mul=2 * size, add=3 * size)
    operations += Operations(mul=2, add=-1, div=2) * channels
    return Cost(operations, layer.read, layer.written, layer.attrs)


def _groups(layer: Layer) -> tuple[Dim, Dim, Dim]:
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
    x, (groups, width, products) = layer["x"], _groups(layer)
    channels, square = x.shape[1], groups * width * width
    operations = Operations(add=2 * x.size - channels, div=channels)
    operations += dot_products(square, products) + Operations(add=channels, div=square)
    operations += groups * symmetric_eigen(width) + Operations(mul=square, div=channels, special=channels)
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
    dy, (groups, width, products) = layer["dy"], _groups(layer)
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
    x, (_, _, products) = layer["x"], _groups(layer)
    operations = Operations(add=x.size) + dot_products(x.size, products)
    return Cost(operations, layer.read, layer.written, layer.attrs, products)


def calc_fixed_decorrelated_batch_norm_backward(layer: Layer) -> Cost:
    """Backward of fixed_decorrelated_batch_norm: dx = P^T dy, the mean's -sum(dx), the projection's dy (x - mean)^T.

    Shapes: dy[N, C, H, W], x[N, C, H, W], mean[G, C/G], projection[G, C/G, C/G]
        -> dx[N, C, H, W], dmean[G, C/G], dprojection[G, C/G, C/G]
    Settings: groups=G
    """
    size, (groups, width, products) = layer["x"].size, _groups(layer)
    operations = dot_products(size, products) + Operations(add=size) + dot_products(groups * width * width, products)
    operations += Operations(add=size)  # per channel of m elements m-1 for the sum, and its sign
    return Cost(operations, layer.read, layer.written, layer.attrs, 2 * products)


def calc_weight_norm_backward(layer: Layer) -> Cost:
    """Gradients of w * (g / |w|): dg = sum(dy w) / |w| and dw = (dy - w dg / |w|) g / |w|, the lengths being kept.

    Per kept index of c elements: the dot product (1 mul, c-1 fma) and 1 div; dg / |w| and g / |w|, 2 div; c fma, c mul.

    Source: Salimans and Kingma, "Weight Normalization", arXiv:1602.07868, equation 3.

    Shapes: dy[C_out, C_in], w0[C_out, C_in], w1[C_out], norms[C_out] -> dw0[C_out, C_in], dw1[C_out]
    """
    size, count = layer["w0"].size, layer["w1"].size
    operations = dot_products(count, size) + Operations(fma=size, mul=size, div=3 * count)
    return Cost(operations, layer.read, layer.written, layer.attrs)
