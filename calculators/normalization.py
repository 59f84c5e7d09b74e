"""Normalization of activations and weights, and its gradients."""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations, pattern, prod

from ._shared import dot_products, input_bytes, needed_gradients, row_count, saved_bytes, scale_and_shift
from .linalg import symmetric_eigen_operations
from .reduction import norm_operations

# Normalization layers.


def channel_count(layer: Layer) -> Dim:
    """Return the channels of a batch norm: the size of a given vector, else the second axis of ``x``."""
    vectors = [layer[name] for name in ("mean", "w", "b") if name in layer]
    return vectors[0].size if vectors else layer["x"].shape[1]


@pattern(lambda layer: "reduce" if layer.attrs.get("training") else "map", rows=channel_count)
def calc_batch_norm(layer: Layer) -> Cost:
    """Batch normalization: per channel, (x - mean) / sqrt(var + eps) * w + b.

    Inference (attribute ``training`` false): mean, variance, weight and bias are folded beforehand into one scale and
    one shift per channel. One fma per element; two per-channel vectors are read, as in chainer-computational-cost.

    Training, per channel of m elements:

    * mean of the batch: m - 1 add, 1 div;
    * variance of the batch: m add, 1 mul, m - 1 fma, 1 div;
    * eps added, square root, reciprocal;
    * scale = w / sqrt(var + eps), 1 mul (nothing without w);
    * shift = b - mean * scale, 1 fma (without b it is -(mean * scale), mul and add);
    * scale and shift of the elements: m fma;
    * with running statistics ``mean`` and ``var``: the unbiased variance (1 mul) and their update (1 mul and 1 fma
      each).

    All operands are read; the outputs and the updated statistics are written, and with a gradient (attribute ``saved``)
    mean and deviation of the batch. The statistics are not listed among the outputs.

    Source: Ioffe and Szegedy, "Batch Normalization", arXiv:1502.03167.

    Shapes: x[N, C, H, W], w[C], b[C], mean[C], var[C] -> y[N, C, H, W]
    Settings: training=False
    """
    x, count = layer["x"], channel_count(layer)
    if not layer.attrs.get("training"):
        vector = layer.get("mean") or layer.get("w") or x
        return Cost(Operations(fma=x.size), x.nbytes + vector.bytes_of(2 * count), layer.written, layer.attrs)
    per_channel = Operations(mul=1 if "w" in layer else 0)
    per_channel += Operations(fma=1) if "b" in layer else Operations(mul=1, add=1)
    updated = 0
    if "mean" in layer:
        per_channel += Operations(mul=3, fma=2)
        updated = layer["mean"].nbytes + layer["var"].nbytes
    operations = moment_operations(x.size, count) + count * per_channel + Operations(fma=x.size)
    return Cost(operations, layer.read, layer.written + updated + saved_bytes(layer, 2 * count), layer.attrs)


@pattern("reduce", rows=lambda layer: layer["w"].size)
def calc_batch_renorm(layer: Layer) -> Cost:
    """Batch renormalization in training, ((x - mean) / std * r + d) * w + b.

    r = clip(std / running std) and d = clip((mean - running mean) / running std) are constants for the gradient. Per
    channel:

    * statistics of the batch, as in ``batch_norm``;
    * the running deviation: 1 add, 1 special;
    * r: 1 div, 2 cmp;
    * d: 1 add, 1 div, 2 cmp;
    * update of the running statistics: 3 mul, 2 fma.

    Per element 1 mul and 2 fma. Running statistics are read and written; they are not listed among the outputs.

    Source: Ioffe, "Batch Renormalization", arXiv:1702.03275.

    Shapes: x[N, C, H, W], w[C], b[C], mean[C], var[C] -> y[N, C, H, W]
    """
    size, channels = layer["x"].size, layer["w"].size
    per_channel = Operations(fma=2, mul=3, add=2, div=2, cmp=4, special=1)
    operations = moment_operations(size, channels) + channels * per_channel + Operations(fma=2 * size, mul=size)
    updated = layer["mean"].nbytes + layer["var"].nbytes
    return Cost(operations, layer.read, layer.written + updated, layer.attrs)


