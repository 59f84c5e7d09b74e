"""Attention, and the rotary position embedding that goes with it."""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations, prod

from .._shared import dot_products, operations_of, without_quantization
from ..activation.softmax import softmax_operations


def calc_attention(layer: Layer) -> Cost:
    """Scaled dot-product attention: softmax(q k^T * scale + mask) v, every query with every key.

    Per query and key one score: a dot product of length D, one mul for the scale, with a mask operand one add (float)
    or one cmp (bool), then its part of the softmax over T_k; per output element a dot product of length T_k. All
    T_q * T_k pairs count; ``causal``, windows and grouped heads are settings that change nothing here (grouped keys
    and values are read once). Scores stay inside: neither read nor written. A setting ``softcap`` (tanh(s / cap) *
    cap) adds 1 div, 1 special and 1 mul per score, ``dropout`` (its rate, where it is active) 1 mul and 1 cmp.

    Source: Vaswani et al., "Attention Is All You Need", arXiv:1706.03762; all pairs as in PaLM, arXiv:2204.02311,
    appendix B.

    Shapes: q[N, H, T_q, D], k[N, H_kv, T_k, D], v[N, H_kv, T_k, D_v], mask[T_q, T_k]? -> y[N, H, T_q, D_v]
    """
    rows = prod(layer["q"].shape[:-1])
    keys, width = layer["k"].shape[-2:]
    operations, macs = attention_operations(layer, rows, keys, rows * width, rows * layer["v"].shape[-1])
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)


def attention_operations(layer: Layer, rows: Dim, keys: Dim, queries: Dim, outputs: Dim) -> tuple[Operations, Dim]:
    """Operations and macs of ``rows`` rows of ``keys`` scores; ``queries`` and ``outputs`` in elements."""
    scores = rows * keys
    operations = dot_products(scores, queries * keys) + dot_products(outputs, outputs * keys)
    operations += Operations(mul=scores) + softmax_operations(scores, rows)
    if "mask" in layer:
        operations += Operations(cmp=scores) if layer["mask"].dtype == "bool" else Operations(add=scores)
    if layer.attrs.get("softcap"):
        operations += Operations(mul=scores, div=scores, special=scores)
    if layer.attrs.get("dropout"):
        operations += Operations(mul=scores, cmp=scores)
    return operations, (queries + outputs) * keys


def calc_multi_head_attention(layer: Layer) -> Cost:
    """Multi-head attention with its projections in one operator.

    The inputs q, k, v (k and v absent: all are q) are projected by one packed weight ``w0`` with bias ``b0``, attend to
    each other in ``heads`` heads as in ``attention``, and the heads are joined by the output projection ``w1``, ``b1``
    where it is given. ``features`` names the sizes of the three projections where they are not a third of ``w0`` each.
    Keys and values of the past, ``past`` [2, N, H, P, D], stand before the new ones; ``keys`` is how many each query
    meets where that is not all. ``rotary_dim`` features of each new query and key are turned, 2 mul and 1 add each.

    Shapes: q[N, T, E], w0[3*E, E], b0[3*E], w1[E, E], b1[E] -> y[N, T, E]
    Settings: heads=H, features=(E, E, E)
    """
    q = layer["q"]
    k = layer.get("k") or q
    v = layer.get("v") or k
    width, steps = q.shape[-1], prod(q.shape[:-1])
    features = layer.attrs.get("features") or (layer["w0"].size // (3 * width),) * 3
    rows, outputs = steps * layer.attrs["heads"], steps * features[2]
    past = layer.get("past")
    keys = layer.attrs.get("keys") or (k.shape[-2] if past is None else k.shape[-2] + past.shape[-2])
    operations, macs = attention_operations(layer, rows, keys, steps * features[0], outputs)
    if turned := layer.attrs.get("rotary_dim"):
        operations += Operations(mul=2, add=1) * (rows + layer.attrs["heads"] * prod(k.shape[:-1])) * turned
    for tensor, size in zip((q, k, v), features, strict=True):
        projected = prod(tensor.shape[:-1]) * size
        operations += dot_products(projected, projected * width, "b0" in layer)
        macs += projected * width
    if "w1" in layer:
        products = steps * layer["w1"].size
        operations += dot_products(layer.out.size, products, "b1" in layer)
        macs += products
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)


def calc_quantized_multi_head_attention(layer: Layer) -> Cost:
    """``multi_head_attention`` whose projections multiply quantised inputs by quantised weights.

    Zero points are subtracted, 1 add per element of input and weight that has one; every projected element is made
    real, 1 mul by the joined scale. Scores and what follows are on real numbers.

    Shapes: q[N, T, E], w0[3*E, E], b0[3*E], q_zero_point[1]? -> y[N, T, E]
    Settings: heads=H, features=(E, E, E)
    """
    cost = calc_multi_head_attention(without_quantization(layer, "multi_head_attention"))
    q = layer["q"]
    projected = q.size // q.shape[-1] * sum(layer.attrs["features"])
    shifted = sum(layer[name].size for name in ("q", "w0") if f"{name}_zero_point" in layer)
    operations = operations_of(cost) + Operations(mul=projected, add=shifted)
    return Cost(operations, layer.read, layer.written, layer.attrs, cost.macs)
