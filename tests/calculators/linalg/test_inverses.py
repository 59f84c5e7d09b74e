"""Inverses from factors against executed algorithms."""

from __future__ import annotations

import pytest

from costcore.ir import Operations
from tests.calculators.counting_scalar import count, dot
from tests.calculators.layer_costs import layer_cost, operations


@pytest.mark.parametrize("n", [1, 2, 4])
def test_inverse_of_a_cholesky_factor(n):
    def invert(x):
        y = x.copy()
        for i in range(n):
            y[i, i] = 1 / x[i, i]
            for j in range(i):
                y[i, j] = -dot(x[i, j:i], y[j:i, j]) / x[i, i]
        for i in range(n):
            for j in range(i + 1):
                dot(y[i:, i], y[i:, j])

    assert operations("cholesky_inverse", {"x": (n, n)}, (n, n)) == count(invert, (n, n))


@pytest.mark.parametrize("n", [1, 2, 4])
def test_inverse_of_a_triangle(n):
    def invert(x):
        y = x.copy()
        for i in range(n):
            y[i, i] = 1 / x[i, i]
            for j in range(i):
                y[i, j] = -dot(x[i, j:i], y[j:i, j]) / x[i, i]

    result = layer_cost("triangular_inverse", {"x": (n, n)}, (n, n))
    assert result.flops == count(invert, (n, n))
    assert (result.mread, result.mwrite) == (4 * n * (n + 1) // 2, 4 * n * n)
    assert operations("triangular_inverse", {"x": (3, n, n)}, (3, n, n)) == 3 * result.flops


def test_pseudo_inverse():
    """4 x 2: S is 2 cmp and 2 div, V S^+ 2 * 2 mul, its product with U^T 2 * 4 dot products of length 2."""
    svd = operations("singular_values", {"x": (4, 2)}, (4, 2), (2,), (2, 2), vectors="thin")
    result = layer_cost("pseudo_inverse", {"x": (3, 4, 2)}, (3, 2, 4))
    assert result.flops == 3 * (svd + Operations(cmp=2, div=2, mul=4 + 8, fma=8))
    assert result.macs == 3 * 16
