"""Linear algebra: factorizations, systems of equations, eigenvalues and distances.

Each formula counts the O(n^3) algorithm of the textbook. Products inside an algorithm are not MACs, because no
matrix is multiplied by another.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costcore.ir import Cost, Dim, Layer, Operations, PerElement, Tensor, covers, maximum, minimum, pattern, prod

from ._shared import dot_products, power_operations
from .reduction import norm_operations

# Factorizations of matrices into triangular and orthogonal factors.
#
# Matrices are m x n with k = min(m, n); each batch entry is one matrix.


def batch_and_size(layer: Layer) -> tuple[Dim, Dim]:
    """Return the number of square matrices in x and their size n."""
    shape = layer["x"].shape
    return prod(shape[:-2]), shape[-1]


def triangle_bytes(x: Tensor, diagonal: bool = True) -> Dim:
    """Return the bytes of one triangle of square matrices, with or without their diagonals."""
    n = x.shape[-1]
    return x.bytes_of_part(prod(x.shape[:-2]) * (n * (n + 1 if diagonal else n - 1) // 2))


@pattern("opaque")
def calc_cholesky(layer: Layer) -> Cost:
    """Cholesky factor of symmetric positive definite matrices: lower triangular L with L L^T = x.

    Column by column, ``l_jj = sqrt(x_jj - sum(l_jk^2))`` and ``l_ij = (x_ij - sum(l_ik l_jk)) / l_jj``: (n^3 - n) / 6
    fma, because products are subtracted from an element of x; n (n - 1) / 2 div; n special. One triangle of x is read.

    Source: Golub and Van Loan, Matrix Computations, 4th edition, algorithm 4.2.1.

    Shapes: x[B, N, N] -> y[B, N, N]
    """
    count, n = batch_and_size(layer)
    operations = Operations(fma=(n - 1) * n * (n + 1) // 6, div=n * (n - 1) // 2, special=n)
    return Cost(count * operations, triangle_bytes(layer["x"]), layer.written, layer.attrs)


def batch_and_shape(layer: Layer) -> tuple[Dim, Dim, Dim]:
    """Return the number of matrices in x, their rows and their columns."""
    *batch, rows, columns = layer["x"].shape
    return prod(batch), rows, columns


def elements_below_diagonal(k: Dim, m: Dim) -> Dim:
    """Return the number of elements below the diagonal in the first k columns of m rows.

    It is the sum of m - 1 - j for j < k.
    """
    return k * (m - 1) - k * (k - 1) // 2


def trailing_elements(k: Dim, m: Dim, n: Dim) -> Dim:
    """Return the number of elements to the right of and below each of the first k pivots.

    It is the sum of (m - 1 - j) (n - 1 - j) for j < k.
    """
    pairs = k * (k - 1) // 2
    return k * (m - 1) * (n - 1) - (m + n - 2) * pairs + (k - 1) * k * (2 * k - 1) // 6


def elimination(m: Dim, n: Dim, pivoting: bool = True) -> Operations:
    """Return the operations of Gaussian elimination of an m x n matrix, in place.

    Column j chooses its pivot among m - j elements, divides the elements below it, and subtracts a product from every
    element to the right of and below the pivot.
    """
    k = minimum(m, n)
    return Operations(
        fma=trailing_elements(k, m, n),
        div=elements_below_diagonal(k, m),
        cmp=elements_below_diagonal(k, m) if pivoting else 0,
    )


@pattern("opaque")
def calc_lu(layer: Layer) -> Cost:
    """LU decomposition P L U = x by Gaussian elimination with partial pivoting, as separate factors.

    With k = min(m, n):

    * one fma for each element to the right of and below each pivot, (n - 1) n (2n - 1) / 6 for a square matrix;
    * one div for each element below a pivot;
    * as many cmp for the pivots; none if the attribute ``pivot`` is false.

    Source: Golub and Van Loan, Matrix Computations, 4th edition, algorithm 3.4.1.

    Shapes: x[B, N, N] -> p[B, N, N], l[B, N, N], u[B, N, N]
    """
    count, m, n = batch_and_shape(layer)
    operations = elimination(m, n, layer.attrs.get("pivot", True))
    return Cost(count * operations, layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_lu_factor(layer: Layer) -> Cost:
    """LU decomposition as ``lu``, both factors in one matrix, and the pivots.

    Shapes: x[B, N, N] -> y[B, N, N], pivots[B, N]
    """
    return calc_lu(layer)


@pattern("opaque")
def calc_unpack_lu(layer: Layer) -> Cost:
    """The factors of ``lu_factor`` as separate matrices: no operations; both operands are read.

    Shapes: x[B, N, N], pivots[B, N] -> p[B, N, N], l[B, N, N], u[B, N, N]
    """
    return Cost(Operations(), layer.read, layer.written, layer.attrs)


def householder_triangularization(k: Dim, m: Dim, n: Dim) -> Operations:
    """Return the operations of triangularizing an m x n matrix by k reflections H = 1 - tau v v^T.

    Column j, of l = m - j elements:

    * its length: 1 mul, l - 1 fma, a root;
    * beta, with the sign opposite to its first element: 1 cmp;
    * tau = (beta - head) / beta: 1 add, 1 div;
    * v = tail / (head - beta): l - 1 div;
    * the reflection of every column to its right.
    """
    tails = elements_below_diagonal(k, m)
    vectors = Operations(mul=k, fma=tails, special=k, cmp=k, add=k, div=k + tails)
    return vectors + Operations(
        fma=2 * trailing_elements(k, m, n), mul=elements_below_diagonal(k, n), add=elements_below_diagonal(k, n)
    )


def apply_reflections(k: Dim, m: Dim, columns: Dim) -> Operations:
    """Return the operations of k reflections, the j-th of m - j elements, on ``columns`` columns of m.

    For a column a with the first element a_0: s = tau (a_0 + v a) takes l - 1 fma and 1 mul, a_0 - s 1 add, and a - s v
    l - 1 fma.
    """
    return columns * Operations(fma=2 * elements_below_diagonal(k, m), mul=k, add=k)


def form_q(k: Dim, m: Dim, n: Dim) -> Operations:
    """Return the operations of the first n columns of the product of k reflections of length m.

    Reflections are applied from the last to the first. Reflection j acts on the n - 1 - j columns to its right, and its
    own column becomes 1 - tau and -tau v.
    """
    right = elements_below_diagonal(k, n)
    return Operations(fma=2 * trailing_elements(k, m, n), mul=right + elements_below_diagonal(k, m), add=right + k)


@pattern("opaque")
def calc_qr(layer: Layer) -> Cost:
    """QR decomposition by Householder reflections: the triangular R, and Q unless ``mode`` is "r".

    The reflections take 2 n^2 (m - n/3) FLOPs with FMA = 2 for m >= n. The first k columns of Q (``mode`` "reduced")
    take the same number again, all columns (``"complete"``) more. Per reflection of length l:

    * the length: 1 mul, l - 1 fma and a root; 1 cmp, 1 add, l div;
    * on each column that it acts on: 2 (l - 1) fma, 1 mul, 1 add.

    Source: Golub and Van Loan, Matrix Computations, 4th edition, algorithms 5.2.1 and 5.1.6.

    Shapes: x[B, M, N] -> q[B, M, N], r[B, N, N]
    Settings: mode="r"
    """
    (count, m, n), mode = batch_and_shape(layer), layer.attrs.get("mode", "reduced")
    k = minimum(m, n)
    operations = householder_triangularization(k, m, n)
    if mode != "r":
        operations += form_q(k, m, m if mode == "complete" else k)
    return Cost(count * operations, layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_qr_factor(layer: Layer) -> Cost:
    """QR decomposition with Q as reflections: R above the diagonal, the vectors below, their factors tau.

    Source: Golub and Van Loan, Matrix Computations, 4th edition, algorithm 5.2.1.

    Shapes: x[B, M, N] -> y[B, M, N], tau[B, N]
    """
    count, m, n = batch_and_shape(layer)
    return Cost(count * householder_triangularization(minimum(m, n), m, n), layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_householder_product(layer: Layer) -> Cost:
    """The first columns of the product of the reflections of ``qr_factor``, backward accumulated.

    Source: Golub and Van Loan, Matrix Computations, 4th edition, section 5.1.6.

    Shapes: x[B, M, N], tau[B, K] -> y[B, M, N]
    """
    count, m, n = batch_and_shape(layer)
    return Cost(count * form_q(layer["tau"].shape[-1], m, n), layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_householder_multiply(layer: Layer) -> Cost:
    """A matrix times the orthogonal matrix of reflections, applied one by one.

    If ``left`` is false, the orthogonal matrix is on the right.

    Source: Golub and Van Loan, Matrix Computations, 4th edition, section 5.1.4.

    Shapes: x[B, M, K], tau[B, K], x1[B, M, N] -> y[B, M, N]
    """
    (count, m, _), (rows, columns) = batch_and_shape(layer), layer["x1"].shape[-2:]
    vectors = columns if layer.attrs.get("left", True) else rows
    return Cost(count * apply_reflections(layer["tau"].shape[-1], m, vectors), layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_ldl_factor(layer: Layer) -> Cost:
    """LDL decomposition of symmetric matrices that may be indefinite, with symmetric pivoting.

    Column j takes j mul for d_k l_jk, j fma for d_j, and j fma and 1 div for each of n - 1 - j elements below. The
    pivot is searched in at most two columns, the bound of Bunch and Kaufman: n (n - 1) cmp. One triangle of x is read.

    Source: Golub and Van Loan, Matrix Computations, 4th edition, algorithm 4.1.2 and section 4.4.4.

    Shapes: x[B, N, N] -> y[B, N, N], pivots[B, N]
    """
    count, n, _ = batch_and_shape(layer)
    pairs = n * (n - 1) // 2
    operations = Operations(fma=pairs + (n - 2) * (n - 1) * n // 6, mul=pairs, div=pairs, cmp=2 * pairs)
    return Cost(count * operations, triangle_bytes(layer["x"]), layer.written, layer.attrs)


# Systems of linear equations, from a matrix or from its factors.


def triangular_solve_operations(n: Dim, columns: Dim, unit: bool = False) -> Operations:
    """Return the operations of a triangular n x n system for ``columns`` right-hand sides.

    Each takes n (n-1) / 2 fma and n div; with a ``unit`` diagonal no div.

    Source: Golub and Van Loan, Matrix Computations, 4th edition, algorithm 3.1.1.
    """
    return Operations(fma=columns * (n * (n - 1) // 2), div=0 if unit else columns * n)


def _size_and_right_hand_sides(layer: Layer) -> tuple[Dim, Dim]:
    n = layer["x0"].shape[-1]
    return n, layer.out.size // n


@pattern("opaque")
def calc_solve(layer: Layer) -> Cost:
    """Solution y of x0 y = x1: Gaussian elimination of x0, two triangular systems per right-hand side.

    * Per matrix: (n-1) n (2n-1) / 6 fma, n (n-1) / 2 div, and n (n-1) / 2 cmp for the pivots.
    * Per right-hand side: n (n-1) fma and n div.

    If the factors are an output, they are written.

    Source: Golub and Van Loan, Matrix Computations, 4th edition, section 3.4.

    Shapes: x0[B, N, N], x1[B, N, K] -> y[B, N, K]
    """
    n, columns = _size_and_right_hand_sides(layer)
    operations = prod(layer["x0"].shape[:-2]) * elimination(n, n)
    operations += triangular_solve_operations(n, columns, unit=True) + triangular_solve_operations(n, columns)
    return Cost(operations, layer.read, layer.written, layer.attrs)


SUBSTITUTIONS: Mapping[str, tuple[str, ...]] = {
    "triangular_solve": ("triangle",),
    "lu_solve": ("unit", "triangle"),
    "cholesky_solve": ("triangle", "triangle"),
    "ldl_solve": ("unit", "diagonal", "unit"),
}
"""The systems that are solved one after another: a triangle, one with a unit diagonal, a diagonal."""


@pattern("opaque")
@covers(*SUBSTITUTIONS)
def calc_substitution(layer: Layer) -> Cost:
    """Systems of equations given by factors: one triangular system after another.

    Per right-hand side:

    * a triangle of size n: n (n-1) / 2 fma and n div;
    * a triangle with a unit diagonal (in LU and LDL decompositions, or with the attribute ``unit``): no div;
    * a diagonal: n div.

    ``triangular_solve`` has one triangle, ``lu_solve`` and ``cholesky_solve`` have two, ``ldl_solve`` two and the
    diagonal. One triangle of x0 is read, without a unit diagonal; ``lu_solve`` reads all of x0.

    Source: Golub and Van Loan, Matrix Computations, 4th edition, sections 3.1, 3.2, 4.1 and 4.2.

    Shapes: x0[B, N, N], x1[B, N, K] -> y[B, N, K]
    """
    n, columns = _size_and_right_hand_sides(layer)
    operations = Operations()
    for kind in SUBSTITUTIONS[layer.op]:
        if kind == "diagonal":
            operations += Operations(div=columns * n)
        else:
            operations += triangular_solve_operations(n, columns, kind == "unit" or bool(layer.attrs.get("unit")))
    x0, read = layer["x0"], layer.read
    if layer.op != "lu_solve":
        read += triangle_bytes(x0, diagonal=not layer.attrs.get("unit")) - x0.nbytes
    return Cost(operations, read, layer.written, layer.attrs)


@pattern("opaque")
def calc_least_squares(layer: Layer) -> Cost:
    """Least squares solution of x0 y = x1 for matrices of full rank, by Householder QR.

    With r the larger and k the smaller side of x0:

    * k reflections of an r x k matrix, applied to every right-hand side;
    * a triangular system of size k per right-hand side.

    A wide x0 (the solution of least norm) is the transposed problem and costs the same. Drivers that determine the rank
    cost more, depending on data; the count does not distinguish them.

    Source: Golub and Van Loan, Matrix Computations, 4th edition, algorithm 5.3.2.

    Shapes: x0[B, M, N], x1[B, M, K] -> y[B, N, K]
    """
    *batch, m, n = layer["x0"].shape
    columns = layer.out.size // n
    r, k = maximum(m, n), minimum(m, n)
    operations = (
        prod(batch) * householder_triangularization(k, r, k)
        + apply_reflections(k, r, columns)
        + triangular_solve_operations(k, columns)
    )
    return Cost(operations, layer.read, layer.written, layer.attrs)


# Inverses and pseudo-inverses.


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


# Determinants.


def square_elimination(n: Dim) -> Operations:
    """Return :func:`elimination` of an n x n matrix, in closed form, which is shorter for symbolic sizes."""
    pairs = n * (n - 1) // 2
    return Operations(fma=(n - 1) * n * (2 * n - 1) // 6, div=pairs, cmp=pairs)


@pattern("opaque")
def calc_det(layer: Layer) -> Cost:
    """Determinants by Gaussian elimination.

    * The elimination: (n - 1) n (2n - 1) / 6 fma, n (n - 1) / 2 div, and n (n - 1) / 2 cmp for the pivots.
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


