"""Attention of samples that differ in length."""

from __future__ import annotations

from costcore.ir import Cost, Layer, Operations, pattern, prod

from .attention import attention_operations


@pattern("product")
def calc_ragged_attention(layer: Layer) -> Cost:
    """``attention`` of samples of different lengths, packed along T.

    Each query attends to the keys of its own sample. ``lengths`` are the numbers of queries of the samples,
    ``key_lengths`` those of their keys.

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
