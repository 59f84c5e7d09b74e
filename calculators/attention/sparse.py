"""Sparse attention: windows, selected keys, and the indexer that selects them."""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations, minimum, pattern

from .._shared import dot_products, input_bytes, operations_of
from ..normalization.norms import rms_norm_operations
from ..reduction.sort_search import selection_comparisons
from .attention import attention_operations
from .kv_cache import CACHE_OPERANDS, calc_decoder_attention, in_place, projection
from .position import ROTATION


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

    Scores, outputs and fused steps are those of ``decoder_attention`` with ``selected`` + ``local`` keys per query, as
    many as ``indices`` has entries. Selected keys lie in the cache ``past_k``, ``past_v``, or in operands of their own,
    ``more_k``, ``more_v``. They are read per query and key head, at most the whole operand. If the attribute
    ``shared`` is set, new entries are written into the cache, and only these are written.

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

    Entries, ``made`` of them, are compressed from keys:

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
    """Return the operations that compress keys into entries: gated sums over two windows, or means."""
    elements: Dim = layer.attrs["made"] * width
    ratio: Dim = layer.attrs["ratio"]
    if layer.attrs.get("gated"):
        window = Operations(mul=1, fma=2 * ratio - 1, add=2 * ratio - 1, div=2 * ratio, special=2 * ratio)
        return elements * window + Operations(add=2 * queries * width)
    return elements * Operations(add=ratio - 1, div=1)