# Eigenvalues, singular values and matrix exponentials.
#
# These algorithms iterate until they converge. The textbook publishes FLOPs that count an fma as 2; n FLOPs are counted
# as n / 2 fma.


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

    A matrix with a norm above 1 is halved repeatedly first, and the result is squared as often, one product each. These
    products are not counted, because their number depends on data.

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


# Square roots of matrices, and the polar decomposition.


@pattern("opaque")
def calc_matrix_sqrt(layer: Layer) -> Cost:
    """Square roots V sqrt(L) V^T of symmetric positive definite matrices x = V L V^T.

    Eigenvalues and vectors as ``symmetric_eigen``; n square roots (special); n^2 mul for V sqrt(L); its product with
    V^T, n^2 dot products of length n (MACs). One triangle of x is read.

    Source: Higham, Functions of Matrices, 2008, sections 1.2 and 6.2.

    Shapes: x[B, N, N] -> y[B, N, N]
    """
    count, n = batch_and_size(layer)
    product = dot_products(n * n, n * n * n)
    operations = symmetric_eigen_operations(n) + Operations(special=n, mul=n * n) + product
    return Cost(count * operations, triangle_bytes(layer["x"]), layer.written, layer.attrs, count * n * n * n)


@pattern("opaque")
def calc_polar_decomposition(layer: Layer) -> Cost:
    """Polar decompositions x = u h: u has orthonormal columns, h is symmetric positive semidefinite.

    The thin singular value decomposition P S Q^T of x as ``singular_values``; u = P Q^T, m n dot products of length n
    (MACs); h = Q S Q^T, n^2 mul for Q S and n^2 dot products of length n (MACs).

    Source: Higham, Functions of Matrices, 2008, section 8.1.

    Shapes: x[B, M, N] -> u[B, M, N], h[B, N, N]
    """
    *batch, m, n = layer["x"].shape
    count, products = prod(batch), (m + n) * n * n
    operations = svd_operations(m, n, "thin") + Operations(mul=n * n) + dot_products((m + n) * n, products)
    return Cost(count * operations, layer.read, layer.written, layer.attrs, count * products)


