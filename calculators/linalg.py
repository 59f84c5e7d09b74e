"""Linear algebra: factorisations of matrices and what is made of them.

Each is the textbook algorithm of n^3 operations. Its products are no ``macs``: no matrix is multiplied by another.
"""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations, prod


def square_matrices(layer: Layer) -> tuple[Dim, Dim]:
    """How many matrices x is made of, and their size n."""
    shape = layer["x"].shape
    return prod(shape[:-2]), shape[-1]


def calc_cholesky(layer: Layer) -> Cost:
    """Cholesky factor of symmetric positive definite matrices: lower triangular L with L L^T = x.

    Column by column, ``l_jj = sqrt(x_jj - sum(l_jk^2))`` and ``l_ij = (x_ij - sum(l_ik l_jk)) / l_jj``: the products
    accumulate onto an element of x, (n^3 - n) / 6 fma; n (n - 1) / 2 div; n special.

    Source: Golub and Van Loan, Matrix Computations, 4th edition, algorithm 4.2.1.

    Shapes: x[B, N, N] -> y[B, N, N]
    """
    count, n = square_matrices(layer)
    operations = Operations(fma=(n - 1) * n * (n + 1) // 6, div=n * (n - 1) // 2, special=n)
    return Cost(count * operations, layer.read, layer.written, layer.attrs)


def elimination(n: Dim) -> Operations:
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
    count, n = square_matrices(layer)
    return Cost(count * (elimination(n) + Operations(mul=n - 1)), layer.read, layer.written, layer.attrs)


def calc_inverse(layer: Layer) -> Cost:
    """Inverses by Gauss-Jordan elimination in place, with partial pivoting.

    For each of n pivots: its choice (n - k - 1 cmp for column k), its reciprocal (1 div), the pivot's row and column
    times it (2 (n - 1) mul), and a product subtracted from every other element ((n - 1)^2 fma).

    Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, section 14.4.

    Shapes: x[B, N, N] -> y[B, N, N]
    """
    count, n = square_matrices(layer)
    operations = Operations(fma=n * (n - 1) * (n - 1), mul=2 * n * (n - 1), div=n, cmp=n * (n - 1) // 2)
    return Cost(count * operations, layer.read, layer.written, layer.attrs)


def symmetric_eigen(n: Dim) -> Operations:
    """Eigenvalues and eigenvectors of a symmetric n x n matrix: 9 n^3 FLOPs with FMA = 2, as published.

    Source: Golub and Van Loan, Matrix Computations, 4th edition, algorithm 8.3.3 (tridiagonal form, then QR steps).
    """
    return Operations(fma=9 * n * n * n // 2)


def calc_cross(layer: Layer) -> Cost:
    """Cross product of vectors of three elements, with broadcasting: 2 mul and 1 add per output element.

    Shapes: x0[N, 3], x1[N, 3] -> y[N, 3]
    """
    return Cost(layer.out.size * Operations(mul=2, add=1), layer.read, layer.written, layer.attrs)
