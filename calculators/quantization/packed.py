"""Weights and values stored in few bits, with what inference engines fuse to the layers that read them."""

from __future__ import annotations

from costcore.ir import Cost, Layer, Operations, prod

from .._shared import dot_products
from ..fused.epilogues import activation_operations
from ..matmul.dense import calc_linear
from ..normalization.norms import rms_norm_operations
from .operators import _with_extra_operations

WEIGHTS = ("w0", "w1", "w2")


def calc_packed_projections(layer: Layer) -> Cost:
    """Several linear layers of one input whose weights are stored in blocks of few bits, its norm before them.

    x and ``skip`` are added where both are given (1 add), and normalised by ``rms_norm`` with the weight ``w``, where
    it is given. Every weight ``w0``, ``w1``, ``w2`` is made real and multiplied, as in ``packed_linear``. With an
    ``activation`` the second result is multiplied by the activation of the first, 1 mul, and only that is written.

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


def calc_packed_linear(layer: Layer) -> Cost:
    """Linear layer whose weight is stored in blocks of few bits: made real, then multiplied.

    Every weight takes 1 mul by the scale of its block, and 1 add with zero points, or with one ``zero_point`` for all,
    once; the rest is ``linear``.
    The weight ``w`` has its own shape [F_out, F_in] and its packed type, so its bytes are the packed ones.

    Source: Frantar et al., GPTQ, arXiv:2210.17323.

    Shapes: x[N, F_in], w[F_out, F_in], b[F_out]? -> y[N, F_out]
    """
    inputs = {name: layer[name] for name in ("x", "w", "b") if name in layer}
    w = layer["w"]
    real = Operations(mul=w.size, add=w.size if "w_zero_point" in layer or "zero_point" in layer.attrs else 0)
    return _with_extra_operations(layer, calc_linear(Layer("linear", inputs, layer.outputs, layer.attrs)), real)


def calc_packed_embedding(layer: Layer) -> Cost:
    """Rows of a matrix that is stored in blocks of few bits: the rows taken are made real.

    Per output element 1 mul by the scale of its block, and 1 add with zero points, or with one ``zero_point`` for all.
    As many elements of w, and as large a part of its scales and zero points, are read as are written; and the indices.

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
