"""Factorizations of matrices into triangular and orthogonal factors.

Matrices are m x n with k = min(m, n); each batch entry is one matrix.
"""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations, Tensor, minimum, pattern, prod


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
    take as many again, all columns (``"complete"``) more. Per reflection of length l:

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
