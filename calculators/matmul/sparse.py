"""Products with sparse matrices, and conversions.

The shape of a sparse operand is that of its Z stored values. The attribute ``indices`` is the number of integers of 8
bytes that give their positions.
"""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Dim, Layer, Operations, covers, pattern

from .._shared import dot_products, needed_gradients
from ..indexing.gather_scatter import UPDATES

REDUCTION_NAMES: Mapping[str, str] = {"amax": "max", "amin": "min", "prod": "mul"}
"""Reductions of sparse products that have another name in scatters."""


def _index_bytes(layer: Layer) -> Dim:
    """Return the bytes of the indices of the sparse operand."""
    count: Dim = layer.attrs.get("indices", 0)
    return 8 * count


@pattern("product")
def calc_sparse_dense_matmul(layer: Layer) -> Cost:
    """Sparse matrix times dense matrix: each of Z values times ``width`` elements, added to the output.

    * ``side`` names the sparse operand if it is not x0: "x1", or x or w of a linear layer.
    * ``width`` is the number of columns of the other operand, or of rows if that is the first operand; if both are
      sparse, the maximum number of elements that one value is multiplied by.
    * The output starts at zero or at ``b``.
    * ``alpha`` and ``beta`` other than 1: 1 mul per output element each.
    * ``reduction`` other than "sum" joins products differently: mean divides (1 div per output element), amax and amin
      compare, prod multiplies.

    Shapes: x0[Z], x1[K, N] -> y[M, N]
    Settings: width=N, indices=2*Z
    """
    values = layer[layer.attrs.get("side", "x0")].size
    macs, reduction = values * layer.attrs["width"], layer.attrs.get("reduction", "sum")
    if reduction == "sum":
        operations = Operations(fma=macs)
    else:
        operations = macs * (Operations(mul=1) + UPDATES[REDUCTION_NAMES.get(reduction, reduction)])
        operations += Operations(div=layer.out.size if reduction == "mean" else 0)
    scaled = sum(layer.out.size for name in ("alpha", "beta") if layer.attrs.get(name, 1) != 1)
    operations += Operations(mul=scaled)
    return Cost(operations, layer.read + _index_bytes(layer), layer.written, layer.attrs, macs)


@pattern("product")
def calc_sparse_dense_matmul_backward(layer: Layer) -> Cost:
    """Gradients of a sparse matrix x0 times a dense matrix x1, as named by ``needs``.

    * dx0: each value is a dot product of ``width`` elements of dy and of x1.
    * dx1: the transposed product, Z ``width`` fma to zeros.
    * ``reduction`` "mean" divides each part of dy, "amax" and "amin" choose by the position of the extremum: 1 div or 1
      cmp per product more.

    Shapes: x0[Z], dy[M, N], x1[K, N] -> dx0[Z], dx1[K, N]
    Settings: width=N, indices=2*Z, needs=("x0", "x1")
    """
    values, needed = layer["x0"].size, needed_gradients(layer, "x0", "x1")
    products = values * layer.attrs["width"]
    operations = dot_products(values, products) if "x0" in needed else Operations()
    operations += Operations(fma=products if "x1" in needed else 0)
    chosen = {"mean": Operations(div=1), "amax": Operations(cmp=1), "amin": Operations(cmp=1)}
    operations += products * len(needed) * chosen.get(layer.attrs.get("reduction", "sum"), Operations())
    return Cost(operations, layer.read + _index_bytes(layer), layer.written, layer.attrs, products * len(needed))


@pattern("product")
def calc_sparse_matmul(layer: Layer) -> Cost:
    """Sparse matrix times dense matrix: every stored value times a row of x1, added to an output of zeros.

    x0 contains the values at ``rows`` and ``columns``; all of them are multiplied, padding too. With the attribute
    ``transpose_x1`` the dense matrix is stored as [..., N, K].

    Shapes: x0[Z], rows[Z], columns[Z], x1[K, N] -> y[M, N]
    """
    width = layer["x1"].shape[-2 if layer.attrs.get("transpose_x1") else -1]
    macs = layer["x0"].size * width
    return Cost(Operations(fma=macs), layer.read, layer.written, layer.attrs, macs)


@pattern("product")
def calc_sampled_product(layer: Layer) -> Cost:
    """Elements of a matrix product at the Z positions of a sparse matrix x, each added to its value.

    One dot product of length K per value; ``alpha`` and ``beta`` take 1 mul each if not 1. The result has the positions
    of x, which are written too.

    Shapes: x[Z], x0[M, K], x1[K, N] -> y[Z]
    Settings: indices=2*Z
    """
    values = layer["x"].size
    macs = values * layer["x0"].shape[-1]
    scaled = sum(values for name in ("alpha", "beta") if layer.attrs.get(name, 1) != 1)
    places = _index_bytes(layer)
    return Cost(Operations(fma=macs, mul=scaled), layer.read + places, layer.written + places, layer.attrs, macs)


@pattern("product")
def calc_sampled_matmul(layer: Layer) -> Cost:
    """Chosen elements of a matrix product: one dot product of length K each.

    With ``transpose_x0`` the first operand is stored as [..., K, M], with ``transpose_x1`` the second as [..., N, K].
    Both are read completely, because the chosen rows are unknown.

    Shapes: x0[M, K], x1[K, N], rows[Z], columns[Z] -> y[Z]
    """
    length = layer["x0"].shape[-2 if layer.attrs.get("transpose_x0") else -1]
    count = layer.out.size
    return Cost(dot_products(count, count * length), layer.read, layer.written, layer.attrs, count * length)


@pattern("opaque")
def calc_to_sparse(layer: Layer) -> Cost:
    """Nonzero values of a dense tensor and their indices: 1 cmp per element of x.

    One index of 8 bytes is written per axis of each value.

    Shapes: x[M, N] -> y[Z]
    """
    x = layer["x"]
    return Cost(Operations(cmp=x.size), layer.read, layer.written + 8 * layer.out.size * x.ndim, layer.attrs)


CONVERSIONS: Mapping[str, str] = {
    "to_dense": "a sparse tensor with explicit zeros",
    "sparse_mask": "the elements of x at the positions of a sparse mask",
}


@pattern("opaque")
@covers(CONVERSIONS)
def calc_sparse_conversion(layer: Layer) -> Cost:
    """Conversions between sparse and dense tensors: no operations.

    The indices are read. With a mask as many elements of a dense x are read as the mask has positions, and the
    positions are written with the result.

    Shapes: x[Z], mask[Z]? -> y[M, N]
    Settings: indices=2*Z
    """
    places = _index_bytes(layer)
    if "mask" not in layer:
        return Cost(Operations(), layer.read + places, layer.written, layer.attrs)
    x, y = layer["x"], layer.out
    return Cost(Operations(), x.bytes_of(y.size) + places, layer.written + places, layer.attrs)
