"""Attention with and without caches, sparse attention, and position embeddings.

In every formula a *score* is one element of q k^T: one query attends to one key.
"""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations, Tensor, counts_with_empty, maximum, minimum, pattern, prod

from ._shared import dot_products, input_bytes, operations_of, saved_bytes, without_quantization
from .activation import SIGMOID, softmax_operations
from .normalization import rms_norm_operations
from .reduction import selection_comparisons

# Attention and multi-head attention.


@pattern("product")
@counts_with_empty("q", "k")
def calc_attention(layer: Layer) -> Cost:
    """Scaled dot-product attention, softmax(scale * q k^T + mask) v.

    For each (query, key) pair:

    * one dot product of length D;
    * one mul for the scale;
    * with a mask operand, one add (float mask) or one cmp (boolean mask);
    * one element of the softmax over T_k.

    For each output element: one dot product of length T_k.

    All T_q * T_k pairs are counted, so ``causal`` and window attributes change nothing. With ``attention="computed"``
    only the pairs that masks allow are counted: the attribute ``pairs``, over all heads.

    With grouped-query attention, keys and values are read once per group. Scores are not materialized: they are neither
    read nor written. With a gradient (attribute ``saved``) the log-sum-exp of every query is written.

    Queries, keys and values are broadcast over batch and heads as in matmul, and the pairs follow from the output. With
    a head width D of 0, there is no first dot product: all scores are equal, and the values are averaged.

    Two attributes add operations per score: ``softcap``, tanh(s / cap) * cap, 1 div, 1 special and 1 mul; ``dropout``
    (its rate, if active), 1 mul and 1 cmp.

    Source: Vaswani et al., "Attention Is All You Need", arXiv:1706.03762; all pairs as in PaLM, arXiv:2204.02311,
    appendix B.

    Shapes: q[N, H, T_q, D], k[N, H_kv, T_k, D], v[N, H_kv, T_k, D_v], mask[T_q, T_k]? -> y[N, H, T_q, D_v]
    """
    rows = query_rows(layer, layer.out)
    keys, width = layer["k"].shape[-2:]
    operations, macs = attention_operations(layer, rows, keys, rows * width, rows * layer["v"].shape[-1])
    if "pairs" in layer.attrs:
        operations, macs = attention_of_pairs(layer, rows, width, layer["v"].shape[-1], layer.attrs["pairs"])
    return Cost(operations, layer.read, layer.written + saved_bytes(layer, rows), layer.attrs, macs)


def query_rows(layer: Layer, y: Tensor) -> Dim:
    """Return the number of queries over all heads and samples, by the output ``y``.

    An output with joined heads, y[N, T_q, H * D_v], has one axis less than q; then q gives the number.
    """
    return prod((y if y.ndim >= layer["q"].ndim else layer["q"]).shape[:-1])


def attention_operations(layer: Layer, rows: Dim, keys: Dim, queries: Dim, outputs: Dim) -> tuple[Operations, Dim]:
    """Return the operations and MACs of attention.

    Args:
        layer: the layer, with its mask and the attributes ``softcap`` and ``dropout``.
        rows: queries over all heads and samples.
        keys: keys that each query attends to.
        queries: elements of all queries.
        outputs: elements of the output.
    """
    scores = rows * keys
    operations = dot_products(0 if queries == 0 else scores, queries * keys) + dot_products(outputs, outputs * keys)
    return operations + score_operations(layer, rows, scores), (queries + outputs) * keys


def attention_of_pairs(layer: Layer, rows: Dim, width: Dim, outputs: Dim, pairs: Dim) -> tuple[Operations, Dim]:
    """Return the operations and MACs of attention between some of the pairs of queries and keys.

    Args:
        layer: the layer.
        rows: queries over all heads and samples.
        width: elements of a query.
        outputs: elements of the output of a query.
        pairs: pairs over all heads and samples; every query has one at least.
    """
    operations = dot_products(pairs, pairs * width) + dot_products(rows * outputs, pairs * outputs)
    return operations + score_operations(layer, minimum(rows, pairs), pairs), pairs * (width + outputs)


