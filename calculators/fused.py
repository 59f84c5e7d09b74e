"""Operators that inference engines fuse from several.

Values between the fused operators are neither written nor read.
"""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Calculator, Cost, Dim, Layer, Operations, covers, element_wise, minimum, pattern, prod

from ._shared import dot_products, operations_of, row_count
from .activation import ACTIVATIONS, GELU, SIGMOID, softmax_operations
from .attention import calc_multi_head_attention
from .conv import calc_conv
from .matmul import calc_linear, calc_matmul
from .normalization import calc_group_norm, calc_layer_norm, calc_rms_norm, moment_operations, rms_norm_operations
from .reduction import selection_comparisons

# Products, norms and activations with fused sums, biases and activations.


FUSED_ACTIVATIONS: Mapping[str, Operations] = {
    "none": Operations(),
    "gelu": GELU["none"].operations,
    "fast_gelu": GELU["tanh"].operations,
    "clip": Operations(cmp=2),
    "softplus": Operations(add=1, special=2),
    "squared_relu": Operations(mul=1, cmp=1),
    "swiglu": Operations(mul=3, add=3, div=1, special=1),  # g * sigmoid(alpha * g) * (l + beta)
}
"""Operations per element of activations that only fused layers have, in addition to ``ACTIVATIONS``."""


def activation_operations(layer: Layer) -> Operations:
    """Return the operations of the attribute ``activation`` on one element; none if it is absent."""
    name = layer.attrs.get("activation", "none")
    return FUSED_ACTIVATIONS[name] if name in FUSED_ACTIVATIONS else ACTIVATIONS[name].operations


def _without_operands(layer: Layer, op: str, *extra: str) -> Layer:
    operands = {name: x for name, x in layer.inputs.items() if name not in extra}
    return Layer(op, operands, layer.outputs, layer.attrs)


PRODUCTS: Mapping[str, Calculator] = {
    "fused_conv": calc_conv,
    "fused_linear": calc_linear,
    "fused_matmul": calc_matmul,
}


@pattern("product")
@covers(*PRODUCTS)
def calc_fused_product(layer: Layer) -> Cost:
    """Matrix product or convolution with epilogue: the product, the sum with ``z``, an ``activation``.

    The product has its own formula. The sum takes 1 add per output element, the activation its own operations.

    Shapes of fused_linear: x[N, F_in], w[F_out, F_in], b[F_out], z[N, F_out]? -> y[N, F_out]
    Shapes of fused_matmul: x0[M, K], x1[K, N], b[N]?, z[M, N]? -> y[M, N]
    Shapes of fused_conv: x[N, C_in, H_in, W_in], w[C_out, C_in/G, K_h, K_w], b[C_out], z[N, C_out, H_out, W_out]?
        -> y[N, C_out, H_out, W_out]
    Settings: activation="relu"
    Settings of fused_conv: activation="relu", groups=G
    """
    y = layer.out.size
    cost = Cost(*PRODUCTS[layer.op](_without_operands(layer, layer.op.removeprefix("fused_"), "z")))
    operations = operations_of(cost) + Operations(add=y if "z" in layer else 0) + y * activation_operations(layer)
    return Cost(operations, layer.read, layer.written, layer.attrs, cost.macs)


NORMS: Mapping[str, Calculator] = {
    "fused_layer_norm": calc_layer_norm,
    "fused_rms_norm": calc_rms_norm,
    "fused_group_norm": calc_group_norm,
}