# Distances and similarities of points, and gradients of distances.
#
# The attribute ``p`` is the order of the norm (default: 2).


@pattern("opaque")
def calc_pairwise_distances(layer: Layer) -> Cost:
    """Distance of every row of x0 to every row of x1: the p-norm of their difference.

    Per pair of rows of D features: D subtractions, and the norm.

    * p = 2: 1 mul, D - 1 fma and a root.
    * p = 1: D absolute values, D - 1 add.
    * p infinite: D absolute values, D - 1 cmp.
    * p = 0: D cmp, D - 1 add.
    * Any other p: D absolute values and powers, D - 1 add, a root. For p = 3 a power is 2 mul, else 1 special.

    Libraries may compute p = 2 by a matrix product; this is not counted, so there are no MACs.

    Shapes: x0[B, M, D], x1[B, N, D] -> y[B, M, N]
    """
    pairs = layer.out.size
    elements = pairs * layer["x0"].shape[-1]
    operations = Operations(add=elements) + norm_operations(layer.attrs.get("p", 2), elements, pairs)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_self_distances(layer: Layer) -> Cost:
    """Distance of every two rows of x, each pair once: ``pairwise_distances`` for N (N-1) / 2 pairs.

    Shapes: x[N, D] -> y[N*(N-1)/2]
    """
    pairs = layer.out.size
    elements = pairs * layer["x"].shape[-1]
    operations = Operations(add=elements) + norm_operations(layer.attrs.get("p", 2), elements, pairs)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("reduce")
