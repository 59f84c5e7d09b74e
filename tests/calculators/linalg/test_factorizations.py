"""Factorizations and systems of equations against executed algorithms."""

from __future__ import annotations

import pytest

from costcore.ir import Operations
from tests.calculators.counting_scalar import count, fma, log
from tests.calculators.layer_costs import layer_cost, operations
from tests.calculators.reference import eliminate, reflect, triangularize

SHAPES = [(1, 1), (3, 3), (5, 3), (3, 5), (4, 1)]


def orthogonal(x, made, columns):
    """The first columns of the product of reflections, backward."""
    m = len(x)
    for j in reversed(range(len(made))):
        v, tau = made[j]
        for c in range(j + 1, columns):
            reflect(v, tau, x[j:m, c])
        1 - tau
        [value * tau for value in v]


def given_reflections(x, taus, k):
    m = len(x)
    return [(list(x[j + 1 : m, 0]), taus[j]) for j in range(k)]


@pytest.mark.parametrize("shape", SHAPES)
def test_lu(shape):
    m, n = shape
    k = min(shape)
    for op, outputs in (("lu", [(m, m), (m, k), (k, n)]), ("lu_factor", [shape, (k,)])):
        assert operations(op, {"x": shape}, *outputs) == count(eliminate, shape)
        assert operations(op, {"x": shape}, *outputs, pivot=False) == count(lambda x: eliminate(x, False), shape)


def test_unpacking_moves_elements():
    result = layer_cost("unpack_lu", {"x": (3, 3), "pivots": (3,)}, (3, 3), (3, 3), (3, 3))
    assert result[:3] == (Operations(), 4 * 12, 4 * 27)


@pytest.mark.parametrize("n", [1, 2, 4])
def test_log_det(n):
    def log_det(x):
        eliminate(x)
        total = log(abs(x[0, 0]))
        for i in range(1, n):
            total = total + log(abs(x[i, i]))
        [x[i, i] > 0 for i in range(n)]

    assert operations("log_det", {"x": (2, n, n)}, (2,), (2,)) == 2 * count(log_det, (n, n))


@pytest.mark.parametrize("shape", SHAPES)
def test_qr(shape):
    m, n = shape
    k = min(shape)
    r = count(triangularize, shape)
    assert operations("qr_factor", {"x": shape}, shape, (k,)) == r
    assert operations("qr", {"x": shape}, (k, n), mode="r") == r
    for mode, columns in (("reduced", k), ("complete", m)):
        q = count(lambda x, t, c=columns: orthogonal(x, given_reflections(x, t, k), c), (m, max(columns, 1)), (k,))
        assert operations("qr", {"x": (2, *shape)}, (2, m, columns), (2, columns, n), mode=mode) == 2 * (r + q)
    q = count(lambda x, t: orthogonal(x, given_reflections(x, t, k), k), (m, k), (k,))
    assert operations("householder_product", {"x": (m, k), "tau": (k,)}, (m, k)) == q


def test_published_orders_of_qr():
    """2 n^2 (m - n/3) FLOPs with FMA = 2, and as many for the first n columns of Q, up to lower powers."""
    m, n = 3000, 2000
    published = 2 * n * n * (m - n / 3)
    r = operations("qr", {"x": (m, n)}, (n, n), mode="r").flops(fma_1flop=False)
    both = operations("qr", {"x": (m, n)}, (m, n), (n, n), mode="reduced").flops(fma_1flop=False)
    assert r == pytest.approx(published, rel=2e-3)
    assert both == pytest.approx(2 * published, rel=2e-3)


def test_multiplying_by_reflections():
    def multiply(x, taus, c):
        for v, tau in given_reflections(x, taus, 2):
            for j in range(c.shape[1]):
                reflect(v, tau, c[4 - len(v) - 1 :, j])

    shapes = {"x": (4, 2), "tau": (2,), "x1": (4, 3)}
    assert operations("householder_multiply", shapes, (4, 3)) == count(multiply, *shapes.values())
    other = {"x": (4, 2), "tau": (2,), "x1": (3, 4)}
    assert operations("householder_multiply", other, (3, 4), left=False) == count(multiply, *shapes.values())


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_ldl(n):
    def factor(x):
        for j in range(n):
            v = [x[j, k] * x[k, k] for k in range(j)]
            d = x[j, j]
            for k in range(j):
                d = fma(x[j, k], v[k], d)
            for i in range(j + 1, n):
                left = x[i, j]
                for k in range(j):
                    left = fma(x[i, k], v[k], left)
                x[i, j] = left / d

    pivots = Operations(cmp=n * (n - 1))
    assert operations("ldl_factor", {"x": (n, n)}, (n, n), (n,)) == count(factor, (n, n)) + pivots
