"""Square roots of matrices and polar decompositions, by hand."""

from __future__ import annotations

from costcore.ir import Operations
from tests.calculators.layer_costs import layer_cost, operations


def test_square_root():
    """3 x 3: 3 square roots, V sqrt(L) 9 mul, its product with V^T 9 dot products of length 3: 9 mul, 18 fma."""
    eigen = operations("symmetric_eigen", {"x": (3, 3)}, (3,), (3, 3))
    result = layer_cost("matrix_sqrt", {"x": (2, 3, 3)}, (2, 3, 3))
    assert result.flops == 2 * (eigen + Operations(special=3, mul=9 + 9, fma=18))
    assert result.macs == 2 * 27
    assert (result.mread, result.mwrite) == (2 * 6 * 4, 2 * 9 * 4)  # one triangle, all of the root


def test_polar_decomposition():
    """4 x 2: P Q^T 8 dot products of length 2 (8 mul, 8 fma); Q S 4 mul, its product with Q^T 4 mul, 4 fma."""
    svd = operations("singular_values", {"x": (4, 2)}, (4, 2), (2,), (2, 2), vectors="thin")
    result = layer_cost("polar_decomposition", {"x": (3, 4, 2)}, (3, 4, 2), (3, 2, 2))
    assert result.flops == 3 * (svd + Operations(mul=8 + 4 + 4, fma=8 + 4))
    assert result.macs == 3 * (4 * 2 * 2 + 2 * 2 * 2)
