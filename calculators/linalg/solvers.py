"""Systems of linear equations, from a matrix or from its factors."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Dim, Layer, Operations, covers, maximum, minimum, pattern, prod

from .factorizations import apply_reflections, elimination, householder_triangularization, triangle_bytes


def triangular_solve_operations(n: Dim, columns: Dim, unit: bool = False) -> Operations:
    """Return the operations of a triangular n x n system for ``columns`` right-hand sides.

    Each takes n (n-1) / 2 fma and n div; with a ``unit`` diagonal no div.

    Source: Golub and Van Loan, Matrix Computations, 4th edition, algorithm 3.1.1.
    """
    return Operations(fma=columns * (n * (n - 1) // 2), div=0 if unit else columns * n)


def _size_and_right_hand_sides(layer: Layer) -> tuple[Dim, Dim]:
    """Return the size n of the matrices x0, and the right-hand sides over the whole batch."""
    n = layer["x0"].shape[-1]
    return n, layer.out.size // n


@pattern("opaque")
def calc_solve(layer: Layer) -> Cost:
    """Solution y of x0 y = x1: Gaussian elimination of x0, two triangular systems per right-hand side.

    * Per matrix: (n-1) n (2n-1) / 6 fma, n (n-1) / 2 div, and as many cmp for the pivots.
    * Per right-hand side: n (n-1) fma and n div.

    Factors that are outputs too are written.

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
    diagonal. Of x0 one triangle is read, without a unit diagonal; for ``lu_solve`` all of it.

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
