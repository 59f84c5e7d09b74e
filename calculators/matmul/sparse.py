"""Sparse tensors as frameworks hold them: products with them, and conversions.

The shape of a sparse operand is that of the values it holds, Z of them; the setting ``indices`` is how many integers of
8 bytes say where they lie.
"""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Dim, Layer, Operations, covers

from .._shared import dot_products, needed_gradients
from ..indexing.gather_scatter import UPDATES

REDUCTION_NAMES: Mapping[str, str] = {"amax": "max", "amin": "min", "prod": "mul"}


def _index_bytes(layer: Layer) -> Dim:
    """Bytes of the indices of the sparse operand."""
    count: Dim = layer.attrs.get("indices", 0)
    return 8 * count


def calc_sparse_dense_matmul(layer: Layer) -> Cost:
    """Sparse matrix times dense matrix: each of Z values times ``width`` elements, added onto the output.

    ``width`` is how many columns the other operand has (rows, where the second operand is the sparse one, ``side``
    "x1"), or at most meet a value where that is sparse too. The output starts at zero or at ``b``; ``alpha`` and
    ``beta`` other than 1 are 1 mul per output element each. A ``reduction`` other than "sum" joins products in its own
    way: mean divides 1 per output element, amax and amin compare, prod multiplies.

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


def calc_sparse_dense_matmul_backward(layer: Layer) -> Cost:
    """Gradients of a sparse matrix x0 times a dense one x1, as far as ``needs`` names them.

    Each value of dx0 is a dot product of ``width`` elements of dy and of x1; dx1 is the transposed product, Z ``width``
    fma onto zero. A ``reduction`` "mean" divides each value's part of dy, "amax" and "amin" choose by the place of the
    extremum: 1 div or 1 cmp a product more.

    Shapes: x0[Z], dy[M, N], x1[K, N] -> dx0[Z], dx1[K, N]
    Settings: width=N, indices=2*Z, needs=("x0", "x1")
    """
    values, wanted = layer["x0"].size, needed_gradients(layer, "x0", "x1")
    products = values * layer.attrs["width"]
    operations = dot_products(values, products) if "x0" in wanted else Operations()
    operations += Operations(fma=products if "x1" in wanted else 0)
    chosen = {"mean": Operations(div=1), "amax": Operations(cmp=1), "amin": Operations(cmp=1)}
    operations += products * len(wanted) * chosen.get(layer.attrs.get("reduction", "sum"), Operations())
    return Cost(operations, layer.read + _index_bytes(layer), layer.written, layer.attrs, products * len(wanted))


def calc_sampled_product(layer: Layer) -> Cost:
    """Elements of a matrix product at the Z places of a sparse matrix x, each added onto its value there.

    One dot product of length K for each, onto the value; ``alpha`` and ``beta`` are 1 mul each where not 1. The result
    has the places of x, which are written too.

    Shapes: x[Z], x0[M, K], x1[K, N] -> y[Z]
    Settings: indices=2*Z
    """
    values = layer["x"].size
    macs = values * layer["x0"].shape[-1]
    scaled = sum(values for name in ("alpha", "beta") if layer.attrs.get(name, 1) != 1)
    places = _index_bytes(layer)
    return Cost(Operations(fma=macs, mul=scaled), layer.read + places, layer.written + places, layer.attrs, macs)


def calc_to_sparse(layer: Layer) -> Cost:
    """Values of a dense tensor that are not zero, and their indices: 1 cmp per element of x.

    One index of 8 bytes is written for each axis of each value.

    Shapes: x[M, N] -> y[Z]
    """
    x = layer["x"]
    return Cost(Operations(cmp=x.size), layer.read, layer.written + 8 * layer.out.size * x.ndim, layer.attrs)


CONVERSIONS: Mapping[str, str] = {
    "to_dense": "a sparse tensor with its zeros written out",
    "sparse_mask": "the elements of x at the places of a sparse mask",
}


@covers(CONVERSIONS)
def calc_sparse_conversion(layer: Layer) -> Cost:
    """Values moved from a sparse tensor to a dense one, or picked by the places of one: no operations.

    The indices are read; of a dense x as many elements are as a mask has places, and they are written with the result.

    Shapes: x[Z], mask[Z]? -> y[M, N]
    Settings: indices=2*Z
    """
    places = _index_bytes(layer)
    if "mask" not in layer:
        return Cost(Operations(), layer.read + places, layer.written, layer.attrs)
    x, y = layer["x"], layer.out
    return Cost(Operations(), x.bytes_of(y.size) + places, layer.written + places, layer.attrs)


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
