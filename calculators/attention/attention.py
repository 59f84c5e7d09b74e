"""Attention and multi-head attention."""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations, Tensor, counts_with_empty, pattern, prod

from .._shared import dot_products, operations_of, saved_bytes, without_quantization
from ..activation.softmax import softmax_operations


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

    All T_q * T_k pairs are counted, so ``causal`` and window attributes change nothing. With grouped-query attention,
    keys and values are read once per group. Scores are not materialized: they are neither read nor written. With a
    gradient (attribute ``saved``) the logarithm of the sum of every softmax is written.

    Queries, keys and values are broadcast over batch and heads as in matmul, and the pairs are those of the output. A
    head width D of 0 leaves out the first dot product only: all scores are equal, and the values are averaged.

    Two attributes add operations per score: ``softcap``, tanh(s / cap) * cap, 1 div, 1 special and 1 mul; ``dropout``
    (its rate, if active), 1 mul and 1 cmp.

    Source: Vaswani et al., "Attention Is All You Need", arXiv:1706.03762; all pairs as in PaLM, arXiv:2204.02311,
    appendix B.

    Shapes: q[N, H, T_q, D], k[N, H_kv, T_k, D], v[N, H_kv, T_k, D_v], mask[T_q, T_k]? -> y[N, H, T_q, D_v]
    """
    rows = query_rows(layer, layer.out)
    keys, width = layer["k"].shape[-2:]
    operations, macs = attention_operations(layer, rows, keys, rows * width, rows * layer["v"].shape[-1])
    return Cost(operations, layer.read, layer.written + saved_bytes(layer, rows), layer.attrs, macs)


def query_rows(layer: Layer, y: Tensor) -> Dim:
    """Return the number of queries over all heads and samples: those of the output ``y``.

    An output that joins its heads, y[N, T_q, H * D_v], has one axis less than q; its queries are those of q.
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
    operations += Operations(mul=scores) + softmax_operations(scores, rows)
    if "mask" in layer:
        operations += Operations(cmp=scores) if layer["mask"].dtype == "bool" else Operations(add=scores)
    if layer.attrs.get("softcap"):
        operations += Operations(mul=scores, div=scores, special=scores)
    if layer.attrs.get("dropout"):
        operations += Operations(mul=scores, cmp=scores)
    return operations, (queries + outputs) * keys


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
    """``multi_head_attention`` whose projections multiply quantized inputs by quantized weights.

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
