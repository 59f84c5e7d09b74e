"""Layers that carry a state along a sequence: linear attention, gated delta rules, causal convolutions."""

from __future__ import annotations

from costcore.ir import Cost, Layer, Operations, prod

from .activation import ACTIVATIONS
from .parts import dot_products


def calc_linear_attention(layer: Layer) -> Cost:
    """Linear attention: a state S of D x D_v per key head is updated at every step and read by the queries.

    ``rule`` is how: ``linear`` S + k v^T; ``gated`` S times exp(g) first; ``delta`` S + beta k (v - S^T k)^T;
    ``gated_delta`` both. Per step and key head the outer product onto S is D D_v fma; the gate's exp is 1 special per
    element of ``decay``, its product with S D D_v mul; the delta rules add the D_v dot products of length D of S^T k,
    D_v subtractions and D_v mul by beta. Per step and query head the output is D_v dot products of length D and D_v
    mul by the scale. macs: the dot products and the outer product.

    It counts the recurrence, step by step, whatever chunks an implementation works in. Biases of implementations
    stand in other operators.

    Source: Katharopoulos et al., arXiv:2006.16236; Yang et al., Gated Delta Networks, arXiv:2412.06464.

    Shapes: q[B, H, T, D], k[B, H_kv, T, D], v[B, H_kv, T, D_v], decay[B, T, H_kv]?, beta[B, T, H_kv]?
        -> y[B, T, H, D_v], state[B, H_kv, D, D_v]
    Settings: rule="linear"
    """
    q, k, v, rule = layer["q"], layer["k"], layer["v"], layer.attrs["rule"]
    width = v.shape[-1]
    cells, rows = k.size * width, v.size
    outputs = q.size // q.shape[-1] * width
    products = q.size * width
    operations = Operations(fma=cells) + dot_products(outputs, products) + Operations(mul=outputs)
    macs = cells + products
    if "gated" in rule:
        operations += Operations(mul=cells, special=layer["decay"].size)
    if "delta" in rule:
        operations += dot_products(rows, cells) + Operations(add=rows, mul=rows)
        macs += cells
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)


def calc_causal_conv(layer: Layer) -> Cost:
    """Causal convolution of every channel by itself, with the last K - 1 inputs of before carried over.

    Every output is one dot product of length K, onto the bias if there is one; the setting ``activation`` (``silu``)
    adds its operations. The new state is a copy of the last inputs: of the input, and of the old state where T < K - 1.

    Source: Gu and Dao, Mamba, arXiv:2312.00752.

    Shapes: x[B, C, T], w[C, 1, K], b[C]?, state[B, C, K]? -> y[B, C, T], new_state[B, C, K]
    """
    y, w = layer.out, layer["w"]
    macs = y.size * prod(w.shape[1:])
    operations = dot_products(y.size, macs, "b" in layer)
    activation = layer.attrs.get("activation")
    if activation:
        operations += y.size * ACTIVATIONS[activation].operations
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)
