"""Hyper-connections: several residual streams that are gated, reduced and mixed."""

from __future__ import annotations

from costcore.ir import Cost, Layer, Operations, pattern

from .._shared import dot_products
from ..activation.activations import SIGMOID
from ..normalization.norms import rms_norm_operations


@pattern("window")
def calc_reduce_streams(layer: Layer) -> Cost:
    """Weighted sum of C streams, y_h = ``scale`` * sum_c x_ch gate_ch.

    Per element of y 1 mul and C - 1 fma, and 1 mul for a scale other than 1. With one gate per stream the products are
    MACs (a row of gates times the matrix of streams); with one gate per feature, ``gate[N, C, H]``, they are
    elementwise.

    Source: Zhu et al., Hyper-Connections, arXiv:2409.19606.

    Shapes: x[N, C, H], gate[N, C] -> y[N, H]
    Settings: streams=C, scale=1
    """
    y, streams = layer.out.size, layer.attrs["streams"]
    products = y * streams
    operations = dot_products(y, products) + Operations(mul=0 if layer.attrs.get("scale", 1) == 1 else y)
    is_product = len(layer["gate"].shape) < len(layer["x"].shape)
    return Cost(operations, layer.read, layer.written, layer.attrs, products if is_product else 0)


@pattern("product")
def calc_mix_streams(layer: Layer) -> Cost:
    """C mixed streams plus the gated output of a layer, y_k = sum_c m_ck x_c + gate_k z.

    Per element of y 1 fma for the gated output. With the mixing matrix ``m`` a dot product of length C precedes it,
    which is MACs; without it the streams are not mixed.

    Source: Zhu et al., Hyper-Connections, arXiv:2409.19606.

    Shapes: x[N, C, H], z[N, H], gate[N, C], m[N, C, C] -> y[N, C, H]
    Settings: streams=C
    """
    y = layer.out.size
    macs = y * layer.attrs["streams"] if "m" in layer else 0
    mixed = dot_products(y, macs) if "m" in layer else Operations()
    return Cost(mixed + Operations(fma=y), layer.read, layer.written, layer.attrs, macs)


@pattern("opaque")
def calc_similarity_gate(layer: Layer) -> Cost:
    """Value gated by the similarity of a query and a key: sigmoid(sign(s) sqrt(max(|s|, eps))) v.

    * Queries and keys, one of each per stream: ``rms_norm`` with the weights ``w0`` and ``w1``.
    * s, the sum of their product over the features: 1 mul and H - 1 fma, and 1 mul for the scale.
    * The gate: 1 add, 1 cmp, 1 special, 2 cmp for the sign, 1 mul, and a sigmoid (2 add, 1 div, 1 special).
    * The value times the gate: 1 mul per element.
    * With the weight ``w2``: one more ``rms_norm`` of the gated value, for a second output.

    Products of two activations are not MACs here.

    Shapes: q[N, T, C, H], k[N, T, C, H], v[N, T, H], w0[C, H], w1[C, H], w2[C, H]? -> y[N, T, C, H], normed[N, T, C, H]
    """
    size = layer["q"].size
    count = size // layer["q"].shape[-1]
    gate = Operations(mul=2, add=1, cmp=3, special=1) + SIGMOID
    operations = 2 * rms_norm_operations(size, count) + dot_products(count, size) + count * gate + Operations(mul=size)
    if "w2" in layer:
        operations += rms_norm_operations(size, count)
    return Cost(operations, layer.read, layer.written, layer.attrs)
