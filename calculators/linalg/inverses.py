"""Inverses and pseudo-inverses."""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations, minimum, pattern, prod

from .._shared import dot_products
from .factorizations import batch_and_size, triangle_bytes
from .spectral import svd_operations


@pattern("opaque")
def calc_inverse(layer: Layer) -> Cost:
    """Inverses by Gauss-Jordan elimination in place, with partial pivoting.

    For each of n pivots:

    * its choice: n - k - 1 cmp for column k;
    * its reciprocal: 1 div;
    * the pivot's row and column times it: 2 (n - 1) mul;
    * a product subtracted from every other element: (n - 1)^2 fma.

    Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, section 14.4.

    Shapes: x[B, N, N] -> y[B, N, N]
    """
    count, n = batch_and_size(layer)
    operations = Operations(fma=n * (n - 1) * (n - 1), mul=2 * n * (n - 1), div=n, cmp=n * (n - 1) // 2)
    return Cost(count * operations, layer.read, layer.written, layer.attrs)


def triangular_inverse_operations(n: Dim) -> Operations:
    """Return the operations of inverting a triangular n x n matrix.

    * n reciprocals of the diagonal.
    * Each of n (n-1) / 2 other elements of the triangle is a dot product, (n-1) n (n+1) / 6 products in all, negated (1
      add) and divided.
    """
    pairs = n * (n - 1) // 2
    return Operations(fma=(n - 1) * n * (n + 1) // 6 - pairs, mul=pairs, add=pairs, div=pairs + n)


@pattern("opaque")
def calc_triangular_inverse(layer: Layer) -> Cost:
    """Inverses of triangular matrices by substitution; the zeros are neither read nor multiplied.

    * n reciprocals of the diagonal.
    * Each of n (n-1) / 2 other elements of the triangle is a dot product, (n-1) n (n+1) / 6 products in all, negated (1
      add) and divided.

    Source: Golub and Van Loan, Matrix Computations, 4th edition, section 3.1.7.

    Shapes: x[B, N, N] -> y[B, N, N]
    """
    count, n = batch_and_size(layer)
    operations = count * triangular_inverse_operations(n)
    return Cost(operations, triangle_bytes(layer["x"]), layer.written, layer.attrs)


@pattern("opaque")
def calc_cholesky_inverse(layer: Layer) -> Cost:
    """Inverses of symmetric positive definite matrices from their Cholesky factor L: L^-T L^-1.

    * L^-1: n reciprocals; each of n (n-1) / 2 elements below the diagonal is a dot product, (n-1) n (n+1) / 6 products
      in all, negated (1 add) and divided.
    * The product: one half is computed, n (n+1) / 2 dot products with n (n+1) (n+2) / 6 products.

    The triangle of the factor is read.

    Source: Golub and Van Loan, Matrix Computations, 4th edition, sections 3.1.7 and 4.2.

    Shapes: x[B, N, N] -> y[B, N, N]
    """
    count, n = batch_and_size(layer)
    half = n * (n + 1) // 2
    operations = triangular_inverse_operations(n) + dot_products(half, n * (n + 1) * (n + 2) // 6)
    return Cost(count * operations, triangle_bytes(layer["x"]), layer.written, layer.attrs)


@pattern("opaque")
def calc_pseudo_inverse(layer: Layer) -> Cost:
    """Pseudo-inverses V S^+ U^T from the thin singular value decomposition, as ``singular_values``.

    With k = min(m, n) of an m x n matrix: k cmp with the tolerance, k div, n k mul for V S^+; the product with U^T, n m
    dot products of length k (MACs).

    Source: Golub and Van Loan, Matrix Computations, 4th edition, section 5.5.2.

    Shapes: x[B, M, N] -> y[B, N, M]
    """
    *batch, m, n = layer["x"].shape
    count, k = prod(batch), minimum(m, n)
    operations = svd_operations(m, n, "thin") + Operations(cmp=k, div=k, mul=n * k + n * m, fma=n * m * (k - 1))
    return Cost(count * operations, layer.read, layer.written, layer.attrs, count * n * m * k)
