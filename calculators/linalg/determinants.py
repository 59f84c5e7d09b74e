"""Determinants."""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations

from .factorizations import batch_and_shape, batch_and_size, elimination


def square_elimination(n: Dim) -> Operations:
    """Gaussian elimination of an n x n matrix with partial pivoting, both factors in the place of the matrix.

    Column k finds its pivot among n - k elements (n - k - 1 cmp), divides what is below it, and subtracts a product
    from all that is right of and below it.
    """
    pairs = n * (n - 1) // 2
    return Operations(fma=(n - 1) * n * (2 * n - 1) // 6, div=pairs, cmp=pairs)


def calc_det(layer: Layer) -> Cost:
    """Determinants by Gaussian elimination: the product of the pivots, n - 1 mul; changes of sign are free.

    The elimination takes (n - 1) n (2n - 1) / 6 fma, n (n - 1) / 2 div and as many cmp for the pivots.

    Source: Golub and Van Loan, Matrix Computations, 4th edition, algorithm 3.4.1.

    Shapes: x[B, N, N] -> y[B]
    """
    count, n = batch_and_size(layer)
    return Cost(count * (square_elimination(n) + Operations(mul=n - 1)), layer.read, layer.written, layer.attrs)


def calc_log_det(layer: Layer) -> Cost:
    """Sign and logarithm of the absolute value of determinants: elimination, then the sum of the pivots' logarithms.

    n absolute values, n logarithms and n-1 additions; the sign takes 1 cmp a pivot. Factors that are outputs too are
    written.

    Source: Golub and Van Loan, Matrix Computations, 4th edition, algorithm 3.4.1.

    Shapes: x[B, N, N] -> sign[B], y[B]
    """
    count, n, _ = batch_and_shape(layer)
    operations = elimination(n, n) + Operations(add=2 * n - 1, cmp=n, special=n)
    return Cost(count * operations, layer.read, layer.written, layer.attrs)