def calc_distance(layer: Layer) -> Cost:
    """Distance of two tensors, with broadcasting: the p-norm of all elements of their difference.

    The number of elements is the attribute ``elements`` (default: the size of x0).

    Shapes: x0[N, C], x1[N, C] -> y[]
    """
    n = layer.attrs.get("elements", layer["x0"].size)
    operations = Operations(add=n) + norm_operations(layer.attrs.get("p", 2), n, 1)
    return Cost(operations, layer.read, layer.written, layer.attrs)


DISTANCE_GRADIENTS: Mapping[object, tuple[PerElement, PerElement]] = {
    1: (PerElement(Operations(), "dy"), PerElement(Operations(add=1, cmp=2, fma=1), "fma(sign(x0 - x1), s, dx)")),
    2: (PerElement(Operations(div=1), "dy / y"), PerElement(Operations(add=1, fma=1), "fma(x0 - x1, s, dx)")),
    float("inf"): (
        PerElement(Operations(), "dy"),
        PerElement(Operations(add=2, cmp=3, fma=1), "d = x0 - x1; fma(where(abs(d) == y, sign(d), 0), s, dx)"),
    ),
}
"""By p: the operations per pair, which compute s, and per feature of a pair."""


def other_gradient(p: Any) -> tuple[PerElement, PerElement]:
    """Return the operations per pair and per feature for a p that is not in :data:`DISTANCE_GRADIENTS`."""
    power = Operations() if p == 3 else power_operations(p - 2)
    return (
        PerElement(Operations(div=1) + power_operations(p - 1), "dy / y ** (p - 1)"),
        PerElement(Operations(add=2, mul=1, fma=1) + power, "d = x0 - x1; fma(d * abs(d) ** (p - 2), s, dx)"),
    )


