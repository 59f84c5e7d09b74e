"""Square roots of matrices, and the polar decomposition, whose second factor is one."""

from __future__ import annotations

from costcore.ir import Cost, Layer, Operations, pattern, prod

from .._shared import dot_products
from .factorizations import batch_and_size, triangle_bytes
from .spectral import svd_operations, symmetric_eigen_operations


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
