"""Layers of a transformer as one operator, as fast paths of frameworks run them."""

from __future__ import annotations

from costcore.ir import Cost, Layer, Operations, pattern, prod

from .._shared import dot_products, operations_of
from ..activation.activations import GELU
from ..attention.attention import calc_multi_head_attention
from ..normalization.norms import moment_operations


@pattern("product")
def calc_transformer_encoder_layer(layer: Layer) -> Cost:
    """Encoder layer of a transformer: self-attention and a perceptron, each with a sum and a layer norm.

    * Attention: ``multi_head_attention`` with packed projections ``w0``, ``b0`` and the output projection ``w1``,
      ``b1``.
    * Perceptron: two linear layers ``w2``, ``b2`` and ``w3``, ``b3`` with ReLU (1 cmp) or ``activation`` "gelu".
    * Two sums with the input: 1 add per element each.
    * Two layer norms with weights. Their position, before or after, does not change the count.
    * Samples of different ``lengths`` may be packed along T; each attends to itself, as in ``multi_head_attention``.

    Source: Vaswani et al., "Attention Is All You Need", arXiv:1706.03762.

    Shapes: x[N, T, E], w0[3*E, E], b0[3*E], w1[E, E], b1[E], w2[F, E], b2[F], w3[E, F], b3[E], w4[E], b4[E], w5[E],
        b5[E] -> y[N, T, E]
    Settings: heads=H
    """
    x, hidden = layer["x"], layer["w2"].shape[0]
    steps = prod(x.shape[:-1])
    operands = {name: layer[name] for name in ("w0", "b0", "w1", "b1", "mask") if name in layer}
    attrs = {name: layer.attrs[name] for name in ("heads", "lengths") if name in layer.attrs}
    attended = calc_multi_head_attention(Layer("multi_head_attention", {"q": x, **operands}, [x], attrs))
    products = x.size * hidden
    element = GELU["none"].operations if layer.attrs.get("activation") == "gelu" else Operations(cmp=1)
    operations = operations_of(attended) + dot_products(steps * hidden, products, "b2" in layer)
    operations += dot_products(x.size, products, "b3" in layer) + steps * hidden * element
    norm = moment_operations(x.size, steps) + Operations(mul=x.size, fma=x.size)
    operations += Operations(add=2 * x.size) + 2 * norm
    return Cost(operations, layer.read, layer.written, layer.attrs, attended.macs + 2 * products)


@pattern("map")
def calc_scaled_split_heads(layer: Layer) -> Cost:
    """Packed projections prepared for attention: bias, scale of the queries, separation of the heads.

    1 add per element for the bias, 1 mul per element of the queries.

    Shapes: x[N, T, 3*H*D], b[3*H*D] -> q[N, H, T, D], k[N, H, T, D], v[N, H, T, D]
    """
    x = layer["x"]
    return Cost(Operations(add=x.size, mul=x.size // 3), layer.read, layer.written, layer.attrs)
