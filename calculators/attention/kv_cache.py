"""Attention with a cache of keys and values.

Inference engines fuse the steps before the scores with it: biases, norms, rotary embeddings, quantized caches.
"""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations, maximum, minimum, pattern, prod

from .._shared import dot_products, input_bytes, operations_of
from ..normalization.norms import rms_norm_operations
from .attention import attention_operations
from .position import ROTATION

CACHE_OPERANDS = ("past_k", "past_v", "more_k", "more_v", "indices", "counts")
"""Operands of caches and of selected keys, which ``decoder_attention`` alone does not have."""


@pattern("product")
def calc_decoder_attention(layer: Layer) -> Cost:
    """Scaled dot-product attention of new queries to past and new keys and values.

    Scores and outputs are those of ``attention`` over T_k keys: the attribute ``keys``, or the past ``past_k`` and the
    new keys. Only the used part of a longer cache is read. If the attribute ``shared`` is set, the caches are updated
    in place, and only new entries are written.

    Operands that add operations:

    * ``b``, a bias on queries, keys and values: 1 add per element.
    * ``w0`` and ``w1``, RMS norms of queries and keys: as ``rms_norm``.
    * ``cos`` and ``sin``, a rotary embedding of ``rotary_dim`` features (default: all): 2 mul and 1 add per rotated
      element; one row of each table is read per new position.
    * ``sink``, a term in the sum of every softmax: 1 special and 1 add per row.
    * ``k_scale`` and ``v_scale``, quantized caches: 1 mul per element read of them, 1 div and 3 cmp per new element.

    Shapes: q[N, H, T_q, D], k[N, H_kv, T, D], v[N, H_kv, T, D], past_k[N, H_kv, P, D], past_v[N, H_kv, P, D]
        -> y[N, H, T_q, D]
    """
    q, k, v = layer["q"], layer["k"], layer["v"]
    past = layer.get("past_k")
    new, shared = k.shape[-2], in_place(layer)
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
            written += shared * (cache.bytes_of(cache.size // cache.shape[-2] * new) - cache.nbytes)
    if "cos" in layer:
        rotated = minimum(k.shape[0] * new * layer["cos"].shape[-1], layer["cos"].size)
        read += 2 * layer["cos"].bytes_of(rotated)
    return Cost(operations, read, written, layer.attrs, macs)


def in_place(layer: Layer) -> Dim:
    """Return 1 if the attribute ``shared`` is set, so that caches are updated in place, else 0.

    If symbolic sizes decide, the attribute is an expression that is 1 or 0, which is returned.
    """
    shared: Dim = layer.attrs.get("shared", 0)
    return int(shared) if isinstance(shared, bool) else shared


def fused_preparation(layer: Layer) -> Operations:
    """Return the operations on new queries and keys before the scores: bias, norms, rotary embedding."""
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
    """Return the operations and MACs of ``count`` projected elements, dot products of length ``width``."""
    return dot_products(count, count * width, biased), count * width


@pattern("product")
def calc_cached_attention(layer: Layer) -> Cost:
    """Attention of a decoder layer with its projections, whose keys and values may come from a cache.

    * The input q is projected by ``w0``.
    * ``w1`` projects ``made`` keys and as many values, from q or from k; none if the cache contains them all.
    * Each query attends to ``keys`` keys in ``heads`` heads, as in ``attention``.

    Every projection starts at its part of ``b``.

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


@pattern("product")
def calc_paged_attention(layer: Layer) -> Cost:
    """Attention of concatenated sequences whose caches are stored in pages.

    Scores, outputs and fused steps are those of ``decoder_attention`` with ``keys`` keys per query. Tables assign pages
    to sequences. ``positions`` is the number of past and new positions of all sequences. The cached keys and values of
    the past positions are read, at most the whole caches.

    Quantized caches (``k_scale``, ``v_scale``) take 1 mul per element read, and 1 div and 3 cmp per new element. If
    the attribute ``shared`` is set, the caches are updated in place, and only new entries are written.

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
        written += in_place(layer) * (cache.bytes_of(new.size) - cache.nbytes)
    return Cost(operations, read, written, attrs, plain.macs)
