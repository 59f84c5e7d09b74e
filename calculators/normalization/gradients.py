"""Gradients of normalization layers.

Statistics of the forward pass are given. The attribute ``needs`` names the operands that receive a gradient; the
outputs are these gradients. Default: all.
"""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations, pattern, prod

from .._shared import dot_products, input_bytes, needed_gradients, row_count
from .norms import channel_count


def _gradient_input_bytes(layer: Layer, needed: tuple[str, ...]) -> Dim:
    """Return the bytes of all inputs except the bias, and except the weight if dx is not needed."""
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
    """Return the operations of dw and db, if needed.

    dw is the sum of dy times the normalized x, db the sum of dy.
    """
    size = layer["x"].size
    weight = dot_products(layer["w"].size, size) if "w" in needed else Operations()
    bias = Operations(add=size - (layer.get("b") or layer.outputs[-1]).size) if "b" in needed else Operations()
    return weight + bias


def _standardization_backward(layer: Layer, count: Dim) -> Cost:
    """Return the cost of the backward of ``count`` rows, standardized, scaled and shifted."""
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
