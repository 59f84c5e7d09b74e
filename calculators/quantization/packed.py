"""Weights packed into blocks of few bits."""

from __future__ import annotations

from costcore.ir import Cost, Layer, Operations, pattern, prod

from .._shared import dot_products
from ..fused.epilogues import activation_operations
from ..matmul.dense import calc_linear
from ..normalization.norms import rms_norm_operations
from .operators import with_extra_operations


@pattern("product")
def calc_packed_linear(layer: Layer) -> Cost:
    """Linear layer with a packed weight, which is dequantized, then multiplied.

    Every weight takes 1 mul by the scale of its block once, and 1 add with zero points or with one ``zero_point`` for
    all; the rest is ``linear``. ``w`` has its logical shape [F_out, F_in] and its packed dtype, so its bytes are the
    packed ones.

    Source: Frantar et al., GPTQ, arXiv:2210.17323.

    Shapes: x[N, F_in], w[F_out, F_in], b[F_out]? -> y[N, F_out]
    """
    inputs = {name: layer[name] for name in ("x", "w", "b") if name in layer}
    w = layer["w"]
    real = Operations(mul=w.size, add=w.size if "w_zero_point" in layer or "zero_point" in layer.attrs else 0)
    return with_extra_operations(layer, calc_linear(Layer("linear", inputs, layer.outputs, layer.attrs)), real)


@pattern("move")
def calc_packed_embedding(layer: Layer) -> Cost:
    """Rows of a packed matrix by index, dequantized.

    Per output element 1 mul by the scale of its block, and 1 add with zero points or with one ``zero_point`` for all.
    As many elements of w as outputs are read, the same share of its scales and zero points, and the indices.

    Shapes: x[N, T], w[V, D], w_scale[V, D] -> y[N, T, D]
    """
    w, y = layer["w"], layer.out
    read = layer["x"].nbytes + w.bytes_of(y.size)
    for name in ("w_scale", "w_zero_point"):
        if name in layer:
            read += layer[name].bytes_of(y.size * layer[name].size // w.size)
    is_shifted = "w_zero_point" in layer or "zero_point" in layer.attrs
    operations = y.size * Operations(mul=1, add=1 if is_shifted else 0)
    return Cost(operations, read, layer.written, layer.attrs)


WEIGHTS = ("w0", "w1", "w2")


@pattern("product")
def calc_packed_projections(layer: Layer) -> Cost:
    """Several linear layers of one input with packed weights, with a sum and a norm before them.

    * The sum of x and ``skip``, if given: 1 add per element.
    * ``rms_norm`` with the weight ``w``, if given.
    * Every weight ``w0``, ``w1``, ``w2`` is dequantized and multiplied, as in ``packed_linear``.
    * ``activation``: the second result times the activation of the first, 1 mul per element; only that is written.

    Source: Frantar et al., GPTQ, arXiv:2210.17323; Shazeer, GLU Variants Improve Transformer, arXiv:2002.05202.

    Shapes: x[N, F], skip[N, F]?, w[F]?, w0[G, F], w1[G, F], b0[G]?, w0_scale[G]?, w1_scale[G]? -> y[N, G]
    Settings: activation="silu"
    """
    x = layer["x"]
    width = x.shape[-1]
    rows = prod(x.shape[:-1])
    operations = Operations(add=x.size if "skip" in layer else 0)
    operations += rms_norm_operations(x.size, rows) if "w" in layer else Operations()
    macs = 0
    for name in WEIGHTS:
        if name not in layer:
            continue
        size = layer[name].size
        products = rows * size
        operations += dot_products(products // width, products, f"b{name[1]}" in layer)
        is_shifted = f"{name}_zero_point" in layer or "zero_point" in layer.attrs
        operations += size * Operations(mul=1, add=1 if is_shifted else 0)
        macs += products
    if "activation" in layer.attrs:
        operations += layer.out.size * (activation_operations(layer) + Operations(mul=1))
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)


@pattern("product")
def calc_packed_matmul(layer: Layer) -> Cost:
    """Matrix product with a weight of few bits, which is dequantized as it is used.

    Dequantization takes 1 mul per element of the weight, and 1 add with zero points. The weight may have any packed
    layout; N is the last axis of y.

    Source: Frantar et al., GPTQ, arXiv:2210.17323.

    Shapes: x[M, K], w[N, K], w_scale[N] -> y[M, N]
    """
    y, length = layer.out.size, layer["x"].shape[-1]
    weights, macs = layer.out.shape[-1] * length, y * length
    operations = dot_products(y, macs) + weights * Operations(mul=1, add=1 if layer.attrs.get("zero_points") else 0)
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)
