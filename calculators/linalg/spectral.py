"""Eigenvalues, singular values and matrix exponentials.

These algorithms iterate until they converge. Counts are those that the textbook publishes, FLOPs with FMA = 2, half of
them as fma.
"""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Dim, Layer, Operations, maximum, minimum, pattern, prod

from .._shared import dot_products
from .factorizations import batch_and_size, triangle_bytes


@pattern("opaque")
def calc_symmetric_eigen(layer: Layer) -> Cost:
    """Eigenvalues of symmetric or Hermitian matrices, and their eigenvectors unless ``vectors`` is false.

    Tridiagonal form, then QR steps: 9 n^3 FLOPs with FMA = 2, as published; for the values alone 4 n^3 / 3. One
    triangle of x is read.

    Source: Golub and Van Loan, Matrix Computations, 4th edition, section 8.3.

    Shapes: x[B, N, N] -> values[B, N], vectors[B, N, N]
    """
    count, n = batch_and_size(layer)
    values = Operations(fma=2 * n * n * n // 3)
    operations = symmetric_eigen_operations(n) if layer.attrs.get("vectors", True) else values
    return Cost(count * operations, triangle_bytes(layer["x"]), layer.written, layer.attrs)


@pattern("opaque")
def calc_eigen(layer: Layer) -> Cost:
    """Eigenvalues of general matrices, and their eigenvectors unless ``vectors`` is false.

    Hessenberg form, then the QR algorithm: 25 n^3 FLOPs with FMA = 2 for the Schur form and its basis, 10 n^3 for the
    values alone, as published.

    Source: Golub and Van Loan, Matrix Computations, 4th edition, section 7.5.6.

    Shapes: x[B, N, N] -> values[B, N], vectors[B, N, N]
    """
    count, n = batch_and_size(layer)
    cubes = 25 if layer.attrs.get("vectors", True) else 10
    return Cost(count * Operations(fma=cubes * n * n * n // 2), layer.read, layer.written, layer.attrs)


def svd_operations(m: Dim, n: Dim, vectors: str) -> Operations:
    """Return the operations of the singular value decomposition of an m x n matrix by Golub and Reinsch.

    With r the larger and k the smaller side, FLOPs with FMA = 2 as published: the values 4 r k^2 - 4 k^3 / 3; with the
    ``"thin"`` vectors of both sides 14 r k^2 + 8 k^3; with ``"full"`` vectors 4 r^2 k + 8 r k^2 + 9 k^3.

    Source: Golub and Van Loan, Matrix Computations, 4th edition, figure 8.6.1.
    """
    r, k = maximum(m, n), minimum(m, n)
    if vectors == "none":
        return Operations(fma=2 * r * k * k - 2 * k * k * k // 3)
    if vectors == "thin":
        return Operations(fma=7 * r * k * k + 4 * k * k * k)
    return Operations(fma=2 * r * r * k + 4 * r * k * k + 9 * k * k * k // 2)


@pattern("opaque")
def calc_singular_values(layer: Layer) -> Cost:
    """Singular values, and with ``vectors`` "thin" or "full" the vectors of both sides: U S V^T = x.

    With r the larger and k the smaller side, FLOPs with FMA = 2 as published:

    * the values: 4 r k^2 - 4 k^3 / 3;
    * with thin vectors: 14 r k^2 + 8 k^3;
    * with all vectors: 4 r^2 k + 8 r k^2 + 9 k^3.

    Source: Golub and Van Loan, Matrix Computations, 4th edition, figure 8.6.1 (Golub and Reinsch).

    Shapes: x[B, M, N] -> u[B, M, N], s[B, N], v[B, N, N]
    Settings: vectors="thin"
    """
    *batch, m, n = layer["x"].shape
    operations = svd_operations(m, n, layer.attrs.get("vectors", "thin"))
    return Cost(prod(batch) * operations, layer.read, layer.written, layer.attrs)


TAYLOR: Mapping[str, tuple[int, int]] = {"b1": (1, 2), "b2": (1, 3), "b3": (1, 3), "b4": (1, 3), "b5": (1, 2)}
"""The five sums of powers in the Taylor polynomial of degree 18: mul and fma per element of each."""


@pattern("opaque")
def calc_matrix_exp(layer: Layer) -> Cost:
    """Exponential of matrices: the Taylor polynomial of degree 18 in 5 matrix products.

    The products are x^2, x^3, x^6, and two in b2 + (b3 + c) c with c = b4 + b1 b5. The b's are weighted sums of 1, x,
    x^2, x^3 and x^6:

    * 5 mul and 13 fma per element, n add for each 1 in b3 and b4;
    * one addition of matrices; two of the products are added to a matrix.

    A matrix with a norm above 1 is scaled down first and the result squared, one product per doubling. Their number
    depends on data, so none are counted.

    Source: Bader, Blanes and Casas, "Computing the Matrix Exponential with an Optimized Taylor Polynomial
    Approximation", Mathematics 7, 2019.

    Shapes: x[B, N, N] -> y[B, N, N]
    """
    count, n = batch_and_size(layer)
    square, products = n * n, n * n * n
    sums = Operations(mul=sum(mul for mul, _ in TAYLOR.values()), fma=sum(fma for _, fma in TAYLOR.values()))
    operations = dot_products(3 * square, 3 * products) + Operations(fma=2 * products, add=square + 2 * n)
    operations += square * sums
    return Cost(count * operations, layer.read, layer.written, layer.attrs, count * 5 * products)


def symmetric_eigen_operations(n: Dim) -> Operations:
    """Return the operations of the eigenvalues and eigenvectors of a symmetric n x n matrix.

    9 n^3 FLOPs with FMA = 2, as published.

    Source: Golub and Van Loan, Matrix Computations, 4th edition, algorithm 8.3.3 (tridiagonal form, then QR steps).
    """
    return Operations(fma=9 * n * n * n // 2)
