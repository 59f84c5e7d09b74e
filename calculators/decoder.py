"""Attention as inference engines run it: with a cache of past keys and values, and what they fuse to it."""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations, minimum, prod

from .attention import attend, calc_multi_head_attention
from .parts import read_of

TURN = Operations(mul=2, add=1)
"""One element under a rotary embedding."""


def calc_decoder_attention(layer: Layer) -> Cost:
    """Scaled dot-product attention of new queries with past and new keys and values.

    Scores and their sums as in ``attention``, over all T_k keys: the setting ``keys``, or the past ``past_k`` and the
    new ones. Of caches longer than that only the part in use is read; with ``shared`` they are updated in place, and
    only what is new is written.

    What may be fused to it: a bias ``b`` on queries, keys and values, 1 add each; RMS norms of their rows with weights
    ``w0`` and ``w1``, as ``rms_norm``; a rotary embedding by tables ``cos`` and ``sin`` of ``rotary_dim`` features
    (absent: all), 2 mul and 1 add per turned element, one row of the tables per new position; a ``sink`` in the sum of
    every softmax, 1 special and 1 add; caches quantised by ``k_scale`` and ``v_scale``, 1 mul per element read of
    them, 1 div and 3 cmp per new one.

    Shapes: q[N, H, T_q, D], k[N, H_kv, T, D], v[N, H_kv, T, D], past_k[N, H_kv, P, D], past_v[N, H_kv, P, D]
        -> y[N, H, T_q, D]
    """
    q, k, v = layer["q"], layer["k"], layer["v"]
    past = layer.get("past_k")
    new = k.shape[-2]
    keys = layer.attrs.get("keys") or (new if past is None else new + past.shape[-2])
    rows = prod(q.shape[:-1])
    operations, macs = attend(layer, rows, keys, q.size, rows * v.shape[-1])
    operations += _before(layer) + Operations(add=rows, special=rows) * (1 if "sink" in layer else 0)
    read, written = layer.read - read_of(layer, "cos", "sin"), layer.written
    for name in ("past_k", "past_v"):
        if name in layer:
            cache = layer[name]
            used = minimum(cache.size, cache.size // cache.shape[-2] * (keys - new))
            read += cache.bytes_of(used) - cache.nbytes
            if f"{name[-1]}_scale" in layer:
                operations += Operations(mul=used) + layer[name[-1]].size * Operations(div=1, cmp=3)
            if layer.attrs.get("shared"):
                written += cache.bytes_of(cache.size // cache.shape[-2] * new) - cache.nbytes
    if "cos" in layer:
        turned = minimum(k.shape[0] * new * layer["cos"].shape[-1], layer["cos"].size)
        read += 2 * layer["cos"].bytes_of(turned)
    return Cost(operations, read, written, layer.attrs, macs)


def _before(layer: Layer) -> Operations:
    """What is done to new queries and keys before they meet: bias, norms, rotary embedding."""
    q, k, v = layer["q"], layer["k"], layer["v"]
    operations = Operations(add=q.size + k.size + v.size if "b" in layer else 0)
    for name, x in (("w0", q), ("w1", k)):
        if name in layer:
            operations += rms(x.size, x.size // x.shape[-1])
    if "cos" in layer or layer.attrs.get("rotary_dim"):
        width = layer.attrs.get("rotary_dim") or q.shape[-1]
        operations += (q.size + k.size) // q.shape[-1] * width * TURN
    return operations


def rms(elements: Dim, count: Dim) -> Operations:
    """A weighted RMS norm of ``count`` rows with ``elements`` elements in all, as ``rms_norm`` counts it."""
    return Operations(fma=elements - count, mul=count + 2 * elements, add=count, div=2 * count, special=count)


def calc_quantized_multi_head_attention(layer: Layer) -> Cost:
    """``multi_head_attention`` whose projections multiply quantised inputs by quantised weights.

    Zero points are subtracted, 1 add per element of input and weight that has one; every projected element is made
    real, 1 mul by the joined scale. Scores and what follows are on real numbers.

    Shapes: q[N, T, E], w0[3*E, E], b0[3*E], q_zero_point[1]? -> y[N, T, E]
    Settings: heads=H, features=(E, E, E)
    """
    plain = {name: x for name, x in layer.inputs.items() if not name.endswith(("_scale", "_zero_point"))}
    cost = calc_multi_head_attention(Layer("multi_head_attention", plain, layer.outputs, layer.attrs))
    q = layer["q"]
    projected = q.size // q.shape[-1] * sum(layer.attrs["features"])
    shifted = sum(layer[name].size for name in ("q", "w0") if f"{name}_zero_point" in layer)
    assert isinstance(cost.flops, Operations)
    operations = cost.flops + Operations(mul=projected, add=shifted)
    return Cost(operations, layer.read, layer.written, layer.attrs, cost.macs)
