"""Factorizations, inverses and determinants against executed algorithms."""

from __future__ import annotations

import numpy as np
import pytest

from tests.calculators.counting_scalar import count, fma, sqrt
from tests.calculators.layer_costs import layer_cost


def cholesky(x):
    n = len(x)
    for j in range(n):
        for i in range(j, n):
            left = x[i, j]
            for k in range(j):
                left = fma(x[i, k], x[j, k], left)
            x[i, j] = sqrt(left) if i == j else left / x[j, j]


def pivot(x, k):
    """The largest element at and below the diagonal, n - k - 1 cmp; which row it is in is data."""
    best = x[k, k]
    for i in range(k + 1, len(x)):
        best = x[i, k] if x[i, k] > best else best


def determinant(x):
    n = len(x)
    for k in range(n):
        pivot(x, k)
        for i in range(k + 1, n):
            x[i, k] = x[i, k] / x[k, k]
            for j in range(k + 1, n):
                x[i, j] = fma(x[i, k], x[k, j], x[i, j])
    product = x[0, 0]
    for k in range(1, n):
        product = product * x[k, k]


def inverse(x):
    n = len(x)
    for k in range(n):
        pivot(x, k)
        reciprocal = 1 / x[k, k]
        others = [i for i in range(n) if i != k]
        for j in others:
            x[k, j] = x[k, j] * reciprocal
        for i in others:
            for j in others:
                x[i, j] = fma(x[i, k], x[k, j], x[i, j])
        for i in others:
            x[i, k] = x[i, k] * reciprocal


@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.parametrize(
    ("op", "algorithm", "output"), [("cholesky", cholesky, 2), ("det", determinant, 0), ("inverse", inverse, 2)]
)
def test_algorithms(op, algorithm, output, n):
    y = (2, n, n)[: 1 + output]
    result = layer_cost(op, {"x": (2, n, n)}, y)
    assert result.flops == 2 * count(algorithm, (n, n))
    elements = n * (n + 1) // 2 if op == "cholesky" else n * n  # one triangle
    assert (result.mread, result.mwrite, result.macs) == (4 * 2 * elements, 4 * int(np.prod(y)), 0)
