"""Eigenvalues, singular values and functions of matrices against published figures."""

from __future__ import annotations

import pytest

from tests.calculators.counting_scalar import count, dot, fma
from tests.calculators.layer_costs import layer_cost, operations

N = 30


def flops(op, x, *outputs, **settings):
    return operations(op, {"x": x}, *outputs, **settings).flops(fma_1flop=False)


def test_figures_of_golub_and_van_loan():
    """Matrix Computations, 4th edition: 8.3, 7.5.6 and figure 8.6.1; FLOPs with FMA = 2."""
    assert flops("symmetric_eigen", (N, N), (N,), (N, N)) == 9 * N**3
    assert flops("symmetric_eigen", (N, N), (N,), vectors=False) == 4 * N**3 // 3
    assert flops("eigen", (N, N), (N,), (N, N)) == 25 * N**3
    assert flops("eigen", (2, N, N), (2, N), vectors=False) == 2 * 10 * N**3
    m, n = 60, 30
    for shape in ((m, n), (n, m)):
        assert flops("singular_values", shape, (n,), vectors="none") == 4 * m * n**2 - 4 * n**3 // 3
        thin = 14 * m * n**2 + 8 * n**3
        assert flops("singular_values", shape, (m, n), (n,), (n, n), vectors="thin") == thin
        full = 4 * m**2 * n + 8 * m * n**2 + 9 * n**3
        assert flops("singular_values", shape, (m, m), (n,), (n, n), vectors="full") == full


@pytest.mark.parametrize("n", [1, 3])
def test_exponential(n):
    def product(a, b, start=None):
        return [
            [dot(a[i], [row[j] for row in b], None if start is None else start[i][j]) for j in range(n)]
            for i in range(n)
        ]

    def combine(*powers, one=False):
        made = []
        for i in range(n):
            made.append([])
            for j in range(n):
                value = powers[0][i][j] * 0.3
                for power in powers[1:]:
                    value = fma(power[i][j], 0.2, value)
                made[i].append(value + 0.5 if one and i == j else value)
        return made

    def exponential(x):
        x2 = product(x, x)
        x3 = product(x2, x)
        x6 = product(x3, x3)
        b1, b2, b5 = combine(x, x2, x3), combine(x, x2, x3, x6), combine(x2, x3, x6)
        b3, b4 = combine(x, x2, x3, x6, one=True), combine(x, x2, x3, x6, one=True)
        c = product(b1, b5, b4)
        return product([[p + q for p, q in zip(r, s, strict=True)] for r, s in zip(b3, c, strict=True)], c, b2)

    result = layer_cost("matrix_exp", {"x": (2, n, n)}, (2, n, n))
    assert result.flops == 2 * count(exponential, (n, n))
    assert result.macs == 2 * 5 * n**3
