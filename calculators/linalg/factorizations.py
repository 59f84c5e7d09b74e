"""Factorisations of matrices into triangular and orthogonal ones.

Matrices are m x n with k = min(m, n); each batch entry is one. Their products are no ``macs``: no matrix is multiplied
by another.
"""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations, minimum, prod


def batch_and_shape(layer: Layer) -> tuple[Dim, Dim, Dim]:
    """How many matrices x is made of, their rows and their columns."""
    *batch, rows, columns = layer["x"].shape
    return prod(batch), rows, columns


def elements_below_diagonal(k: Dim, m: Dim) -> Dim:
    """Elements below the diagonal in the first k columns of m rows: the sum of m - 1 - j for j < k."""
    return k * (m - 1) - k * (k - 1) // 2


def trailing_elements(k: Dim, m: Dim, n: Dim) -> Dim:
    """Elements right of and below each of the first k pivots: the sum of (m - 1 - j) (n - 1 - j) for j < k."""
    pairs = k * (k - 1) // 2
    return k * (m - 1) * (n - 1) - (m + n - 2) * pairs + (k - 1) * k * (2 * k - 1) // 6


def elimination(m: Dim, n: Dim, pivoting: bool = True) -> Operations:
    """Gaussian elimination of an m x n matrix, both factors in the place of the matrix.

    Column j finds its pivot among m - j elements, divides what is below it, and subtracts a product from all that is
    right of and below it.
    """
    k = minimum(m, n)
    return Operations(
        fma=trailing_elements(k, m, n),
        div=elements_below_diagonal(k, m),
        cmp=elements_below_diagonal(k, m) if pivoting else 0,
    )


def householder_triangularization(k: Dim, m: Dim, n: Dim) -> Operations:
    """Householder triangularisation of an m x n matrix by k reflections H = 1 - tau v v^T.

    Column j, of l = m - j elements: its length (1 mul, l-1 fma, a root), beta with the sign opposite to its head (1
    cmp), tau = (beta - head) / beta (1 add, 1 div), v = tail / (head - beta) (l-1 div); every column to its right is
    reflected.
    """
    tails = elements_below_diagonal(k, m)
    made = Operations(mul=k, fma=tails, special=k, cmp=k, add=k, div=k + tails)
    return made + Operations(
        fma=2 * trailing_elements(k, m, n), mul=elements_below_diagonal(k, n), add=elements_below_diagonal(k, n)
    )


def apply_reflections(k: Dim, m: Dim, columns: Dim) -> Operations:
    """Reflections, k of them, the j-th of m - j elements, applied to ``columns`` columns of m.

    A column a, head first: s = tau (a_0 + v a) takes l-1 fma and 1 mul, a_0 - s 1 add, a - s v l-1 fma.
    """
    return columns * Operations(fma=2 * elements_below_diagonal(k, m), mul=k, add=k)


def form_q(k: Dim, m: Dim, n: Dim) -> Operations:
    """The first n columns of the product of k reflections of length m, from the last reflection to the first.

    Reflection j acts on the n - 1 - j columns to its right, and its own column becomes 1 - tau and -tau v.
    """
    right = elements_below_diagonal(k, n)
    return Operations(fma=2 * trailing_elements(k, m, n), mul=right + elements_below_diagonal(k, m), add=right + k)


def calc_lu(layer: Layer) -> Cost:
    """LU decomposition P L U = x by Gaussian elimination with partial pivoting, as factors of their own.

    With k = min(m, n): one fma for each element right of and below each pivot ((n-1) n (2n-1) / 6 for a square
    matrix), a division for each element below it, and as many cmp for the pivots; none with the setting ``pivot``
    false.

    Source: Golub and Van Loan, Matrix Computations, 4th edition, algorithm 3.4.1.

    Shapes: x[B, N, N] -> p[B, N, N], l[B, N, N], u[B, N, N]
    """
    count, m, n = batch_and_shape(layer)
    operations = elimination(m, n, layer.attrs.get("pivot", True))
    return Cost(count * operations, layer.read, layer.written, layer.attrs)