@pattern("reduce")
@covers(*NORMS)
def calc_fused_norm(layer: Layer) -> Cost:
    """Norm of a sum with epilogue: x plus ``skip`` plus ``bias``, the norm, an ``activation`` or a gate.

    * ``skip`` and ``bias``: 1 add per element each, if given.
    * The norm has its own formula.
    * ``activation``: its operations per element; with an operand ``gate`` it is applied to the gate, and the product
      takes 1 mul per element.

    The sum is written if it is an output.

    Shapes: x[N, C], skip[N, C]?, bias[C]?, w[C], b[C]? -> y[N, C]
    Settings: axis=(1,), groups=1
    """
    x = layer["x"]
    sums = sum(1 for name in ("skip", "bias") if name in layer)
    cost = Cost(*NORMS[layer.op](_without_operands(layer, layer.op.removeprefix("fused_"), "skip", "bias", "gate")))
    operations = operations_of(cost) + x.size * (
        Operations(add=sums, mul=1 if "gate" in layer else 0) + activation_operations(layer)
    )
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("reduce")
def calc_embed_norm(layer: Layer) -> Cost:
    """Sum of word, position and segment embeddings, then a layer norm, the first layer of BERT.

    * The tables ``w0`` (words) and ``w2`` (segments, if given) are read once per output element; ``w1`` (positions) is
      read one row per position.
    * The sum takes 1 or 2 add per element.
    * The norm has the weight ``w`` and the bias ``b``.

    Source: Devlin et al., BERT, arXiv:1810.04805.

    Shapes: x[N, T], w0[V, D], w1[P, D], w2[S, D]?, w[D], b[D] -> y[N, T, D]
    """
    y, tables = layer.out, [name for name in ("w0", "w1", "w2") if name in layer]
    norm = {"x": y, **{name: layer[name] for name in ("w", "b") if name in layer}}
    cost = calc_layer_norm(Layer("layer_norm", norm, [y], {"axis": (y.ndim - 1,)}))
    read = layer.read - sum(layer[name].nbytes for name in tables)
    for name in tables:
        read += layer[name].bytes_of(y.size // y.shape[0] if name == "w1" else y.size)
    operations = operations_of(cost) + Operations(add=(len(tables) - 1) * y.size)
    return Cost(operations, read, layer.written, layer.attrs)


@element_wise
def calc_biased_activation(layer: Layer) -> Cost:
    """Activation of x + b: 1 add per element if b is given, and the operations of the ``activation``.

    Shapes: x[N, C], b[C]? -> y[N, C]
    Settings: activation="gelu"
    """
    shift = Operations(add=1 if "b" in layer else 0)
    return Cost(layer["x"].size * (shift + activation_operations(layer)), layer.read, layer.written, layer.attrs)


@pattern("map")
def calc_biased_gated_activation(layer: Layer) -> Cost:
    """One half of x + b times the activation of the other half.

    1 add per element of x if b is given; 1 mul and the operations of the ``activation`` per output element.

    Shapes: x[N, 2*C], b[2*C]? -> y[N, C]
    Settings: activation="gelu"
    """
    shift = Operations(add=layer["x"].size if "b" in layer else 0)
    operations = shift + layer.out.size * (Operations(mul=1) + activation_operations(layer))
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("reduce")
def calc_biased_softmax(layer: Layer) -> Cost:
    """Softmax of x + b along ``axis``: 1 add per element, and the softmax.

    Shapes: x[N, C], b[C] -> y[N, C]
    Settings: axis=1
    """
    x = layer["x"]
    operations = softmax_operations(x.size, row_count(x.shape, layer.attrs["axis"])) + Operations(add=x.size)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@element_wise
def calc_biased_dropout(layer: Layer) -> Cost:
    """Dropout of x + b, then the sum with a residual ``z``.

    1 add per element for each of b and z, if given; in training 1 mul and 1 cmp for the dropout. The mask is written if
    it is an output.

    Shapes: x[N, C], b[C], z[N, C]? -> y[N, C], mask[N, C]
    Settings: training=True
    """
    sums = sum(1 for name in ("b", "z") if name in layer)
    dropped = Operations(mul=1, cmp=1) if layer.attrs.get("training") else Operations()
    return Cost(layer["x"].size * (Operations(add=sums) + dropped), layer.read, layer.written, layer.attrs)


# Hyper-connections: several residual streams that are gated, reduced and mixed.


@pattern("window")
def calc_reduce_streams(layer: Layer) -> Cost:
    """Weighted sum of C streams, y_h = ``scale`` * sum_c x_ch gate_ch.

    Per element of y 1 mul and C - 1 fma, and 1 mul for a scale other than 1. With one gate per stream the products are
    MACs (a row of gates times the matrix of streams); with one gate per feature, ``gate[N, C, H]``, they are
    elementwise.

    Source: Zhu et al., Hyper-Connections, arXiv:2409.19606.

    Shapes: x[N, C, H], gate[N, C] -> y[N, H]
    Settings: streams=C, scale=1
    """
    y, streams = layer.out.size, layer.attrs["streams"]
    products = y * streams
    operations = dot_products(y, products) + Operations(mul=0 if layer.attrs.get("scale", 1) == 1 else y)
    is_product = len(layer["gate"].shape) < len(layer["x"].shape)
    return Cost(operations, layer.read, layer.written, layer.attrs, products if is_product else 0)


@pattern("product")
def calc_mix_streams(layer: Layer) -> Cost:
    """C mixed streams plus the gated output of a layer, y_k = sum_c m_ck x_c + gate_k z.

    Per element of y 1 fma for the gated output. With the mixing matrix ``m`` a dot product of length C precedes it,
    which is MACs; without it the streams are not mixed.

    Source: Zhu et al., Hyper-Connections, arXiv:2409.19606.

    Shapes: x[N, C, H], z[N, H], gate[N, C], m[N, C, C] -> y[N, C, H]
    Settings: streams=C
    """
    y = layer.out.size
    macs = y * layer.attrs["streams"] if "m" in layer else 0
    mixed = dot_products(y, macs) if "m" in layer else Operations()
    return Cost(mixed + Operations(fma=y), layer.read, layer.written, layer.attrs, macs)


@pattern("opaque")
def calc_similarity_gate(layer: Layer) -> Cost:
    """Value gated by the similarity of a query and a key: sigmoid(sign(s) sqrt(max(|s|, eps))) v.

    * Queries and keys, one of each per stream: ``rms_norm`` with the weights ``w0`` and ``w1``.
    * s, the sum of their product over the features: 1 mul and H - 1 fma, and 1 mul for the scale.
    * The gate: 1 add, 1 cmp, 1 special, 2 cmp for the sign, 1 mul, and a sigmoid (2 add, 1 div, 1 special).
    * The value times the gate: 1 mul per element.
    * With the weight ``w2``: one more ``rms_norm`` of the gated value, for a second output.

    Products of two activations are not MACs here.

    Shapes: q[N, T, C, H], k[N, T, C, H], v[N, T, H], w0[C, H], w1[C, H], w2[C, H]? -> y[N, T, C, H], normed[N, T, C, H]
    """
    size = layer["q"].size
    count = size // layer["q"].shape[-1]
    gate = Operations(mul=2, add=1, cmp=3, special=1) + SIGMOID
    operations = 2 * rms_norm_operations(size, count) + dot_products(count, size) + count * gate + Operations(mul=size)
    if "w2" in layer:
        operations += rms_norm_operations(size, count)
    return Cost(operations, layer.read, layer.written, layer.attrs)


# Linear layer and softmax cross entropy as one operator.


@pattern("product")
def calc_linear_cross_entropy(layer: Layer) -> Cost:
    """Linear layer and softmax cross entropy; scores are not materialized.

    Forward:

    * Scores: dot products of length F for each of V classes (MACs).
    * Per row: log_softmax (2 V - 1 add, V + 1 special), the choice of the target (no cost) and a negation; then the
      reduction.
    * Class weights ``class_weights``: 1 mul per row, and for a mean the sum of the weights.

    Gradients, as named by ``needs``:

    * Softmax from its exponentials: 1 div per row and 1 mul per score, minus 1 at the target (1 add per row).
    * x and w: one product each of the size of the forward product. b: the sum of the gradients of the scores.

    The gradients assume dy = 1; the backward pass scales them.

    Shapes: x[N, F], w[V, F], b[V]?, target[N] -> y[]
    Settings: reduction="mean", needs=()
    """
    (classes, features), needed = layer["w"].shape, layer.attrs.get("needs", ())
    count = layer["x"].size // features
    scores, products, reduction = count * classes, count * classes * features, layer.attrs.get("reduction", "mean")
    operations = dot_products(scores, products, "b" in layer) + Operations(add=2 * scores, special=scores + count)
    if reduction != "none":
        operations += Operations(add=count - 1, div=1 if reduction == "mean" else 0)
    if "class_weights" in layer:
        operations += Operations(mul=count, add=count - 1 if reduction == "mean" else 0)
    if needed:
        operations += Operations(div=count, mul=scores, add=count)
    if "x" in needed:
        operations += dot_products(count * features, products)
    if "w" in needed:
        operations += dot_products(classes * features, products)
    if "b" in needed:
        operations += Operations(add=scores - classes)
    macs = products * (1 + sum(1 for name in ("x", "w") if name in needed))
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)