def moment_operations(elements: Dim, count: Dim) -> Operations:
    """Return the operations of mean, variance and 1 / sqrt(variance + eps) of ``count`` rows.

    ``elements`` is the number of elements of all rows. Per row of c elements: mean c - 1 add, 1 div; variance c add, 1
    mul, c - 1 fma, 1 div; 1 add, 1 special, 1 div.
    """
    return Operations(fma=elements - count, mul=count, add=2 * elements, div=3 * count, special=count)


def _standardization(layer: Layer, count: Dim) -> Cost:
    size = layer["x"].size
    operations = moment_operations(size, count) + Operations(mul=size) + scale_and_shift(layer, size)
    return Cost(operations, layer.read, layer.written + saved_bytes(layer, 2 * count), layer.attrs)


@pattern("reduce")
def calc_layer_norm(layer: Layer) -> Cost:
    """Layer normalization, (x - mean) / sqrt(var + eps) * w + b over the axes ``axis`` of every row.

    Per row of c elements:

    * mean: c - 1 add, 1 div;
    * variance: c add, 1 mul, c - 1 fma, 1 div;
    * eps added (1 add), square root, reciprocal (1 div);
    * each difference from the mean times that reciprocal: c mul;
    * weight and bias: c fma; a weight alone c mul, a bias alone c add, neither nothing.

    With a gradient (attribute ``saved``) mean and deviation of every row are written too.

    Source: Ba, Kiros and Hinton, "Layer Normalization", arXiv:1607.06450.

    Shapes: x[N, C], w[C]?, b[C]? -> y[N, C]
    Settings: axis=(1,)
    """
    return _standardization(layer, row_count(layer["x"].shape, layer.attrs["axis"]))


@pattern("reduce", rows=lambda layer: layer["x"].shape[0] * layer.attrs["groups"])
def calc_group_norm(layer: Layer) -> Cost:
    """Group normalization: a layer norm over the channels of a group and all positions.

    Weight and bias are per channel.

    Source: Wu and He, "Group Normalization", arXiv:1803.08494.

    Shapes: x[N, C, H, W], w[C]?, b[C]? -> y[N, C, H, W]
    Settings: groups=G
    """
    return _standardization(layer, layer["x"].shape[0] * layer.attrs["groups"])


@pattern("reduce", rows=lambda layer: prod(layer["x"].shape[:2]))
def calc_instance_norm(layer: Layer) -> Cost:
    """Instance normalization: a layer norm over the positions of every sample and channel.

    With running statistics at inference it is a ``batch_norm``.

    Source: Ulyanov, Vedaldi and Lempitsky, "Instance Normalization", arXiv:1607.08022.

    Shapes: x[N, C, H, W], w[C]?, b[C]? -> y[N, C, H, W]
    """
    return _standardization(layer, prod(layer["x"].shape[:2]))


@pattern("map")
def calc_normalize_rows(layer: Layer) -> Cost:
    """Rows minus their mean, times their reciprocal deviation, both given: 1 add and 1 mul per element.

    Shapes: x[N, C], mean[N], scale[N] -> y[N, C]
    """
    return Cost(layer["x"].size * Operations(add=1, mul=1), layer.read, layer.written, layer.attrs)


@pattern("reduce")
def calc_mean_variance_norm(layer: Layer) -> Cost:
    """Mean variance normalization, (x - mean) / (sqrt(var) + eps) over the axes ``axis``, without weight.

    Mean and variance as in ``layer_norm``; then per row of c elements a square root, + eps and c divisions.

    Source: ONNX operator MeanVarianceNormalization.

    Shapes: x[N, C, H, W] -> y[N, C, H, W]
    Settings: axis=(0, 2, 3)
    """
    x = layer["x"]
    count = row_count(x.shape, layer.attrs["axis"])
    operations = moment_operations(x.size, count) + Operations(div=x.size - count)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("reduce")