def score_operations(layer: Layer, rows: Dim, scores: Dim) -> Operations:
    """Return the operations per score: scale, mask, softcap, softmax and dropout."""
    operations = Operations(mul=scores) + softmax_operations(scores, rows)
    if "mask" in layer:
        operations += Operations(cmp=scores) if layer["mask"].dtype == "bool" else Operations(add=scores)
    if layer.attrs.get("softcap"):
        operations += Operations(mul=scores, div=scores, special=scores)
    if layer.attrs.get("dropout"):
        operations += Operations(mul=scores, cmp=scores)
    return operations


@pattern("product")
def calc_multi_head_attention(layer: Layer) -> Cost:
    """Multi-head attention with its projections in one operator.

    * Projections: the inputs q, k and v are projected by one packed weight ``w0`` with bias ``b0``. If k and v are
      absent, all three are q. ``features`` gives the sizes of the three projections if they are not a third of ``w0``
      each.
    * Attention: in ``heads`` heads, as in ``attention``.
    * Output: the heads are joined by the projection ``w1`` with bias ``b1``, if given.

    Past keys and values, ``past`` [2, N, H, P, D], precede the new ones; ``keys`` is the number of keys per query if
    not all are attended to. A rotary embedding of ``rotary_dim`` features of each new query and key takes 2 mul and 1
    add per element. Samples of different ``lengths`` may be packed along T; each attends to itself alone.

    Shapes: q[N, T, E], w0[3*E, E], b0[3*E], w1[E, E], b1[E] -> y[N, T, E]
    Settings: heads=H, features=(E, E, E)
    """
    q = layer["q"]
    k = layer.get("k") or q
    v = layer.get("v") or k
    width, steps = q.shape[-1], prod(q.shape[:-1])
    features = layer.attrs.get("features") or (layer["w0"].size // (3 * width),) * 3
    heads = layer.attrs["heads"]
    past = layer.get("past")
    keys = layer.attrs.get("keys") or (k.shape[-2] if past is None else k.shape[-2] + past.shape[-2])
    operations, macs = Operations(), 0
    for queries, attended in [(n, n) for n in layer.attrs.get("lengths", ())] or [(steps, keys)]:
        sizes = queries * heads, attended, queries * features[0], queries * features[2]
        sample, products = attention_operations(layer, *sizes)
        operations, macs = operations + sample, macs + products
    if rotated := layer.attrs.get("rotary_dim"):
        operations += Operations(mul=2, add=1) * heads * (steps + prod(k.shape[:-1])) * rotated
    for tensor, size in zip((q, k, v), features, strict=True):
        projected = prod(tensor.shape[:-1]) * size
        operations += dot_products(projected, projected * width, "b0" in layer)
        macs += projected * width
    if "w1" in layer:
        products = steps * layer["w1"].size
        operations += dot_products(layer.out.size, products, "b1" in layer)
        macs += products
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)


@pattern("product")
def calc_quantized_multi_head_attention(layer: Layer) -> Cost:
    """``multi_head_attention`` with projections of quantized inputs by quantized weights.

    * Zero points are subtracted: 1 add per element of an input or weight that has one.
    * Every projected element is dequantized: 1 mul by the joined scale.

    Scores and later steps use real numbers.

    Shapes: q[N, T, E], w0[3*E, E], b0[3*E], q_zero_point[1]? -> y[N, T, E]
    Settings: heads=H, features=(E, E, E)
    """
    cost = calc_multi_head_attention(without_quantization(layer, "multi_head_attention"))
    q = layer["q"]
    projected = q.size // q.shape[-1] * sum(layer.attrs["features"])
    shifted = sum(layer[name].size for name in ("q", "w0") if f"{name}_zero_point" in layer)
    operations = operations_of(cost) + Operations(mul=projected, add=shifted)
    return Cost(operations, layer.read, layer.written, layer.attrs, cost.macs)


# Attention with a cache of keys and values.
#
# Inference engines fuse the steps before the scores with it: biases, norms, rotary embeddings, quantized caches.


CACHE_OPERANDS = ("past_k", "past_v", "more_k", "more_v", "indices", "counts")
"""Operands of caches and of selected keys, which ``decoder_attention`` alone does not have."""


