"""Normalization layers."""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations, pattern, prod

from .._shared import row_count, saved_bytes, scale_and_shift


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
    """Return the cost of rows with zero mean and unit variance, then a weight and a bias if given."""
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
