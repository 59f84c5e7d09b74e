"""Formulas of primitives that only JAX has."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Calculator, Cost, Layer, Operations, element_wise, pattern, prod

PER_ELEMENT: Mapping[str, Operations] = {
    "clz": Operations(cmp=1),
    "igamma_grad_a": Operations(special=1),
    "mulhi": Operations(mul=1),
    "population_count": Operations(add=1),
    "random_gamma_grad": Operations(special=1),
    "regularized_incomplete_beta": Operations(special=1),
}
"""Operations per element of the output."""


@element_wise
def calc_element(layer: Layer) -> Cost:
    """Return the cost of an elementwise primitive."""
    operations = PER_ELEMENT[layer.op.partition("::")[2]]
    return Cost(layer.out.size * operations, layer.read, layer.written, layer.attrs)


@pattern("window")
def calc_select_and_scatter_add(layer: Layer) -> Cost:
    """Gradient of max-pooling: dy is added at the largest element of every window.

    Per window of k elements: k - 1 cmp to find the largest element, and 1 add.
    """
    windows, k = layer["dy"].size, prod(layer.attrs["kernel"])
    return Cost(windows * Operations(cmp=k - 1, add=1), layer.read, layer.written, layer.attrs)


@pattern("window")
def calc_select_and_gather_add(layer: Layer) -> Cost:
    """Derivative of max-pooling: the tangent at the largest element of every window of k, found by k - 1 cmp."""
    operations = layer.out.size * Operations(cmp=prod(layer.attrs["kernel"]) - 1)
    read = layer["x"].nbytes + layer["dy"].bytes_of(layer.out.size)
    return Cost(operations, read, layer.written, layer.attrs)


@pattern("product")
def calc_input_dilated_conv(layer: Layer) -> Cost:
    """Convolution of a dilated input, such as the gradient of the kernel of a transposed convolution.

    Every input element is multiplied once for each output of its group that it reaches. Along each axis, these are
    ``reached`` outputs: the size of the kernel or of the output, whichever is smaller. Zeros in between are not
    multiplied.
    """
    features = layer["w"].shape[0] // layer.attrs["groups"]
    macs = layer["x"].size * features * prod(layer.attrs["reached"])
    return Cost(Operations(fma=macs), layer.read, layer.written, layer.attrs, macs)


@pattern("product")
def calc_scaled_dot(layer: Layer) -> Cost:
    """Product of block-scaled operands: one mul per element that has a scale, then dot products of length K."""
    (contracted, _), _ = layer.attrs["dimension_numbers"]
    macs = layer.out.size * prod(layer["x0"].shape[axis] for axis in contracted)
    scaled = sum(layer[name].size for name, scale in (("x0", "x2"), ("x1", "x3")) if scale in layer)
    operations = Operations(mul=layer.out.size + scaled, fma=macs - layer.out.size)
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)


@pattern("product")
def calc_symmetric_product(layer: Layer) -> Cost:
    """``alpha x xᵀ + beta x1`` for x[B, N, K]: dot products of length K onto x1, 2 mul per element for the factors."""
    macs = layer.out.size * layer["x"].shape[-1]
    return Cost(Operations(fma=macs, mul=2 * layer.out.size), layer.read, layer.written, layer.attrs, macs)


@pattern("opaque")
def calc_cholesky_update(layer: Layer) -> Cost:
    """Cholesky factor of ``RᵀR + wwᵀ`` by n rotations, Golub and Van Loan, Matrix Computations, section 6.5.4.

    A rotation takes 1 mul, 1 fma, 1 root and 2 div; on each pair of elements that it acts on 2 mul and 2 fma.
    """
    n = layer["x"].shape[-1]
    rotations = layer["x1"].size * Operations(mul=1, fma=1, special=1, div=2)
    pairs = layer["x1"].size * (n + 1) // 2
    return Cost(rotations + pairs * Operations(mul=2, fma=2), layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_tridiagonal_solve(layer: Layer) -> Cost:
    """Thomas algorithm for x0, x1, x2[B, N] (diagonals) and x3[B, N, K].

    Elimination takes 1 fma and 1 div per row, and as many per element of x3; substitution 1 fma per element of x3.
    """
    rows, right = layer["x1"].size, layer["x3"].size
    operations = rows * Operations(fma=1, div=1) + right * Operations(fma=2, div=1)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_addupdate(layer: Layer) -> Cost:
    """Updates added to a part of a reference: 1 add each; only that part is read and written."""
    updates = layer["updates"]
    return Cost(Operations(add=updates.size), 2 * updates.nbytes, updates.nbytes, layer.attrs)


CALCULATORS: Mapping[str, Calculator] = {
    **{f"jax::{name}": calc_element for name in PER_ELEMENT},
    "jax::addupdate": calc_addupdate,
    "jax::cholesky_update": calc_cholesky_update,
    "input_dilated_conv": calc_input_dilated_conv,
    "jax::scaled_dot": calc_scaled_dot,
    "jax::select_and_gather_add": calc_select_and_gather_add,
    "jax::select_and_scatter_add": calc_select_and_scatter_add,
    "jax::symmetric_product": calc_symmetric_product,
    "jax::tridiagonal_solve": calc_tridiagonal_solve,
}
