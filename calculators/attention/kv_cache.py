"""Attention as inference engines run it: with a cache of past keys and values, and what they fuse to it."""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations, maximum, minimum, prod

from .._shared import dot_products, input_bytes, operations_of
from ..normalization.norms import rms_norm_operations
from .attention import attention_operations
from .position import ROTATION


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
    operations, macs = attention_operations(layer, rows, keys, q.size, rows * v.shape[-1])
    operations += fused_preparation(layer) + Operations(add=rows, special=rows) * (1 if "sink" in layer else 0)
    read, written = layer.read - input_bytes(layer, "cos", "sin"), layer.written
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


def fused_preparation(layer: Layer) -> Operations:
    """What is done to new queries and keys before they meet: bias, norms, rotary embedding."""
    q, k, v = layer["q"], layer["k"], layer["v"]
    operations = Operations(add=q.size + k.size + v.size if "b" in layer else 0)
    for name, x in (("w0", q), ("w1", k)):
        if name in layer:
            operations += rms_norm_operations(x.size, x.size // x.shape[-1])
    if "cos" in layer or layer.attrs.get("rotary_dim"):
        width = layer.attrs.get("rotary_dim") or q.shape[-1]
        operations += (q.size + k.size) // q.shape[-1] * width * ROTATION
    return operations


def projection(count: Dim, width: Dim, biased: bool) -> tuple[Operations, Dim]:
    """``count`` projected elements of ``width`` products each, and their macs."""
    return dot_products(count, count * width, biased), count * width


def calc_cached_attention(layer: Layer) -> Cost:
    """Attention of a decoder's layer with its projections, whose keys and values may come from a cache.

    The input q is projected by ``w0``; ``made`` keys and values in all are projected by ``w1``, from q or from k,
    none where the cache holds them all; each query meets ``keys`` of them in ``heads`` heads, as in ``attention``. All
    projections stand on their part of ``b``.

    Shapes: q[T, N, E], w0[E, E], w1[E, 2*E], b[3*E], past_k[N, H, P, D], past_v[N, H, P, D] -> y[T, N, E]
    Settings: heads=H, keys=P+T, made=N*T
    """
    q, attrs = layer["q"], layer.attrs
    width = q.shape[-1]
    rows = q.size // width * attrs["heads"]
    operations, macs = attention_operations(layer, rows, attrs["keys"], q.size, q.size)
    for count in (q.size, 2 * attrs["made"] * width):
        projected, products = projection(count, width, "b" in layer)
        operations, macs = operations + projected, macs + products
    return Cost(operations, layer.read, layer.written, attrs, macs)


CACHE_OPERANDS = ("past_k", "past_v", "more_k", "more_v", "indices", "counts")


def calc_paged_attention(layer: Layer) -> Cost:
    """Attention of joined sequences on caches in pages, which are shared by all sequences.

    Scores, sums and what is fused before them are those of ``decoder_attention`` with ``keys`` keys a query. Tables say
    which pages are a sequence's: there are ``positions`` of them in all, of which those of the past are read, and of
    the caches no more than there is. Quantised caches (``k_scale``, ``v_scale``) take 1 mul per element read, 1 div and
    3 cmp per new one; with ``shared`` what is new goes into the caches, and only that is written.

    Source: Kwon et al., PagedAttention, arXiv:2309.06180.

    Shapes: q[1, H, T, D], k[1, H_kv, T, D], v[1, H_kv, T, D], past_k[P, S, H_kv, D], past_v[P, S, H_kv, D]
        -> y[T, H*D]
    Settings: keys=K, positions=N*K
    """
    k, attrs = layer["k"], layer.attrs
    operands = {name: x for name, x in layer.inputs.items() if name not in CACHE_OPERANDS}
    settings = {name: value for name, value in attrs.items() if name != "shared"}
    plain = calc_decoder_attention(Layer("decoder_attention", operands, layer.outputs, settings))
    operations, read, written = operations_of(plain), plain.mread, layer.written
    before = maximum(attrs["positions"] - k.shape[-2], 0)
    for part in ("k", "v"):
        cache, new = layer.get(f"past_{part}"), layer[part]
        if cache is None:
            continue
        used = minimum(cache.size, before * cache.shape[-2] * cache.shape[-1])
        read += cache.bytes_of(used)
        if f"{part}_scale" in layer:
            operations += Operations(mul=used) + new.size * Operations(div=1, cmp=3)
        if attrs.get("shared"):
            written += cache.bytes_of(new.size) - cache.nbytes
    return Cost(operations, read, written, attrs, plain.macs)
