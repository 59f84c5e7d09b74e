"""Layers that multiply activations by weights, or by each other, and add the products up."""

from __future__ import annotations

from costcore.ir import Cost, Layer, Operations

from .._shared import dot_products


def _alpha_beta_products(layer: Layer) -> Operations:
    """Products with ``alpha`` (of the whole matrix product) and ``beta`` (of the addend), where they are not 1."""
    alpha = layer.out.size if layer.attrs.get("alpha", 1) != 1 else 0
    beta = layer["b"].size if "b" in layer and layer.attrs.get("beta", 1) != 1 else 0
    return Operations(mul=alpha + beta)


def calc_linear(layer: Layer) -> Cost:
    """Fully connected layer: every output is one dot product over the input features, onto the bias if there is one.

    Settings ``alpha`` and ``beta``, as ONNX's Gemm has them, multiply the product and the bias: one mul per element
    where they are not 1.

    Shapes: x[N, F_in], w[F_out, F_in], b[F_out] -> y[N, F_out]
    """
    macs = layer.out.size * layer["x"].shape[-1]
    operations = dot_products(layer.out.size, macs, "b" in layer) + _alpha_beta_products(layer)
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)


def calc_matmul(layer: Layer) -> Cost:
    """Matrix product, batched and broadcast as numpy's matmul: every output is one dot product of length K.

    With an operand ``b`` the products are added onto it, as in addmm and baddbmm; settings ``alpha`` and ``beta``
    multiply product and addend, one mul per element where they are not 1. With the setting ``transpose_x0`` the first
    operand is stored [..., K, M], with ``transpose_x1`` the second one [..., N, K].

    Shapes: x0[B, M, K], x1[B, K, N] -> y[B, M, N]
    """
    x0 = layer["x0"]
    macs = layer.out.size * (x0.shape[-2] if layer.attrs.get("transpose_x0") else x0.shape[-1])
    operations = dot_products(layer.out.size, macs, "b" in layer) + _alpha_beta_products(layer)
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)


def calc_dropconnect_linear(layer: Layer) -> Cost:
    """Fully connected layer whose weights are dropped at random in training, for every row anew or for all at once.

    Every element of the mask chooses a weight or drops it, and scales it, 1 cmp and 1 mul as in dropout; then linear.
    The mask is an operand where it was given, else it is drawn, and written beside the output.

    Source: Wan et al., "Regularization of Neural Networks using DropConnect", ICML 2013.

    Shapes: x[N, F_in], w[F_out, F_in], b[F_out] -> y[N, F_out], mask[N, F_out, F_in]
    """
    mask = layer["mask"] if "mask" in layer else layer.outputs[1]
    macs = layer.out.size * layer["w"].shape[1]
    operations = Operations(mul=mask.size, cmp=mask.size) + dot_products(layer.out.size, macs, "b" in layer)
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)
