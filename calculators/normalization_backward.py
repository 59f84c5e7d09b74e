"""Gradients of normalisations and of softmax, from the derivatives of their definitions.

The statistics of the forward pass are there already. The setting ``needs`` names the operands whose gradients are made,
and the outputs are these; without it, all.
"""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations, prod

from .normalization import channels
from .parts import dot_products, needed, read_of, rows


def _read(layer: Layer, wanted: tuple[str, ...]) -> Dim:
    """Bytes of the inputs but the bias, and but the weight where dx is not wanted."""
    return layer.read - read_of(layer, "b", *(() if "x" in wanted else ("w",)))


def _affine_gradients(layer: Layer, wanted: tuple[str, ...]) -> Operations:
    """The gradients of w, the sum of dy times the normalised x, and of b, the sum of dy, as far as wanted."""
    size = layer["x"].size
    weight = dot_products(layer["w"].size, size) if "w" in wanted else Operations()
    bias = Operations(add=size - (layer.get("b") or layer.outputs[-1]).size) if "b" in wanted else Operations()
    return weight + bias


def _standardised_backward(layer: Layer, count: Dim) -> Cost:
    """Backward of ``count`` rows brought to zero mean and unit variance, then scaled and shifted."""
    size, wanted = layer["x"].size, needed(layer, "x", "w", "b")
    operations = _affine_gradients(layer, wanted)
    if "x" in wanted or "w" in wanted:
        operations += Operations(add=size, mul=size)
    if "x" in wanted:
        operations += Operations(mul=size if "w" in layer else 0) + dot_products(count, size)
        operations += Operations(fma=size, mul=size, add=2 * size - count, div=2 * count)
    return Cost(operations, _read(layer, wanted), layer.written, layer.attrs)


def calc_layer_norm_backward(layer: Layer) -> Cost:
    """Backward of layer normalisation: with n the normalised x and g = dy w, dx = (g - mean(g) - n mean(g n)) / std.

    Per row of c elements: n (c add, c mul), g (c mul, with a weight), mean(g) (c-1 add, 1 div), mean(g n) (1 mul, c-1
    fma, 1 div), the two subtractions (c add, c fma), 1 / std (c mul). dw sums dy n over the rows (a dot product for
    every weight), db sums dy.

    Shapes: dy[N, C], x[N, C], w[C], b[C] -> dx[N, C], dw[C], db[C]
    Settings: axis=(1,), needs=("x", "w", "b")
    """
    return _standardised_backward(layer, rows(layer["x"].shape, layer.attrs["axis"]))


def calc_group_norm_backward(layer: Layer) -> Cost:
    """Backward of group normalisation: as layer_norm_backward, over the groups of every sample.

    Shapes: dy[N, C, H, W], x[N, C, H, W], w[C], b[C] -> dx[N, C, H, W], dw[C], db[C]
    Settings: groups=G, needs=("x", "w", "b")
    """
    return _standardised_backward(layer, layer["x"].shape[0] * layer.attrs["groups"])


def calc_instance_norm_backward(layer: Layer) -> Cost:
    """Backward of instance normalisation: as layer_norm_backward, over the positions of every sample and channel.

    Shapes: dy[N, C, H, W], x[N, C, H, W], w[C], b[C] -> dx[N, C, H, W], dw[C], db[C]
    Settings: needs=("x", "w", "b")
    """
    return _standardised_backward(layer, prod(layer["x"].shape[:2]))


def calc_rms_norm_backward(layer: Layer) -> Cost:
    """Backward of root mean square normalisation: with n the normalised x and g = dy w, dx = (g - n mean(g n)) / rms.

    Per row of c elements: n (c mul), g (c mul, with a weight), mean(g n) (1 mul, c-1 fma, 1 div), the subtraction
    (c fma), 1 / rms (c mul). dw sums dy n over the rows.

    Shapes: dy[N, C], x[N, C], w[C] -> dx[N, C], dw[C]
    Settings: axis=(1,), needs=("x", "w")
    """
    size, wanted = layer["x"].size, needed(layer, "x", "w", "b")
    count = rows(layer["x"].shape, layer.attrs["axis"])
    operations = _affine_gradients(layer, wanted)
    if "x" in wanted or "w" in wanted:
        operations += Operations(mul=size)
    if "x" in wanted:
        operations += Operations(mul=size if "w" in layer else 0) + dot_products(count, size)
        operations += Operations(fma=size, mul=size, div=count)
    return Cost(operations, _read(layer, wanted), layer.written, layer.attrs)


def calc_batch_norm_backward(layer: Layer) -> Cost:
    """Backward of batch normalisation; in training dx = (w / std) (dy - db / m - n dw / m), n the normalised x.

    Per channel of m elements: n (m add, m mul), dw = sum(dy n) (1 mul, m-1 fma), db = sum(dy) (m-1 add), both divided
    by m (2 div), w / std (1 mul, with a weight), the two subtractions (m add, m fma), the scale (m mul). Training
    takes both sums for dx whether they are gradients that are wanted or not. At inference (setting ``training``
    false) dx is dy times the folded scale, 1 mul per element, and the sums are made only where they are wanted.

    Shapes: dy[N, C, H, W], x[N, C, H, W], w[C], b[C] -> dx[N, C, H, W], dw[C], db[C]
    Settings: training=True, needs=("x", "w", "b")
    """
    size, count, wanted = layer["x"].size, channels(layer), needed(layer, "x", "w", "b")
    through_statistics = bool(layer.attrs.get("training")) and "x" in wanted
    operations = Operations()
    if "w" in wanted or through_statistics:
        operations += Operations(add=size, mul=size) + dot_products(count, size)
    if "b" in wanted or through_statistics:
        operations += Operations(add=size - count)
    if through_statistics:
        operations += Operations(fma=size, mul=size + (count if "w" in layer else 0), add=size, div=2 * count)
    elif "x" in wanted:
        operations += Operations(mul=size)
    return Cost(operations, _read(layer, wanted), layer.written, layer.attrs)


def calc_softmax_backward(layer: Layer) -> Cost:
    """Backward of softmax: dx = y (dy - sum(dy y)) along ``axis``.

    Per row of length c: the sum (1 mul, c-1 fma), c subtractions, c mul.

    Shapes: dy[N, C], y[N, C] -> dx[N, C]
    Settings: axis=1
    """
    size = layer["dy"].size
    operations = dot_products(rows(layer["dy"].shape, layer.attrs["axis"]), size) + Operations(add=size, mul=size)
    return Cost(operations, layer.read, layer.written, layer.attrs)


def calc_softmin_backward(layer: Layer) -> Cost:
    """Backward of softmin: as softmax_backward with the sign changed, dx = y (sum(dy y) - dy), at no cost of its own.

    Shapes: dy[N, C], y[N, C] -> dx[N, C]
    Settings: axis=1
    """
    return calc_softmax_backward(layer)


def calc_log_softmax_backward(layer: Layer) -> Cost:
    """Backward of the logarithm of softmax: dx = dy - exp(y) sum(dy) along ``axis``.

    Per row of length c: the sum (c-1 add), c exp, c mul, c subtractions.

    Shapes: dy[N, C], y[N, C] -> dx[N, C]
    Settings: axis=1
    """
    size = layer["dy"].size
    count = rows(layer["dy"].shape, layer.attrs["axis"])
    operations = Operations(add=2 * size - count, mul=size, special=size)
    return Cost(operations, layer.read, layer.written, layer.attrs)