@pattern("product")
def calc_decoder_attention(layer: Layer) -> Cost:
    """Scaled dot-product attention of new queries to past and new keys and values.

    Scores and outputs are counted as in ``attention``, over T_k keys: the attribute ``keys`` or, if absent, all past
    and new keys. Only the used part of a longer cache is read. If the attribute ``shared`` is set, the caches are
    updated in place, and only new entries are written.

    Operands that add operations:

    * ``b``, a bias on queries, keys and values: 1 add per element.
    * ``w0`` and ``w1``, RMS norms of queries and keys: as ``rms_norm``.
    * ``cos`` and ``sin``, a rotary embedding of ``rotary_dim`` features (default: all): 2 mul and 1 add per rotated
      element; one row of each table is read per new position.
    * ``sink``, a term in the sum of every softmax: 1 special and 1 add per row.
    * ``k_scale`` and ``v_scale``, quantized caches: 1 mul per cached element read, 1 div and 3 cmp per new element.

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
    """Attention of a decoder layer with its projections; keys and values may come from a cache.

    * The input q is projected by ``w0``.
    * ``w1`` projects ``made`` keys and ``made`` values, from q or from k (0 if the cache contains all of them).
    * Each query attends to ``keys`` keys in ``heads`` heads, as in ``attention``.

    ``b`` contains the biases of all projections.

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
    """Attention of concatenated sequences with paged caches.

    Scores, outputs and fused steps are counted as in ``decoder_attention``, with ``keys`` keys per query. Tables assign
    pages to sequences. ``positions`` is the number of past and new positions of all sequences. The cached keys and
    values of the past positions are read, at most the whole caches.

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


# Attention of samples that differ in length.


@pattern("product")
def calc_ragged_attention(layer: Layer) -> Cost:
    """``attention`` of samples of different lengths, packed along T.

    Each query attends to the keys of its own sample. ``lengths`` and ``key_lengths`` are the numbers of queries and of
    keys per sample.

    Shapes: q[N, H, T_q, D], k[N, H, T_k, D], v[N, H, T_k, D_v] -> y[N, H, T_q, D_v]
    Settings: lengths=(T_1, T_2), key_lengths=(K_1, K_2)
    """
    q, v = layer["q"], layer["v"]
    heads = prod(q.shape[:-2])
    operations, macs = Operations(), 0
    for queries, keys in zip(layer.attrs["lengths"], layer.attrs["key_lengths"], strict=True):
        rows = heads * queries
        sample, products = attention_operations(layer, rows, keys, rows * q.shape[-1], rows * v.shape[-1])
        operations, macs = operations + sample, macs + products
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)


# Removal and restoration of the padding of batched sequences.


@pattern("move")
def calc_unpad(layer: Layer) -> Cost:
    """Concatenated sequences without their padding.

    Only the elements that are kept are read, and the lengths.

    Shapes: x[N, T, E], lengths[N] -> y[M, E]
    """
    x = layer["x"]
    read = x.bytes_of_part(layer.out.size) + input_bytes(layer, "lengths")
    return Cost(Operations(), read, layer.written, layer.attrs)


@pattern("move")
def calc_repad(layer: Layer) -> Cost:
    """Concatenated sequences separated again and padded with zeros: x and indices are read, y is written.

    Shapes: x[M, E], indices[N, T] -> y[N, T, E]
    """
    return Cost(Operations(), layer.read, layer.written, layer.attrs)


# Position embeddings and position biases.


ROTATION = Operations(mul=2, add=1)
"""The operations of a rotary embedding per rotated element."""


@pattern("map")
def calc_rotary_embedding(layer: Layer) -> Cost:
    """Rotary position embedding: every pair (a, b) of features becomes (a cos - b sin, a sin + b cos).

    2 mul and 1 add per rotated element. The attribute ``rotary_dim`` is the number of rotated features per head (absent
    or 0: all). x and the tables ``cos`` and ``sin`` are read; with an operand ``position``, only one row of each table
    per position. If there are keys ``k``, they are rotated like x.

    Source: Su et al., "RoFormer", arXiv:2104.09864.

    Shapes: x[N, H, T, D], cos[T, D/2], sin[T, D/2] -> y[N, H, T, D]
    """
    cos, sin, width = layer["cos"], layer["sin"], layer.attrs.get("rotary_dim")
    rotated = sum(
        prod(layer[name].shape[:-1]) * (width or layer[name].shape[-1]) for name in ("x", "k") if name in layer
    )
    read = layer.read
    if "position" in layer:
        row = layer["position"].size * cos.shape[-1]
        read += cos.bytes_of(row) + sin.bytes_of(row) - cos.nbytes - sin.nbytes
    return Cost(Operations(mul=2, add=1) * rotated, read, layer.written, layer.attrs)


@pattern("map")
def calc_rotated_pair(layer: Layer) -> Cost:
    """Rotary embedding of queries and keys from angles: x0 cos + x1 sin and x2 cos + x3 sin.

    x1 and x3 are x0 and x2 with rotated halves, which other operators compute. Per element of the angles a sine and a
    cosine; per output element 2 mul and 1 add.

    Shapes: x0[N, H, T, D], x1[N, H, T, D], x2[N, H, T, D], x3[N, H, T, D], angle[N, T, D]
        -> y0[N, H, T, D], y1[N, H, T, D]
    """
    rotated = sum(y.size for y in layer.outputs)
    operations = Operations(special=2 * layer["angle"].size) + rotated * Operations(mul=2, add=1)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("move")
def calc_relative_position_bias(layer: Layer) -> Cost:
    """Learned bias of attention scores by the distance between query and key.

    Each distance maps to a bucket, a row of the table ``w``. The mapping is index arithmetic and costs nothing. The
    table is read once, and one element is written per pair of positions and head.

    Source: Raffel et al., T5, arXiv:1910.10683.

    Shapes: w[B, H] -> y[1, H, T_q, T_k]
    """
    return Cost(Operations(), layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_gated_position_bias(layer: Layer) -> Cost:
    """Bias of attention scores by relative position, scaled by a gate that is computed from each query.

    * Query bias ``b0``: 1 add per element of q.
    * Projection of every head of width D to 2 G features: dot products of length D (MACs), starting at ``b1`` if given.
    * Each half is summed: G - 1 add; then a sigmoid.
    * The gate u (r a - 1) + 2 of the two halves u and r: 2 mul and 2 add.
    * Every element of the bias times the gate: 1 mul.

    Source: Chi et al., XLM-E, arXiv:2106.16138.

    Shapes: q[N, T, H*D], b0[H*D], bias[1, H, T, T], w[D, 2*G], b1[2*G], factor[1, H, 1, 1] -> y[N, H, T, T]
    """
    y, w = layer.out, layer["w"]
    count = prod(y.shape[:3])
    projected = count * w.shape[1]
    macs = projected * w.shape[0]
    operations = Operations(add=layer["q"].size) + dot_products(projected, macs, "b1" in layer)
    operations += Operations(add=projected - 2 * count) + count * (2 * SIGMOID + Operations(mul=2, add=2))
    return Cost(operations + Operations(mul=y.size), layer.read, layer.written, layer.attrs, macs)


# Sparse attention: windows, selected keys, and the indexer that selects them.


@pattern("product")
def calc_longformer_attention(layer: Layer) -> Cost:
    """Attention within a window: each query attends to itself and to ``window`` keys on either side.

    * The input is projected twice by packed weights of 3 E features: ``w0`` for the window, ``w1`` for global tokens.
    * Scores and outputs are those of ``attention`` with 2 ``window`` + 1 keys; keys beyond the ends are counted.
    * Global tokens attend to all keys, and all queries attend to them. Their number depends on data; the attribute
      ``everywhere`` gives it (default: 0).

    Source: Beltagy, Peters and Cohan, Longformer, arXiv:2004.05150.

    Shapes: x[N, T, E], w0[E, 3*E], b0[3*E], w1[E, 3*E], b1[3*E], mask[N, T], flags[N, T] -> y[N, T, E]
    Settings: heads=H, window=W
    """
    x, heads, everywhere = layer["x"], layer.attrs["heads"], layer.attrs.get("everywhere", 0)
    batch, steps, width = x.shape
    rows = batch * steps * heads
    keys = 2 * layer.attrs["window"] + 1 + everywhere
    operations, macs = attention_operations(layer, rows, keys, x.size, x.size)
    if everywhere:
        elements = batch * everywhere * width
        global_tokens, products = attention_operations(layer, batch * everywhere * heads, steps, elements, elements)
        operations, macs = operations + global_tokens, macs + products
    for name in ("b0", "b1"):
        projected, products = projection(3 * x.size, width, name in layer)
        operations, macs = operations + projected, macs + products
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)


@pattern("product")
def calc_quantized_longformer_attention(layer: Layer) -> Cost:
    """``longformer_attention`` with integer projections and a quantized output.

    Every projected element is dequantized, 1 mul by the joined scale. Every output element takes 1 div and 3 cmp.

    Shapes: x[N, T, E], w0[E, 3*E], b0[3*E], w1[E, 3*E], b1[3*E], mask[N, T], flags[N, T] -> y[N, T, E]
    Settings: heads=H, window=W
    """
    plain = calc_longformer_attention(layer)
    operations = operations_of(plain) + Operations(mul=6 * layer["x"].size) + layer.out.size * Operations(div=1, cmp=3)
    return Cost(operations, layer.read, layer.written, layer.attrs, plain.macs)


@pattern("product")
def calc_selected_attention(layer: Layer) -> Cost:
    """Attention of each query to keys that were selected for it, and to a ``local`` window of the cache.

    Scores, outputs and fused steps are counted as in ``decoder_attention``, with ``selected`` + ``local`` keys per
    query. Selected keys lie in the cache ``past_k``, ``past_v``, or in the operands
    ``more_k``, ``more_v``. They are read per query and key head, at most the whole operand. If the attribute ``shared``
    is set, only new entries are written, into the cache.

    Source: DeepSeek-AI, DeepSeek-V3.2, 2025.

    Shapes: q[N, H, T, D], k[N, H_kv, T, D], v[N, H_kv, T, D], past_k[N, H_kv, P, D], past_v[N, H_kv, P, D],
        indices[N*T, S] -> y[N, T, H*D]
    Settings: selected=S, local=0
    """
    q, k, attrs = layer["q"], layer["k"], layer.attrs
    local, selected = attrs.get("local", 0), attrs["selected"]
    operands = {name: x for name, x in layer.inputs.items() if name not in CACHE_OPERANDS}
    settings = {**{n: v for n, v in attrs.items() if n != "shared"}, "keys": selected + local}
    plain = calc_decoder_attention(Layer("decoder_attention", operands, layer.outputs, settings))
    operations = operations_of(plain)
    read, written = plain.mread + input_bytes(layer, "indices", "counts"), layer.written
    row = k.shape[1] * k.shape[3] * (q.size // (q.shape[1] * q.shape[3]))  # elements of one key for every query
    for part in ("k", "v"):
        own = layer.get(f"more_{part}")
        cache = layer.get(f"past_{part}")
        if own is not None:
            read += own.bytes_of(minimum(own.size, row * selected))
        if cache is not None:
            used = minimum(cache.size, row * (local if "more_k" in layer else local + selected))
            read += cache.bytes_of(used)
            if f"{part}_scale" in layer:
                operations += Operations(mul=used) + layer[part].size * Operations(div=1, cmp=3)
            written += in_place(layer) * (cache.bytes_of(layer[part].size) - cache.nbytes)
    return Cost(operations, read, written, attrs, plain.macs)


@pattern("product")
def calc_attention_indexer(layer: Layer) -> Cost:
    """Selection of the keys that a sparse attention reads, by a small attention of its own.

    ``made`` entries are compressed from keys:

    * ``gated`` false: means of ``ratio`` keys, per feature ``ratio`` - 1 add and 1 div.
    * ``gated`` true: sums over the 2 ``ratio`` keys of two windows, weighted by a softmax of gates per feature (2 ratio
      special and div, 2 ratio - 1 add; 1 mul, 2 ratio - 1 fma). Each gate has a bias, 1 add.

    Queries and entries are prepared:

    * ``rms_norm`` with the weights ``w0`` and ``w1``;
    * rotation of ``rotary_dim`` features: 2 mul and 1 add each.

    Every query of H heads is scored against ``entries`` entries:

    * per head a dot product of length D (MACs), ReLU (1 cmp) and a scale (1 mul);
    * the sum over the heads, H - 1 add; with weights ``factor`` 1 mul and H - 1 fma, and 1 mul to scale each weight.

    The selection of S entries takes at most E * ceil(log2(S + 1)) cmp per query.

    Source: DeepSeek-AI, DeepSeek-V3.2, 2025.

    Shapes: q[N, T, H*D], k[N, T, D], w0[D], w1[D], cos[P, R], sin[P, R], past[N, P, D]
        -> indices[N, T, S], keys[N, P, D]
    Settings: heads=H, entries=E, made=M, ratio=G, rotary_dim=R, gated=False
    """
    attrs, width = layer.attrs, layer["w0"].size
    heads, made = attrs["heads"], attrs["made"]
    queries = layer["q"].size // layer["q"].shape[-1]
    pairs = queries * attrs["entries"]
    scores = pairs * heads
    operations = _compression_operations(layer, queries, width)
    operations += rms_norm_operations(queries * heads * width, queries * heads) + rms_norm_operations(
        made * width, made
    )
    operations += (queries * heads + made) * attrs["rotary_dim"] * ROTATION
    operations += dot_products(scores, scores * width) + scores * Operations(mul=1, cmp=1)
    if attrs.get("gated"):
        operations += dot_products(pairs, scores) + Operations(mul=queries * heads)
    else:
        operations += Operations(add=scores - pairs)
    operations += Operations(cmp=queries * selection_comparisons(attrs["entries"], layer.out.shape[-1]))
    read = layer.read
    for name in ("cos", "sin"):
        table = layer[name]
        read += table.bytes_of(minimum(table.size, (queries + made) * table.shape[-1])) - table.nbytes
    return Cost(operations, read, layer.written, attrs, scores * width)


def _compression_operations(layer: Layer, queries: Dim, width: Dim) -> Operations:
    # Gated sums over two windows, or means.
    elements: Dim = layer.attrs["made"] * width
    ratio: Dim = layer.attrs["ratio"]
    if layer.attrs.get("gated"):
        window = Operations(mul=1, fma=2 * ratio - 1, add=2 * ratio - 1, div=2 * ratio, special=2 * ratio)
        return elements * window + Operations(add=2 * queries * width)
    return elements * Operations(add=ratio - 1, div=1)


# Gradients of attention.


@pattern("product")
def calc_attention_backward(layer: Layer) -> Cost:
    """Backward of attention: dq, dk and dv from dy, given the attention weights p of the forward pass.

    * dv = p^T dy and dp = dy v^T: D_v products per score each.
    * ds = p (dp - sum(p dp)): per row 1 mul and T_k - 1 fma for the sum, T_k add, T_k mul.
    * The scale: 1 mul per score.
    * dq = ds k and dk = ds^T q: D products per score each.

    Keys and values that grouped heads share accumulate in the same dot products. ``dropout`` masks p and dp: 2 mul and
    2 cmp per score. ``softcap`` multiplies ds by 1 - t^2 of its tanh t: 2 mul and 1 add per score. The gradient of a
    float mask is ds itself.

    Scores that a kernel recomputes are not counted here; they are in the phase ``recompute`` if they are visible. All
    given operands are read; scores are not materialized. The attribute ``pairs`` is as for attention.

    Shapes: dy[N, H, T_q, D_v], q[N, H, T_q, D], k[N, H_kv, T_k, D], v[N, H_kv, T_k, D_v]
        -> dq[N, H, T_q, D], dk[N, H_kv, T_k, D], dv[N, H_kv, T_k, D_v]
    """
    q, k, v = layer["q"], layer["k"], layer["v"]
    rows = query_rows(layer, layer["dy"])
    scores = layer.attrs.get("pairs", rows * k.shape[-2])
    inner, outer = scores * q.shape[-1], scores * v.shape[-1]
    operations = dot_products(v.size, outer) + dot_products(scores, outer)
    operations += dot_products(q.size, inner) + dot_products(k.size, inner)
    operations += dot_products(minimum(rows, scores), scores) + Operations(add=scores, mul=2 * scores)
    if layer.attrs.get("dropout"):
        operations += Operations(mul=2 * scores, cmp=2 * scores)
    if layer.attrs.get("softcap"):
        operations += Operations(mul=2 * scores, add=scores)
    return Cost(operations, layer.read, layer.written, layer.attrs, 2 * (inner + outer))
