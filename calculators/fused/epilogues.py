"""Operators with what inference engines fuse to them: sums before, activations after."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Calculator, Cost, Layer, Operations, covers

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


def activation_operations(layer: Layer) -> Operations:
    """The operations of the setting ``activation`` on one element; none where it is not given."""
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


@covers(*PRODUCTS)
def calc_fused_product(layer: Layer) -> Cost:
    """Convolution, linear layer or matrix product, then the sum with ``z`` (1 add), then an ``activation``.

    Each by its own formula, per output element; what lies between them is neither written nor read.

    Shapes: x[N, F_in], w[F_out, F_in], x0[N, F_in], x1[F_in, F_out] -> y[N, F_out]
    Settings: activation="relu"
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


@covers(*NORMS)
def calc_fused_norm(layer: Layer) -> Cost:
    """A norm of the sum of x, ``skip`` and ``bias`` as far as given, then an ``activation``, or a product with a gate.

    Per element 1 add for each of the two; the norm; the activation. With an operand ``gate`` the activation is of it,
    and the product 1 mul. The sum is written where it is an output.

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


def calc_embed_norm(layer: Layer) -> Cost:
    """Embeddings of words, positions and segments added up, then a layer normalisation, as BERT begins.

    Of the tables ``w0`` (words) and ``w2`` (segments, where given) as many elements are read as are written, of ``w1``
    (positions) one row a position; then 1 or 2 add per element, and the norm with ``w`` and ``b``.

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


def calc_biased_activation(layer: Layer) -> Cost:
    """An activation of x + b: 1 add per element where b is given, and the operations of the ``activation``.

    Shapes: x[N, C], b[C]? -> y[N, C]
    Settings: activation="gelu"
    """
    shift = Operations(add=1 if "b" in layer else 0)
    return Cost(layer["x"].size * (shift + activation_operations(layer)), layer.read, layer.written, layer.attrs)


def calc_biased_gated_activation(layer: Layer) -> Cost:
    """Half of x + b times the activation of the other half: 1 add per element of x, 1 mul and the activation a result.

    Shapes: x[N, 2*C], b[2*C]? -> y[N, C]
    Settings: activation="gelu"
    """
    shift = Operations(add=layer["x"].size if "b" in layer else 0)
    operations = shift + layer.out.size * (Operations(mul=1) + activation_operations(layer))
    return Cost(operations, layer.read, layer.written, layer.attrs)


def calc_biased_softmax(layer: Layer) -> Cost:
    """Softmax of x + b along ``axis``: 1 add per element, and the softmax.

    Shapes: x[N, C], b[C] -> y[N, C]
    Settings: axis=1
    """
    x = layer["x"]
    operations = softmax_operations(x.size, row_count(x.shape, layer.attrs["axis"])) + Operations(add=x.size)
    return Cost(operations, layer.read, layer.written, layer.attrs)


def calc_biased_dropout(layer: Layer) -> Cost:
    """Dropout of x + b, then the sum with a residual ``z``: 1 add for each as far as given; in training 1 mul, 1 cmp.

    The mask is written where it is an output.

    Shapes: x[N, C], b[C], z[N, C]? -> y[N, C], mask[N, C]
    Settings: training=True
    """
    sums = sum(1 for name in ("b", "z") if name in layer)
    dropped = Operations(mul=1, cmp=1) if layer.attrs.get("training") else Operations()
    return Cost(layer["x"].size * (Operations(add=sums) + dropped), layer.read, layer.written, layer.attrs)
