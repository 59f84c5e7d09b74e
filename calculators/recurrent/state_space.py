"""Layers that carry a state along a sequence: linear attention, delta nets, causal convolution."""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations, Tensor, pattern, prod

from .._shared import dot_products, operations_of
from ..activation.activations import ACTIVATIONS, SIGMOID


@pattern("product")
def calc_linear_attention(layer: Layer) -> Cost:
    """Linear attention: a state S per key head is updated at every step and read by the queries.

    S is a matrix of D x D_v. ``rule`` defines the update:

    * ``linear``: S + k v^T.
    * ``gated``: S times exp(g) first.
    * ``delta``: S + beta k (v - S^T k)^T.
    * ``gated_delta``: both.

    Per step and key head:

    * the outer product added to S: D D_v fma;
    * gated rules: exp of the gate, 1 special per element of ``decay``, and its product with S, D D_v mul;
    * delta rules: S^T k, D_v dot products of length D; D_v subtractions; D_v mul by beta.

    Per step and query head: D_v dot products of length D, and D_v mul by the scale.

    MACs are the dot products and the outer product. The recurrence is counted step by step, even if an implementation
    works in chunks.

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


@pattern("product")
def calc_causal_conv(layer: Layer) -> Cost:
    """Causal convolution of every channel by itself, with the last K - 1 inputs as a state.

    Every output is one dot product of length K, plus the bias if given; the attribute ``activation`` (``silu``) adds
    its operations. The new state is a copy of the last inputs: of the input, and of the old state if T < K - 1.

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


SOFTPLUS = Operations(add=1, special=2)
"""The operations of one softplus."""


@pattern("product")
def calc_gated_delta_net(layer: Layer) -> Cost:
    """Linear attention of concatenated sequences, with preparation of its operands.

    * The recurrence is ``linear_attention`` with the attribute ``rule``, and a state of D x D_v for each of H_v value
      heads. ``heads`` is (H_k, H_v), ``features`` is (D, D_v).
    * Queries and keys are shared by H_v / H_k value heads and read once; without k and v, q contains all three.
    * ``normalize``: ``l2_normalize`` of every query and key.
    * ``decay_bias``: the decay is -exp(``decay_rate``) softplus(decay + ``decay_bias``), per element 2 add, 2 special,
      1 mul, and per head 1 special and 1 add.
    * ``squash``: the update rate is a sigmoid.

    Source: Yang, Kautz and Hatamizadeh, Gated Delta Networks, arXiv:2412.06464.

    Shapes: q[T, H_k, D], k[T, H_k, D], v[T, H_v, D_v], decay[T, H_v]?, beta[T, H_v]?, state[N, H_v, D_v, D]?
        -> y[T, H_v, D_v], new_state[N, H_v, D_v, D]
    Settings: heads=(H_k, H_v), features=(D, D_v), rule="linear"
    """
    (shared, heads), (width, outputs) = layer.attrs["heads"], layer.attrs["features"]
    steps = layer.out.size // (heads * outputs)
    core = {"q": Tensor((1, heads, steps, width)), "k": Tensor((1, heads, steps, width))}
    core["v"] = Tensor((1, heads, steps, outputs))
    core.update({name: layer[name] for name in ("decay", "beta") if name in layer})
    plain = calc_linear_attention(Layer("linear_attention", core, layer.outputs, {"rule": layer.attrs["rule"]}))
    operations = operations_of(plain)
    if layer.attrs.get("normalize"):
        operations += _l2_normalization(2 * steps * shared, width)
    if "decay_bias" in layer:
        operations += layer["decay"].size * (SOFTPLUS + Operations(add=1, mul=1)) + heads * Operations(add=1, special=1)
    if layer.attrs.get("squash"):
        operations += layer["beta"].size * SIGMOID
    return Cost(operations, layer.read, layer.written, layer.attrs, plain.macs)


def _l2_normalization(count: Dim, width: Dim) -> Operations:
    """Return the operations of ``l2_normalize`` of ``count`` rows of ``width`` elements."""
    return count * Operations(fma=width - 1, mul=1, add=1, div=width, special=1)


@pattern("map")
def calc_decay_gate(layer: Layer) -> Cost:
    """Decay and update rate of a gated delta rule.

    softplus(x + b) times ``rate``, and the sigmoid of ``beta``. Per element of x 2 add, 2 special, 1 mul; per element
    of ``beta``, if given, 2 add, 1 div, 1 special.

    Shapes: x[N, T, H], b[H], rate[H], beta[N, T, H]? -> decay[N, T, H], update[N, T, H]
    """
    operations = layer["x"].size * (SOFTPLUS + Operations(add=1, mul=1))
    if "beta" in layer:
        operations += layer["beta"].size * SIGMOID
    return Cost(operations, layer.read, layer.written, layer.attrs)
