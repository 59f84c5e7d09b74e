"""Determinants."""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations, pattern

from .factorizations import batch_and_shape, batch_and_size, elimination


def square_elimination(n: Dim) -> Operations:
    """Return the operations of Gaussian elimination of an n x n matrix with partial pivoting, in place.

    Column k chooses its pivot among n - k elements (n - k - 1 cmp), divides the elements below it, and subtracts a
    product from every element to the right of and below the pivot.
    """
    pairs = n * (n - 1) // 2
    return Operations(fma=(n - 1) * n * (2 * n - 1) // 6, div=pairs, cmp=pairs)


@pattern("opaque")
def calc_det(layer: Layer) -> Cost:
    """Determinants by Gaussian elimination.

    * The elimination: (n - 1) n (2n - 1) / 6 fma, n (n - 1) / 2 div, and as many cmp for the pivots.
    * The product of the pivots: n - 1 mul. Changes of sign cost nothing.

    Source: Golub and Van Loan, Matrix Computations, 4th edition, algorithm 3.4.1.

    Shapes: x[B, N, N] -> y[B]
    """
    count, n = batch_and_size(layer)
    return Cost(count * (square_elimination(n) + Operations(mul=n - 1)), layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_log_det(layer: Layer) -> Cost:
    """Sign and logarithm of the absolute value of determinants, by Gaussian elimination.

    After the elimination: n absolute values, n logarithms and n - 1 additions; 1 cmp per pivot for the sign. Factors
    that are outputs too are written.

    Source: Golub and Van Loan, Matrix Computations, 4th edition, algorithm 3.4.1.

    Shapes: x[B, N, N] -> sign[B], y[B]
    """
    count, n, _ = batch_and_shape(layer)
    operations = elimination(n, n) + Operations(add=2 * n - 1, cmp=n, special=n)
    return Cost(count * operations, layer.read, layer.written, layer.attrs)