# Mixture of experts.


WEIGHTS: Mapping[str, str] = {"w0": "b0", "w1": "b1", "w2": "b2"}
"""The weights of the experts, and the bias of each."""


@pattern("product")
def calc_moe(layer: Layer) -> Cost:
    """Mixture of experts: every row is processed by the ``k`` best of E experts, two-layer networks.

    Routing:

    * a softmax of the scores ``router`` over E experts;
    * a selection of k, at most E * ceil(log2(k + 1)) cmp per row;
    * with ``normalize``, the sum of k weights and k divisions per row.

    Per row and chosen expert:

    * the first layer ``w0``, multiplied by a parallel gate layer ``w2`` if given (1 mul per hidden unit);
    * the ``activation`` per hidden unit;
    * the second layer ``w1``.

    Products of the layers are MACs. Their sums start at the biases if given. The k results are combined by their
    weights: 1 mul and k - 1 fma per element.

    Routing is assumed to be balanced: the weights of min(E, rows * k) experts are read. Packed weights (with an operand
    ``w0_scale`` …) are dequantized: 1 mul per element read, and 1 add if there are zero points or the attribute
    ``zero_point``.

    Source: Shazeer et al., arXiv:1701.06538; Jiang et al., Mixtral, arXiv:2401.04088.

    Shapes: x[N, D], router[N, E], w0[E, I, D], w1[E, D, I], w2[E, I, D]?, b0[E, I]?, b1[E, D]? -> y[N, D]
    Settings: k=2, activation="silu"
    """
    x, experts, k = layer["x"], layer["w0"].shape[0], layer.attrs["k"]
    width = x.shape[-1]
    rows = x.size // width
    experts_read, hidden = minimum(experts, rows * k), layer["w1"].size // experts // width
    macs, read = 0, layer.read
    operations = _routing_operations(layer, rows, experts)
    for name, bias in WEIGHTS.items():
        if name in layer:
            products = rows * k * (layer[name].size // experts)
            outputs = products // (hidden if name == "w1" else width)
            operations += dot_products(outputs, products, bias in layer)
            operations += layer[name].size // experts * experts_read * _dequantization(layer, name)
            macs += products
            for operand in (name, f"{name}_scale", f"{name}_zero_point", bias):
                if operand in layer:
                    stored = layer[operand]
                    read += stored.bytes_of(stored.size // experts * experts_read) - stored.nbytes
    operations += rows * k * hidden * (activation_operations(layer) + Operations(mul=1 if "w2" in layer else 0))
    operations += dot_products(rows * width, rows * width * k)
    return Cost(operations, read, layer.written, layer.attrs, macs)


def _routing_operations(layer: Layer, rows: Dim, experts: Dim) -> Operations:
    k = layer.attrs["k"]
    operations = softmax_operations(rows * experts, rows) + Operations(cmp=rows * selection_comparisons(experts, k))
    return operations + (Operations(add=rows * (k - 1), div=rows * k) if layer.attrs.get("normalize") else Operations())


def _dequantization(layer: Layer, weight: str) -> Operations:
    if f"{weight}_scale" not in layer:
        return Operations()
    return Operations(mul=1, add=1 if f"{weight}_zero_point" in layer or "zero_point" in layer.attrs else 0)


# Layers of a transformer as one operator, as fast paths of frameworks run them.


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