def _gradient_operations(layer: Layer, pairs: Dim, features: Dim, sides: int) -> Operations:
    p = layer.attrs.get("p", 2)
    if p == 0:
        return Operations()
    pair, element = DISTANCE_GRADIENTS[p] if p in DISTANCE_GRADIENTS else other_gradient(p)
    other_side = Operations(fma=sides - 1)
    return pairs * pair.operations + pairs * features * (element.operations + other_side)


@pattern("opaque")
def calc_pairwise_distances_backward(layer: Layer) -> Cost:
    """Gradient of ``pairwise_distances`` for x0.

    For p = 2 dx0_i is the sum of dy_ij (x0_i - x1_j) / y_ij over all j.

    * p = 2: 1 div per pair; 1 subtraction and 1 fma per feature of a pair.
    * p = 1: the sign of the difference (2 cmp) instead of the difference, no div.
    * p infinite: as p = 1, if the absolute value equals y (1 add, 1 cmp more).
    * Any other p: |d|^(p-2) d / y^(p-1), 1 special per pair more; 1 special, 1 add and 1 mul per feature more. Squares
      and cubes of p = 3, 4 and 5 are 1 and 2 mul instead of 1 special.

    Both operands, y and dy are read.

    Shapes: dy[B, M, N], x0[B, M, D], x1[B, N, D], y[B, M, N] -> dx0[B, M, D]
    """
    operations = _gradient_operations(layer, layer["dy"].size, layer["x0"].shape[-1], sides=1)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_self_distances_backward(layer: Layer) -> Cost:
    """Gradient of ``self_distances``: ``pairwise_distances_backward``, added to both rows of a pair.

    1 fma per feature of a pair more.

    Shapes: dy[N*(N-1)/2], x[N, D], y[N*(N-1)/2] -> dx[N, D]
    """
    operations = _gradient_operations(layer, layer["dy"].size, layer["x"].shape[-1], sides=2)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_squared_distances(layer: Layer) -> Cost:
    """Squared Euclidean distance of every row of x0 to every row of x1.

    Per pair of rows of D features D subtractions, 1 mul and D - 1 fma: ``pairwise_distances`` without the root.
    Libraries may compute a matrix product; this is not counted, so there are no MACs.

    Shapes: x0[M, D], x1[N, D] -> y[M, N]
    """
    pairs = layer.out.size
    elements = pairs * layer["x0"].shape[-1]
    operations = Operations(add=elements) + dot_products(pairs, elements)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("reduce")
