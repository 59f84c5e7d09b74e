"""Matrix products with scales, of groups, and of lists."""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations, Tensor, minimum, pattern

from .._shared import dot_products, operations_of
from .dense import calc_matmul, scaling_products


def _scale_products(layer: Layer) -> Dim:
    """Return the products with scales per output element.

    One for all scales that are single numbers, else one per vector of scales.
    """
    scales = [tensor for name, tensor in layer.inputs.items() if name.rstrip("0123456789").endswith("scale")]
    vectors = sum(1 for scale in scales if scale.ndim and scale.size != 1)
    return vectors or (1 if scales else 0)


@pattern("product")
def calc_scaled_matmul(layer: Layer) -> Cost:
    """Matrix product of low-precision operands, times their scales.

    The scales are ``x0_scale``, ``x1_scale`` and ``y_scale``.

    * The matrix product; a bias is the starting value.
    * Scales of whole operands are joined first: 1 mul per output element in all.
    * A scale per row or block: 1 mul per output element for each operand that has one.
    * ``alpha`` and ``beta`` multiply product and bias: one mul per element if they are not 1.

    Source: Micikevicius et al., "FP8 Formats for Deep Learning", arXiv:2209.05433.

    Shapes: x0[M, K], x1[K, N], x0_scale[1], x1_scale[1], b[N]? -> y[M, N]
    """
    y = layer.out.size
    macs = y * layer["x0"].shape[-1]
    operations = dot_products(y, macs, "b" in layer) + Operations(mul=y * _scale_products(layer))
    return Cost(operations + scaling_products(layer), layer.read, layer.written, layer.attrs, macs)


@pattern("product")
def calc_grouped_matmul(layer: Layer) -> Cost:
    """Matrix products of groups of rows, each with its own matrix.

    The operand ``offsets`` contains the ends of the groups.

    * Every row of x0 [M, K] is multiplied by one matrix of x1 [G, K, N]: M N dot products of length K for any grouping.
    * Two operands of two axes are grouped along K, and each group yields its own matrix: M K N products in all, for
      min(G, K) M N results; a group without columns yields zeros.
    * M rows need at most M of the G matrices: min(G, M) are read, with their scales and biases.

    Scales are those of ``scaled_matmul``.

    Shapes: x0[M, K], x1[G, K, N], offsets[G] -> y[M, N]
    """
    x0, y = layer["x0"], layer.out.size
    is_split = x0.ndim == 2 and layer.out.ndim == 3
    macs = x0.size * layer["x1"].shape[-1] if is_split else y * x0.shape[-1]
    count = _of_used_groups(layer.out, x0.shape[-1]) if is_split else y
    operations = dot_products(count, macs, "b" in layer) + Operations(mul=y * _scale_products(layer))
    return Cost(operations, layer.read - _bytes_of_unused_groups(layer), layer.written, layer.attrs, macs)


@pattern("product")
def calc_grouped_matmul_backward(layer: Layer) -> Cost:
    """Backward of matrix products of groups of rows: the gradients of the rows and of the matrices.

    * dx0: every row of dy is multiplied by its matrix, transposed: M K dot products of length N.
    * dx1: the matrix of a group sums over its rows: M K N products in all, for min(G, M) K N results.
    * M rows need at most M of the G matrices: min(G, M) are read.

    Shapes: dy[M, N], x0[M, K], x1[G, K, N], offsets[G] -> dx0[M, K], dx1[G, K, N]
    """
    x0, x1 = layer["x0"], layer["x1"]
    products = x0.size * x1.shape[-1]
    operations = dot_products(x0.size, products) + dot_products(_of_used_groups(x1, x0.shape[0]), products)
    return Cost(operations, layer.read - _bytes_of_unused_groups(layer), layer.written, layer.attrs, 2 * products)


def _of_used_groups(matrices: Tensor, rows: Dim) -> Dim:
    """Return the elements of stacked matrices, one per group, of no more groups than there are rows."""
    groups = matrices.shape[0]
    return matrices.size // groups * minimum(groups, rows)


def _bytes_of_unused_groups(layer: Layer) -> Dim:
    """Return the bytes of the matrices, with their scales and biases, that no row is left for."""
    ranks = layer["x0"].ndim, layer["x1"].ndim
    if ranks not in ((2, 3), (3, 2)):
        return 0
    stacked, rows = ("x1", layer["x0"].shape[0]) if ranks[1] == 3 else ("x0", layer["x1"].shape[1])
    groups = layer[stacked].shape[0]
    used = minimum(groups, rows)
    per_group = [x for name, x in layer.inputs.items() if (name.startswith(stacked) or name == "b") and x.ndim > 1]
    return sum(x.nbytes - x.bytes_of(x.stored_size // groups * used) for x in per_group)


@pattern("product")
def calc_foreach_matmul(layer: Layer) -> Cost:
    """Matrix products of the pairs of two lists.

    Operands ``x0`` … are those of the first list, followed by those of the second list.

    Shapes: x0[M, K], x1[K, N] -> y[M, N]
    """
    half = len(layer.outputs)
    operations, macs = Operations(), 0
    for i, y in enumerate(layer.outputs):
        pair = {"x0": layer[f"x{i}"], "x1": layer[f"x{half + i}"]}
        cost = calc_matmul(Layer("matmul", pair, [y]))
        operations, macs = operations + operations_of(cost), macs + cost.macs
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)
