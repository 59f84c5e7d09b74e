"""Systems of linear equations against executed algorithms."""

from __future__ import annotations

import pytest

from costcore.ir import Operations
from tests.calculators.counting_scalar import count, fma
from tests.calculators.layer_costs import layer_cost, operations
from tests.calculators.reference import eliminate, reflect, triangularize


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
    ("op", "steps", "elements"),  # read of a 3 x 3 factor: one triangle, or all
    [
        ("triangular_solve", [substitute], 6),
        ("lu_solve", [lambda a, b: substitute(a, b, unit=True), substitute], 9),
        ("cholesky_solve", [substitute, substitute], 6),
        ("ldl_solve", [lambda a, b: substitute(a, b, unit=True), scale, lambda a, b: substitute(a, b, unit=True)], 6),
    ],
)
def test_substitution(op, steps, elements):
    counted = sum((count(step, (3, 3), (3, 2)) for step in steps), Operations())
    result = layer_cost(op, {"x0": (2, 3, 3), "x1": (2, 3, 2)}, (2, 3, 2))
    assert result[:3] == (2 * counted, 4 * (2 * elements + 12), 4 * 12)


def test_a_unit_triangle_divides_nothing():
    unit = count(lambda a, b: substitute(a, b, unit=True), (4, 4), (4, 1))
    result = layer_cost("triangular_solve", {"x0": (4, 4), "x1": (4, 1)}, (4, 1), unit=True)
    assert result.flops == unit
    assert result.mread == 4 * (3 + 2 + 1 + 4), "the ones of the diagonal are not read"


def test_solving_eliminates_each_matrix_once():
    one = count(eliminate, (3, 3)) + count(lambda a, b: substitute(a, b, unit=True), (3, 3), (3, 5))
    one += count(substitute, (3, 3), (3, 5))
    assert operations("solve", {"x0": (2, 3, 3), "x1": (2, 3, 5)}, (2, 3, 5)) == 2 * one
    # a vector for each of two matrices
    assert operations("solve", {"x0": (2, 3, 3), "x1": (2, 3)}, (2, 3)) == operations(
        "solve", {"x0": (2, 3, 3), "x1": (2, 3, 1)}, (2, 3, 1)
    )


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (3, 3)])
def test_least_squares(shape):
    r, k = max(shape), min(shape)

    def solve(x, b):
        for j, (v, tau) in enumerate(triangularize(x)):
            for c in range(b.shape[1]):
                reflect(v, tau, b[j:, c])
        substitute(x[:k, :k], b[:k])

    m, n = shape
    found = operations("least_squares", {"x0": shape, "x1": (m, 2)}, (n, 2))
    assert found == count(solve, (r, k), (r, 2))