def calc_cosine_similarity(layer: Layer) -> Cost:
    """Cosine of the angle between x0 and x1 along ``axis``, x0 . x1 / (max(|x0|, eps) * max(|x1|, eps)).

    Per row three dot products, two square roots, 2 cmp, 1 mul, 1 div.

    Shapes: x0[N, D], x1[N, D] -> y[N]
    Settings: axis=1
    """
    count = layer.out.size
    length = layer["x0"].shape[layer.attrs["axis"]] if layer["x0"].shape else 1
    operations = dot_products(3 * count, 3 * count * length) + Operations(mul=1, div=1, cmp=2, special=2) * count
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("reduce")
def calc_pairwise_distance(layer: Layer) -> Cost:
    """Distance of the rows of x0 and x1, the p-norm of x0 - x1 + eps.

    Per row of c elements 2c add, then for p = 2 (default) 1 mul, c - 1 fma and a root. Other norms are those of
    ``pairwise_distances``.

    Shapes: x0[N, D], x1[N, D] -> y[N]
    """
    size, count = maximum(layer["x0"].size, layer["x1"].size), layer.out.size
    operations = norm_operations(layer.attrs.get("p", 2), size, count) + Operations(add=2 * size)
    return Cost(operations, layer.read, layer.written, layer.attrs)


# Cross product of vectors.


@pattern("window")
def calc_cross(layer: Layer) -> Cost:
    """Cross product of vectors of three elements, with broadcasting: 2 mul and 1 add per output element.

    Shapes: x0[N, 3], x1[N, 3] -> y[N, 3]
    """
    return Cost(layer.out.size * Operations(mul=2, add=1), layer.read, layer.written, layer.attrs)
