"""A layer of a transformer as one operator, as inference fast paths run it."""

from __future__ import annotations

from costcore.ir import Cost, Layer, Operations, prod

from .activation import GELU
from .attention import calc_multi_head_attention
from .normalization import moments
from .parts import dot_products


def calc_transformer_encoder_layer(layer: Layer) -> Cost:
    """Encoder layer of a transformer: self-attention and a perceptron, each added to its input and normalised.

    Attention as ``multi_head_attention`` with packed projections ``w0``, ``b0`` and output ``w1``, ``b1``; the
    perceptron is two linear layers ``w2``, ``b2`` and ``w3``, ``b3`` with ReLU (1 cmp) or ``activation`` "gelu"; two
    sums; two layer norms with weights. Whether norms come first changes no count.

    Source: Vaswani et al., "Attention Is All You Need", arXiv:1706.03762.

    Shapes: x[N, T, E], w0[3*E, E], b0[3*E], w1[E, E], b1[E], w2[F, E], b2[F], w3[E, F], b3[E], w4[E], b4[E], w5[E],
        b5[E] -> y[N, T, E]
    Settings: heads=H
    """
    x, hidden = layer["x"], layer["w2"].shape[0]
    steps = prod(x.shape[:-1])
    operands = {name: layer[name] for name in ("w0", "b0", "w1", "b1", "mask") if name in layer}
    attended = calc_multi_head_attention(
        Layer("multi_head_attention", {"q": x, **operands}, [x], {"heads": layer.attrs["heads"]})
    )
    assert isinstance(attended.flops, Operations)
    products = x.size * hidden
    element = GELU["none"].operations if layer.attrs.get("activation") == "gelu" else Operations(cmp=1)
    operations = attended.flops + dot_products(steps * hidden, products, "b2" in layer)
    operations += dot_products(x.size, products, "b3" in layer) + steps * hidden * element
    norm = moments(x.size, steps) + Operations(mul=x.size, fma=x.size)
    operations += Operations(add=2 * x.size) + 2 * norm
    return Cost(operations, layer.read, layer.written, layer.attrs, attended.macs + 2 * products)


def calc_scaled_split_heads(layer: Layer) -> Cost:
    """Packed projections made ready for attention: the bias added (1 add), queries scaled (1 mul), heads set apart.

    Shapes: x[N, T, 3*H*D], b[3*H*D] -> q[N, H, T, D], k[N, H, T, D], v[N, H, T, D]
    """
    x = layer["x"]
    return Cost(Operations(add=x.size, mul=x.size // 3), layer.read, layer.written, layer.attrs)


def calc_linear_cross_entropy(layer: Layer) -> Cost:
    """Linear layer and softmax cross entropy in one, the scores never written; with ``needs`` their gradients too.

    Scores are dot products of length F for each of V classes; per row log_softmax (2 V - 1 add, V + 1 special), the
    pick (free) and a negation, then the reduction; class weights ``class_weights`` 1 mul a row, and for a mean their
    sum. Gradients take softmax from its exponentials, 1 div a row and 1 mul per score, less 1 at the target (1 add a
    row); x and w one product each of the size of the forward, b sums the scores' gradients. They are for a dy of 1: the
    backward pass scales them.

    Shapes: x[N, F], w[V, F], b[V]?, target[N] -> y[]
    Settings: reduction="mean", needs=()
    """
    (classes, features), wanted = layer["w"].shape, layer.attrs.get("needs", ())
    count = layer["x"].size // features
    scores, products, reduction = count * classes, count * classes * features, layer.attrs.get("reduction", "mean")
    operations = dot_products(scores, products, "b" in layer) + Operations(add=2 * scores, special=scores + count)
    if reduction != "none":
        operations += Operations(add=count - 1, div=1 if reduction == "mean" else 0)
    if "class_weights" in layer:
        operations += Operations(mul=count, add=count - 1 if reduction == "mean" else 0)
    if wanted:
        operations += Operations(div=count, mul=scores, add=count)
    if "x" in wanted:
        operations += dot_products(count * features, products)
    if "w" in wanted:
        operations += dot_products(classes * features, products)
    if "b" in wanted:
        operations += Operations(add=scores - classes)
    macs = products * (1 + sum(1 for name in ("x", "w") if name in wanted))
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)