def calc_subtract_mean(layer: Layer) -> Cost:
    """Differences from the mean over the axes ``axis``: per row of c elements c - 1 add, 1 div and c add.

    Source: OpenVINO MVN-6 without ``normalize_variance``.

    Shapes: x[N, C, H, W] -> y[N, C, H, W]
    Settings: axis=(2, 3)
    """
    x = layer["x"]
    rows = row_count(x.shape, layer.attrs["axis"])
    return Cost(Operations(add=2 * x.size - rows, div=rows), layer.read, layer.written, layer.attrs)


def rms_norm_operations(elements: Dim, count: Dim) -> Operations:
    """Return the operations of a weighted ``rms_norm`` of ``count`` rows, ``elements`` elements in all."""
    return Operations(fma=elements - count, mul=count + 2 * elements, add=count, div=2 * count, special=count)


@pattern("reduce")
def calc_rms_norm(layer: Layer) -> Cost:
    """Root mean square normalization, x / sqrt(mean(x^2) + eps) * w over the axes ``axis`` of every row.

    Per row of c elements:

    * squares: 1 mul, c - 1 fma; their mean: 1 div;
    * eps added (1 add), square root, reciprocal (1 div);
    * x times it: c mul;
    * the weight: c mul (with a bias c fma, without a weight nothing).

    Source: Zhang and Sennrich, "Root Mean Square Layer Normalization", arXiv:1910.07467.

    Shapes: x[N, C], w[C]? -> y[N, C]
    Settings: axis=(1,)
    """
    size = layer["x"].size
    count = row_count(layer["x"].shape, layer.attrs["axis"])
    scale = Operations(fma=size - count, mul=count, add=count, div=2 * count, special=count)
    operations = scale + Operations(mul=size) + scale_and_shift(layer, size)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("reduce")
def calc_l2_normalize(layer: Layer) -> Cost:
    """L2 normalization, x / (sqrt(sum(x^2)) + eps) over the axes ``axis``.

    Per row of c elements: squares 1 mul, c - 1 fma; square root; + eps 1 add; c divisions.

    Shapes: x[N, C] -> y[N, C]
    Settings: axis=(1,)
    """
    size = layer["x"].size
    count = row_count(layer["x"].shape, layer.attrs["axis"])
    operations = Operations(fma=size - count, mul=count, add=count, div=size, special=count)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("reduce")
def calc_l1_normalize(layer: Layer) -> Cost:
    """L1 normalization, x / sum(|x|) over the axes ``axis``: 2c - 1 add and c div per row of c elements.

    Source: ONNX operator LpNormalization with p = 1.

    Shapes: x[N, C] -> y[N, C]
    Settings: axis=(1,)
    """
    size = layer["x"].size
    count = row_count(layer["x"].shape, layer.attrs["axis"])
    return Cost(Operations(add=2 * size - count, div=size), layer.read, layer.written, layer.attrs)


@pattern("window")
def calc_local_response_norm(layer: Layer) -> Cost:
    """Local response normalization, x * (k + alpha * s)^-beta.

    s is the sum of squares in a window of channels. Per element, with a window of n channels: 1 mul for the square; n -
    1 add for the sum (taps beyond the first and last channel are counted); 1 fma for k + alpha * s; 1 special for the
    power; 1 mul for the product.

    Source: Krizhevsky, Sutskever and Hinton, "ImageNet Classification with Deep Convolutional Neural Networks", 2012.

    Shapes: x[N, C, H, W] -> y[N, C, H, W]
    Settings: size=n
    """
    operations = Operations(fma=1, mul=2, add=layer.attrs["size"] - 1, special=1) * layer["x"].size
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("reduce", rows=lambda layer: layer["w1"].size)
def calc_weight_norm(layer: Layer) -> Cost:
    """Weight normalization, w * (g / ||w||), the norm over all axes except ``axis``.

    Per index of ``axis`` with c elements: squares 1 mul, c - 1 fma; square root; g divided by it; c mul.

    Source: Salimans and Kingma, "Weight Normalization", arXiv:1602.07868.

    Shapes: w0[C_out, C_in], w1[C_out] -> y[C_out, C_in]
    Settings: axis=0
    """
    size, count = layer["w0"].size, layer["w1"].size
    operations = Operations(fma=size - count, mul=size + count, div=count, special=count)
    return Cost(operations, layer.read, layer.written, layer.attrs)