def calc_lu_factor(layer: Layer) -> Cost:
    """LU decomposition as ``lu``, both factors in one matrix beside the pivots.

    Shapes: x[B, N, N] -> y[B, N, N], pivots[B, N]
    """
    return calc_lu(layer)


def calc_unpack_lu(layer: Layer) -> Cost:
    """The factors of ``lu_factor`` as matrices of their own: no operations; both operands are read.

    Shapes: x[B, N, N], pivots[B, N] -> p[B, N, N], l[B, N, N], u[B, N, N]
    """
    return Cost(Operations(), layer.read, layer.written, layer.attrs)


def calc_qr(layer: Layer) -> Cost:
    """QR decomposition by Householder reflections: the triangular R, and Q unless ``mode`` is "r".

    The reflections take 2 n^2 (m - n/3) FLOPs with FMA = 2 for m >= n, making the first k columns of Q as many again
    (``mode`` "reduced"), all of them (``"complete"``) more. Per reflection of length l: 1 mul, l-1 fma and a root for
    the length, 1 cmp, 1 add, l div; on each column it acts on 2 (l-1) fma, 1 mul, 1 add.

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


def calc_qr_factor(layer: Layer) -> Cost:
    """QR decomposition with Q left as its reflections: R above the diagonal, the vectors below, their factors tau.

    Source: Golub and Van Loan, Matrix Computations, 4th edition, algorithm 5.2.1.

    Shapes: x[B, M, N] -> y[B, M, N], tau[B, N]
    """
    count, m, n = batch_and_shape(layer)
    return Cost(count * householder_triangularization(minimum(m, n), m, n), layer.read, layer.written, layer.attrs)


def calc_householder_product(layer: Layer) -> Cost:
    """The first columns of the product of reflections that ``qr_factor`` left, backward accumulated.

    Source: Golub and Van Loan, Matrix Computations, 4th edition, section 5.1.6.

    Shapes: x[B, M, N], tau[B, K] -> y[B, M, N]
    """
    count, m, n = batch_and_shape(layer)
    return Cost(count * form_q(layer["tau"].shape[-1], m, n), layer.read, layer.written, layer.attrs)


def calc_householder_multiply(layer: Layer) -> Cost:
    """A matrix times the orthogonal matrix of reflections, each applied in turn; ``left`` false: from the right.

    Source: Golub and Van Loan, Matrix Computations, 4th edition, section 5.1.4.

    Shapes: x[B, M, K], tau[B, K], x1[B, M, N] -> y[B, M, N]
    """
    (count, m, _), (rows, columns) = batch_and_shape(layer), layer["x1"].shape[-2:]
    vectors = columns if layer.attrs.get("left", True) else rows
    return Cost(count * apply_reflections(layer["tau"].shape[-1], m, vectors), layer.read, layer.written, layer.attrs)


def calc_ldl_factor(layer: Layer) -> Cost:
    """LDL decomposition of symmetric matrices that need not be definite, with symmetric pivoting.

    Column j: j mul for d_k l_jk, j fma for d_j, j fma and 1 div for each of n-1-j elements below. The pivot is looked
    for in two columns at most, the bound of Bunch and Kaufman: n (n-1) cmp.

    Source: Golub and Van Loan, Matrix Computations, 4th edition, algorithm 4.1.2 and section 4.4.4.

    Shapes: x[B, N, N] -> y[B, N, N], pivots[B, N]
    """
    count, n, _ = batch_and_shape(layer)
    pairs = n * (n - 1) // 2
    operations = Operations(fma=pairs + (n - 2) * (n - 1) * n // 6, mul=pairs, div=pairs, cmp=2 * pairs)
    return Cost(count * operations, layer.read, layer.written, layer.attrs)


def batch_and_size(layer: Layer) -> tuple[Dim, Dim]:
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
    count, n = batch_and_size(layer)
    operations = Operations(fma=(n - 1) * n * (n + 1) // 6, div=n * (n - 1) // 2, special=n)
    return Cost(count * operations, layer.read, layer.written, layer.attrs)
