"""Cumulative reductions against executed definitions."""

from __future__ import annotations

import pytest

from tests.calculators.counting_scalar import count, exp, fma, log, maximum, minimum
from tests.calculators.layer_costs import layer_cost, operations


def running(step, first=0):
    def define_running(x):
        results = []
        for value in x[: len(x) - first]:
            results.append(step(results[-1], value) if results else value)
        return results

    return define_running


@pytest.mark.parametrize(
    ("op", "step"),
    [("cumsum", lambda a, b: a + b), ("cumprod", lambda a, b: a * b), ("cummax", maximum), ("cummin", minimum)],
)
@pytest.mark.parametrize("n", [1, 2, 6])
def test_running_reductions(op, step, n: int) -> None:
    assert operations(op, {"x": (3, n)}, (3, n), axis=1) == 3 * count(running(step), (n,))
    exclusive = operations(op, {"x": (3, n)}, (3, n), axis=1, exclusive=True)
    assert exclusive == 3 * count(running(step, first=1), (n,))


def test_logcumsumexp() -> None:
    def define_logcumsumexp(x):
        return [log(v) for v in running(lambda a, b: a + b)([exp(v) for v in x])]

    assert operations("logcumsumexp", {"x": (6, 3)}, (6, 3), axis=0) == 3 * count(define_logcumsumexp, (6,))


def test_linear_recurrence():
    def definition(x0, x1):
        for row, factors in zip(x0, x1, strict=True):
            y = row[0]
            for value, factor in zip(row[1:], factors, strict=True):
                y = fma(factor, y, value)

    result = layer_cost("linear_recurrence", {"x0": (2, 5), "x1": (2, 4)}, (2, 5), axis=1)
    assert result.flops == count(definition, (2, 5), (2, 4))
