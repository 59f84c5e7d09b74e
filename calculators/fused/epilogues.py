"""Products, norms and activations with fused sums, biases and activations."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Calculator, Cost, Layer, Operations, covers, element_wise, pattern

from .._shared import operations_of, row_count
from ..activation.activations import ACTIVATIONS, GELU
from ..activation.softmax import softmax_operations
from ..conv.conv import calc_conv
from ..matmul.dense import calc_linear, calc_matmul
from ..normalization.norms import calc_group_norm, calc_layer_norm, calc_rms_norm

FUSED_ACTIVATIONS: Mapping[str, Operations] = {
    "none": Operations(),
    "gelu": GELU["none"].operations,
    "fast_gelu": GELU["tanh"].operations,
    "clip": Operations(cmp=2),
    "softplus": Operations(add=1, special=2),
    "swiglu": Operations(mul=3, add=3, div=1, special=1),  # g * sigmoid(alpha * g) * (l + beta)
}
"""Activations that are fused besides those of ``ACTIVATIONS``, per element."""


def activation_operations(layer: Layer) -> Operations:
    """Return the operations of the attribute ``activation`` on one element; none if it is absent."""
    name = layer.attrs.get("activation", "none")
    return FUSED_ACTIVATIONS[name] if name in FUSED_ACTIVATIONS else ACTIVATIONS[name].operations


def _without_operands(layer: Layer, op: str, *extra: str) -> Layer:
    """Return the layer of ``op`` without the operands of the fused operators."""
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
