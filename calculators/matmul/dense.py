"""Linear layers and matrix products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from costcore.ir import Arrangement, Cost, Layer, Operations, Tensor, pattern

from .._shared import axes_in_memory, dot_products


def scaling_products(layer: Layer) -> Operations:
    """Return the products with ``alpha`` (matrix product) and ``beta`` (addend), if these are not 1."""
    alpha = layer.out.size if layer.attrs.get("alpha", 1) != 1 else 0
    beta = layer["b"].size if "b" in layer and layer.attrs.get("beta", 1) != 1 else 0
    return Operations(mul=alpha + beta)


def batched_layout(layer: Layer, orders: Mapping[str, Sequence[int]]) -> Arrangement:
    """Return what a batched product needs: one axis for the whole batch, and no batch whose matrices are neighbors.

    Copied are operands whose axes before the last two lie apart in memory or in another order, as heads that lie
    between positions and channels. A linear layer whose input is not contiguous is such a product, and PyTorch adds
    its bias afterwards.
    """
    operands = ("x",) if "x" in layer else ("x0", "x1")
    copied = [name for name in operands if not _is_batch(layer[name], orders.get(name))]
    memory = axes_in_memory(layer["x"], orders.get("x")) if "x" in layer else []
    adds_bias = "b" in layer and layer.out.ndim > 2 and memory != sorted(memory)
    return Arrangement(copied, tuple(range(layer.out.ndim)), adds_bias)


def _is_batch(operand: Tensor, order: Sequence[int] | None) -> bool:
    memory = axes_in_memory(operand, order)
    batch = [axis for axis in memory if axis < operand.ndim - 2]
    start = memory.index(batch[0]) if batch else 0
    return batch == sorted(batch) and memory[start : start + len(batch)] == batch and memory[-1:] != batch[-1:]


@pattern("product", layout=batched_layout)
def calc_linear(layer: Layer) -> Cost:
    """Fully connected layer: every output is one dot product over the input features, plus the bias.

    The attributes ``alpha`` and ``beta``, as in ONNX's Gemm, multiply the product and the bias: one mul per element if
    they are not 1.

    Shapes: x[N, F_in], w[F_out, F_in], b[F_out] -> y[N, F_out]
    """
    macs = layer.out.size * layer["x"].shape[-1]
    operations = dot_products(layer.out.size, macs, "b" in layer) + scaling_products(layer)
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)


@pattern("product", layout=batched_layout)
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
