"""Products with sparse matrices, given by the values of their nonzero elements and the places of these."""

from __future__ import annotations

from costcore.ir import Cost, Layer, Operations

from .parts import dot_products


def calc_sparse_matmul(layer: Layer) -> Cost:
    """Sparse matrix times dense matrix: every nonzero element times a row of x1, added onto an output of zeros.

    x0 are the values at ``rows`` and ``columns``; all of them are products, padding among them too. With the setting
    ``transpose_x1`` the dense matrix is stored [..., N, K].

    Shapes: x0[Z], rows[Z], columns[Z], x1[K, N] -> y[M, N]
    """
    width = layer["x1"].shape[-2 if layer.attrs.get("transpose_x1") else -1]
    macs = layer["x0"].size * width
    return Cost(Operations(fma=macs), layer.read, layer.written, layer.attrs, macs)


def calc_sampled_matmul(layer: Layer) -> Cost:
    """Chosen elements of a matrix product: for each of them one dot product of length K.

    With ``transpose_x0`` the first operand is stored [..., K, M], with ``transpose_x1`` the second one [..., N, K].
    Both are read whole, as which rows are needed is not known.

    Shapes: x0[M, K], x1[K, N], rows[Z], columns[Z] -> y[Z]
    """
    length = layer["x0"].shape[-2 if layer.attrs.get("transpose_x0") else -1]
    count = layer.out.size
    return Cost(dot_products(count, count * length), layer.read, layer.written, layer.attrs, count * length)
