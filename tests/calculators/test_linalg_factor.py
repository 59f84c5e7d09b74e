"""Factorisations and systems of equations against executed algorithms."""

from __future__ import annotations

import pytest

from costcore.ir import Operations
from tests.calculators.counting import count, dot, fma, log, select, sqrt
from tests.calculators.layers import cost, operations

SHAPES = [(1, 1), (3, 3), (5, 3), (3, 5), (4, 1)]


def eliminate(x, pivoting=True):
    m, n = x.shape
    for k in range(min(m, n)):
        if pivoting:
            best = x[k, k]
            for i in range(k + 1, m):
                best = x[i, k] if x[i, k] > best else best
        for i in range(k + 1, m):
            x[i, k] = x[i, k] / x[k, k]
            for j in range(k + 1, n):
                x[i, j] = fma(x[i, k], x[k, j], x[i, j])


def reflect(v, tau, column):
    """Column minus tau v (v . column), where v starts with a 1 that is not stored."""
    s = dot(v, column[1:], column[0]) * tau
    column[0] = column[0] - s
    for i in range(len(v)):
        column[1 + i] = fma(s, v[i], column[1 + i])


def triangularise(x):
    m, n = x.shape
    made = []
    for j in range(min(m, n)):
        column = x[j:, j]
        length = sqrt(dot(column, column))
        beta = select(column[0] > 0, length, length)
        difference = column[0] - beta
        tau = difference / beta
        v = [value / difference for value in column[1:]]
        made.append((v, tau))
        for c in range(j + 1, n):
            reflect(v, tau, x[j:, c])
    return made


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
    result = cost("unpack_lu", {"x": (3, 3), "pivots": (3,)}, (3, 3), (3, 3), (3, 3))
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
    r = count(triangularise, shape)
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


def substitute(a, b, unit=False):
    n = len(a)
    for c in range(b.shape[1]):
        for i in range(n):
            for k in range(i):
                b[i, c] = fma(a[i, k], b[k, c], b[i, c])
            if not unit:
                b[i, c] = b[i, c] / a[i, i]


def scale(a, b):
    for c in range(b.shape[1]):
        for i in range(len(a)):
            b[i, c] = b[i, c] / a[i, i]


@pytest.mark.parametrize(
    ("op", "steps"),
    [
        ("triangular_solve", [substitute]),
        ("lu_solve", [lambda a, b: substitute(a, b, unit=True), substitute]),
        ("cholesky_solve", [substitute, substitute]),
        ("ldl_solve", [lambda a, b: substitute(a, b, unit=True), scale, lambda a, b: substitute(a, b, unit=True)]),
    ],
)
def test_substitution(op, steps):
    counted = sum((count(step, (3, 3), (3, 2)) for step in steps), Operations())
    result = cost(op, {"x0": (2, 3, 3), "x1": (2, 3, 2)}, (2, 3, 2))
    assert result[:3] == (2 * counted, 4 * (18 + 12), 4 * 12)


def test_a_unit_triangle_divides_nothing():
    unit = count(lambda a, b: substitute(a, b, unit=True), (4, 4), (4, 1))
    assert operations("triangular_solve", {"x0": (4, 4), "x1": (4, 1)}, (4, 1), unit=True) == unit


def test_solving_eliminates_each_matrix_once():
    one = count(eliminate, (3, 3)) + count(lambda a, b: substitute(a, b, unit=True), (3, 3), (3, 5))
    one += count(substitute, (3, 3), (3, 5))
    assert operations("solve", {"x0": (2, 3, 3), "x1": (2, 3, 5)}, (2, 3, 5)) == 2 * one
    # a vector for each of two matrices
    assert operations("solve", {"x0": (2, 3, 3), "x1": (2, 3)}, (2, 3)) == operations(
        "solve", {"x0": (2, 3, 3), "x1": (2, 3, 1)}, (2, 3, 1)
    )


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


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (3, 3)])
def test_least_squares(shape):
    r, k = max(shape), min(shape)

    def solve(x, b):
        for j, (v, tau) in enumerate(triangularise(x)):
            for c in range(b.shape[1]):
                reflect(v, tau, b[j:, c])
        substitute(x[:k, :k], b[:k])

    m, n = shape
    found = operations("least_squares", {"x0": shape, "x1": (m, 2)}, (n, 2))
    assert found == count(solve, (r, k), (r, 2))