# Slices and rows limited to a norm.


def _norm_limit(layer: Layer, elements: Dim, count: Dim) -> Operations:
    return norm_operations(layer.attrs.get("p", 2), elements, count) + Operations(
        mul=elements, add=count, cmp=count, div=count
    )


@pattern("reduce", rows=lambda layer: layer["x"].shape[layer.attrs["axis"]])
def calc_renorm(layer: Layer) -> Cost:
    """Slices along an axis limited to a norm of at most ``limit``.

    Per slice of n elements: its p-norm (as in ``pairwise_distances``), 1 cmp with the limit, 1 add of eps and 1 div;
    then n mul. Every slice is assumed to exceed the limit, because data decides which ones do.

    Shapes: x[N, C] -> y[N, C]
    Settings: axis=0, p=2
    """
    x = layer["x"]
    return Cost(_norm_limit(layer, x.size, x.shape[layer.attrs["axis"]]), layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_renorm_rows(layer: Layer) -> Cost:
    """Rows of a weight, selected by indices, limited in place to a norm of at most ``limit``.

    As ``renorm``, with at most one row per index; only these rows are read and written.

    Shapes: w[V, D], x[N] -> y[V, D]
    Settings: p=2
    """
    w, count = layer["w"], layer["x"].size
    elements = count * prod(w.shape[1:])
    operations = _norm_limit(layer, elements, count)
    read = layer["x"].nbytes + w.bytes_of(elements)
    return Cost(operations, read, layer.out.bytes_of(elements), layer.attrs)


# Decorrelated batch normalization (whitening) and its gradients.


def _group_sizes(layer: Layer) -> tuple[Dim, Dim, Dim]:
    x, groups = layer.get("x") or layer["dy"], layer.attrs["groups"]
    width = x.shape[1] // groups
    # Groups, channels of a group, and the products of one matrix per group with all columns.
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


# Gradients of normalization layers.
#
# Statistics of the forward pass are given. The attribute ``needs`` names the operands that receive a gradient; the
# outputs are these gradients. Default: all.


def _gradient_input_bytes(layer: Layer, needed: tuple[str, ...]) -> Dim:
    # dx needs the weight; no gradient needs the bias.
    return layer.read - input_bytes(layer, "b", *(() if "x" in needed else ("w",)))


@pattern(lambda layer: "reduce" if len(layer.outputs) > 1 or layer.attrs.get("training") else "map", rows=channel_count)
def calc_batch_norm_backward(layer: Layer) -> Cost:
    """Backward of batch normalization.

    In training dx = (w / std) (dy - db / m - n dw / m), with the normalized x n.

    Training, per channel of m elements:

    * n: m add, m mul;
    * dw = sum(dy n): 1 mul, m - 1 fma; db = sum(dy): m - 1 add; both divided by m: 2 div;
    * w / std: 1 mul (with a weight);
    * the two subtractions: m add, m fma; the scale: m mul.

    dx takes both sums even if dw and db are not needed. At inference (attribute ``training`` false) dx is dy times the
    folded scale, 1 mul per element, and the sums are computed only if needed.

    Shapes: dy[N, C, H, W], x[N, C, H, W], w[C], b[C] -> dx[N, C, H, W], dw[C], db[C]
    Settings: training=True, needs=("x", "w", "b")
    """
    size, count, needed = layer["x"].size, channel_count(layer), needed_gradients(layer, "x", "w", "b")
    through_statistics = bool(layer.attrs.get("training")) and "x" in needed
    operations = Operations()
    if "w" in needed or through_statistics:
        operations += Operations(add=size, mul=size) + dot_products(count, size)
    if "b" in needed or through_statistics:
        operations += Operations(add=size - count)
    if through_statistics:
        operations += Operations(fma=size, mul=size + (count if "w" in layer else 0), add=size, div=2 * count)
    elif "x" in needed:
        operations += Operations(mul=size)
    return Cost(operations, _gradient_input_bytes(layer, needed), layer.written, layer.attrs)


@pattern("reduce", rows=lambda layer: layer["w"].size)
def calc_batch_renorm_backward(layer: Layer) -> Cost:
    """Backward of batch renormalization, dx = (w r / std) (dy - (db + n sum(dy n)) / m).

    n is the normalized x. Per channel of m elements:

    * n: m add, m mul; n r + d: m fma;
    * sum(dy n) and dw = sum(dy (n r + d)): 1 mul, m - 1 fma each;
    * db = sum(dy): m - 1 add;
    * two means: 2 div; w r / std: 2 mul;
    * dx: m add, m fma, m mul.

    Statistics of the forward pass are given.

    Shapes: dy[N, C, H, W], x[N, C, H, W], w[C] -> dx[N, C, H, W], dw[C], db[C]
    """
    size, channels = layer["x"].size, layer["w"].size
    operations = dot_products(2 * channels, 2 * size) + Operations(fma=2 * size, mul=2 * size, add=3 * size)
    operations += Operations(mul=2, add=-1, div=2) * channels
    return Cost(operations, layer.read, layer.written, layer.attrs)


def _affine_gradients(layer: Layer, needed: tuple[str, ...]) -> Operations:
    size = layer["x"].size
    # dw is the sum of dy times the normalized x, db the sum of dy.
    weight = dot_products(layer["w"].size, size) if "w" in needed else Operations()
    bias = Operations(add=size - (layer.get("b") or layer.outputs[-1]).size) if "b" in needed else Operations()
    return weight + bias


def _standardization_backward(layer: Layer, count: Dim) -> Cost:
    size, needed = layer["x"].size, needed_gradients(layer, "x", "w", "b")
    operations = _affine_gradients(layer, needed)
    if "x" in needed or "w" in needed:
        operations += Operations(add=size, mul=size)
    if "x" in needed:
        operations += Operations(mul=size if "w" in layer else 0) + dot_products(count, size)
        operations += Operations(fma=size, mul=size, add=2 * size - count, div=2 * count)
    return Cost(operations, _gradient_input_bytes(layer, needed), layer.written, layer.attrs)


@pattern("reduce")
def calc_layer_norm_backward(layer: Layer) -> Cost:
    """Backward of layer normalization, dx = (g - mean(g) - n mean(g n)) / std.

    n is the normalized x, and g = dy w. Per row of c elements:

    * n: c add, c mul; g: c mul (with a weight);
    * mean(g): c - 1 add, 1 div; mean(g n): 1 mul, c - 1 fma, 1 div;
    * the two subtractions: c add, c fma; 1 / std: c mul.

    dw sums dy n over the rows (a dot product for every weight); db sums dy.

    Shapes: dy[N, C], x[N, C], w[C], b[C] -> dx[N, C], dw[C], db[C]
    Settings: axis=(1,), needs=("x", "w", "b")
    """
    return _standardization_backward(layer, row_count(layer["x"].shape, layer.attrs["axis"]))


@pattern("reduce", rows=lambda layer: layer["x"].shape[0] * layer.attrs["groups"])
def calc_group_norm_backward(layer: Layer) -> Cost:
    """Backward of group normalization: ``layer_norm_backward`` over the groups of every sample.

    Shapes: dy[N, C, H, W], x[N, C, H, W], w[C], b[C] -> dx[N, C, H, W], dw[C], db[C]
    Settings: groups=G, needs=("x", "w", "b")
    """
    return _standardization_backward(layer, layer["x"].shape[0] * layer.attrs["groups"])


@pattern("reduce", rows=lambda layer: prod(layer["x"].shape[:2]))
def calc_instance_norm_backward(layer: Layer) -> Cost:
    """Backward of instance normalization: ``layer_norm_backward`` over every sample and channel.

    Shapes: dy[N, C, H, W], x[N, C, H, W], w[C], b[C] -> dx[N, C, H, W], dw[C], db[C]
    Settings: needs=("x", "w", "b")
    """
    return _standardization_backward(layer, prod(layer["x"].shape[:2]))


@pattern("reduce")
def calc_normalize_rows_backward(layer: Layer) -> Cost:
    """Gradient through standardized rows n and their statistics.

    dx = (dy - mean(dy) - n mean(dy n)) * scale. Per row of c elements: mean(dy) c - 1 add, 1 div; mean(dy n) 1 mul, c -
    1 fma, 1 div; c add, c fma; c mul.

    Shapes: dy[N, C], y[N, C], scale[N] -> dx[N, C]
    """
    size, count = layer["dy"].size, layer["dy"].shape[0]
    operations = dot_products(count, size) + Operations(fma=size, mul=size, add=2 * size - count, div=2 * count)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("reduce", rows=lambda layer: layer["w"].size)
def calc_scale_shift_backward(layer: Layer) -> Cost:
    """Gradients of x * w + b with a weight and bias per channel: dx = dy w, dw = sum(dy x), db = sum(dy).

    Shapes: dy[N, C, L], x[N, C, L], w[C] -> dx[N, C, L], dw[C], db[C]
    """
    size, channels = layer["dy"].size, layer["w"].size
    operations = Operations(mul=size, add=size - channels) + dot_products(channels, size)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("reduce")
def calc_rms_norm_backward(layer: Layer) -> Cost:
    """Backward of RMS normalization, dx = (g - n mean(g n)) / rms, with normalized n and g = dy w.

    Per row of c elements:

    * n: c mul; g: c mul (with a weight);
    * mean(g n): 1 mul, c - 1 fma, 1 div;
    * the subtraction: c fma; 1 / rms: c mul.

    dw sums dy n over the rows.

    Shapes: dy[N, C], x[N, C], w[C] -> dx[N, C], dw[C]
    Settings: axis=(1,), needs=("x", "w")
    """
    size, needed = layer["x"].size, needed_gradients(layer, "x", "w", "b")
    count = row_count(layer["x"].shape, layer.attrs["axis"])
    operations = _affine_gradients(layer, needed)
    if "x" in needed or "w" in needed:
        operations += Operations(mul=size)
    if "x" in needed:
        operations += Operations(mul=size if "w" in layer else 0) + dot_products(count, size)
        operations += Operations(fma=size, mul=size, div=count)
    return Cost(operations, _gradient_input_bytes(layer, needed), layer.written, layer.attrs)


@pattern("window")
def calc_local_response_norm_backward(layer: Layer) -> Cost:
    """Gradient of local response normalization.

    dx = dy u^-beta - 2 alpha beta x sum(y dy / u), the sum over the window.

    u = k + alpha s and its power, ``scale``, are given by the forward pass. Per element, with a window of n channels: y
    dy / u (1 mul, 1 div), the sum (n - 1 add, taps beyond the ends are counted), dy times the power (1 mul), x times
    the constant (1 mul), and the subtraction of its product with the sum (1 fma).

    Shapes: dy[N, C, H, W], x[N, C, H, W], y[N, C, H, W], u[N, C, H, W], scale[N, C, H, W] -> dx[N, C, H, W]
    Settings: size=n
    """
    operations = Operations(fma=1, mul=3, add=layer.attrs["size"] - 1, div=1) * layer["dy"].size
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("reduce", rows=lambda layer: layer["w1"].size)
def calc_weight_norm_backward(layer: Layer) -> Cost:
    """Gradients of w * (g / |w|): dg = sum(dy w) / |w| and dw = (dy - w dg / |w|) g / |w|, norms given.

    Per index of the kept axis with c elements: the dot product (1 mul, c - 1 fma) and 1 div; dg / |w| and g / |w|, 2
    div; c fma, c mul.

    Source: Salimans and Kingma, "Weight Normalization", arXiv:1602.07868, equation 3.

    Shapes: dy[C_out, C_in], w0[C_out, C_in], w1[C_out], norms[C_out] -> dw0[C_out, C_in], dw1[C_out]
    """
    size, count = layer["w0"].size, layer["w1"].size
    operations = dot_products(count, size) + Operations(fma=size, mul=size, div=3 * count)
    return Cost(operations, layer.read, layer.written, layer.attrs)
