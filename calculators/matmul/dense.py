"""Linear layers and matrix products."""

from __future__ import annotations

from costcore.ir import Cost, Layer, Operations, pattern

from .._shared import dot_products


def scaling_products(layer: Layer) -> Operations:
    """Return the products with ``alpha`` (matrix product) and ``beta`` (addend), if these are not 1."""
    alpha = layer.out.size if layer.attrs.get("alpha", 1) != 1 else 0
    beta = layer["b"].size if "b" in layer and layer.attrs.get("beta", 1) != 1 else 0
    return Operations(mul=alpha + beta)


@pattern("product")
def calc_linear(layer: Layer) -> Cost:
    """Fully connected layer: every output is one dot product over the input features, plus the bias.

    The attributes ``alpha`` and ``beta``, as in ONNX's Gemm, multiply the product and the bias: one mul per element if
    they are not 1.

    Shapes: x[N, F_in], w[F_out, F_in], b[F_out] -> y[N, F_out]
    """
    macs = layer.out.size * layer["x"].shape[-1]
    operations = dot_products(layer.out.size, macs, "b" in layer) + scaling_products(layer)
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)


@pattern("product")
def calc_matmul(layer: Layer) -> Cost:
    """Matrix product, batched and broadcast like numpy.matmul: one dot product of length K per output.

    * Operand ``b``: the products are added to it, as in addmm and baddbmm.
    * ``alpha`` and ``beta`` multiply product and addend: one mul per element if they are not 1.
    * ``transpose_x0``: the first operand is stored as [..., K, M].
    * ``transpose_x1``: the second operand is stored as [..., N, K].

    Shapes: x0[B, M, K], x1[B, K, N] -> y[B, M, N]
    """
    x0 = layer["x0"]
    macs = layer.out.size * (x0.shape[-2] if layer.attrs.get("transpose_x0") else x0.shape[-1])
    operations = dot_products(layer.out.size, macs, "b" in layer) + scaling_products(layer)
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)


@pattern("product")
def calc_dropconnect_linear(layer: Layer) -> Cost:
    """Fully connected layer whose weights are dropped at random in training, per row or for all rows.

    Per element of the mask 1 cmp and 1 mul, as in ``dropout``; then ``linear``. The mask is read if it is an operand;
    otherwise it is drawn, and written as an output.

    Source: Wan et al., "Regularization of Neural Networks using DropConnect", ICML 2013.

    Shapes: x[N, F_in], w[F_out, F_in], b[F_out] -> y[N, F_out], mask[N, F_out, F_in]
    """
    mask = layer["mask"] if "mask" in layer else layer.outputs[1]
    macs = layer.out.size * layer["w"].shape[1]
    operations = Operations(mul=mask.size, cmp=mask.size) + dot_products(layer.out.size, macs, "b" in layer)
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)
