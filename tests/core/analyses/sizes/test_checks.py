"""The ends of ranges, and the comparison of formulas with runs, of networks that run only at some sizes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from costcore.analyses.sizes.capture import Limits
from costcore.analyses.sizes.fitting import _verify_costs, ends_of
from costcore.errors import CostError
from costcore.ir import Cost
from costcore.numbers import symbol_of


class Runs:
    """A network without integers, which runs at some points, and the points at which it was tried."""

    def __init__(self, runs_at, is_loop=False):
        self.runs_at = runs_at
        self.tried = []
        self.trace = SimpleNamespace(run=SimpleNamespace(unfolded=() if is_loop else None))

    def at(self, point):
        self.tried.append(point)
        if not self.runs_at(*point):
            raise CostError(f"fails at {point}")

    def columns(self, points):
        for point in points:
            self.at(point)
        return []

    def forget(self, point):
        pass


def fit(*points):
    """Formulas whose axes run through the first of some points: up to 32 along each."""

    def axis(i):
        return SimpleNamespace(sizes=(16, 24, 32), point=lambda size: (*points[:i], size, *points[i + 1 :]))

    return SimpleNamespace(points=[], axes=[axis(i) for i in range(len(points))])


@pytest.mark.parametrize(
    ("least", "is_loop", "low"), [(1, False, 1), (3, False, 3), (4, False, 16), (5, True, 5), (6, True, 16)]
)
def test_formulas_may_hold_from_one_two_or_three_and_of_a_loop_up_to_five(least, is_loop, low):
    runs = Runs(lambda size: size >= least, is_loop)
    assert ends_of(runs, fit(16), [Limits(16, 64, 1, False)]) == [(low, 64)]
    last = 5 if is_loop else 3
    assert runs.tried == [(64,), *((size,) for size in range(1, min(least, last) + 1)), (low,) if low < 16 else (16,)]


def test_sizes_from_the_first_on_are_not_tried_again():
    runs = Runs(lambda size: size >= 2)
    assert ends_of(runs, fit(2), [Limits(2, 64, 1, False)]) == [(2, 64)]
    assert runs.tried == [(64,), (1,), (2,)]


def test_sizes_that_hold_alone_may_not_hold_together():
    runs = Runs(lambda a, b: a + b > 4)
    limits = [Limits(4, 64, 1, False), Limits(6, 64, 1, False)]
    assert ends_of(runs, fit(4, 6), limits) == [(4, 64), (6, 64)]  # 1 beside 6 runs, and 1 beside 4, but not 1 beside 1


@pytest.mark.parametrize(
    ("most", "is_stated", "high"),
    [(100, False, 100), (99, False, 50), (50, False, 50), (49, False, 32), (20, True, 100)],
)
def test_the_largest_size_is_halved_down_to_the_last_that_ran(most, is_stated, high):
    runs = Runs(lambda size: size <= max(most, 32))
    assert ends_of(runs, fit(16), [Limits(1, 100, 1, is_stated)]) == [(1, high)]


def test_costs_are_compared_at_a_point():
    """A call of 3 * n multiplications, one without a cost, and a free one that the run at n = 5 lacks."""
    n = symbol_of("n")
    costs = [Cost(3 * n, 4 * n, 8, {}), None, Cost(0, 0, 0, {})]
    records = [(i, SimpleNamespace(cost=c, call=SimpleNamespace(name=f"call-{i}"))) for i, c in enumerate(costs)]

    def compared(flops):
        amounts = [(flops, 20, 8, 0, 0), (), None]
        runs = SimpleNamespace(symbols=("n",), amounts_at=lambda point: amounts, text=lambda point: f"n={point[0]}")
        _verify_costs(runs, records, (5,))

    compared(15)
    with pytest.raises(CostError, match=r"call-0 has no formula: .*\(15, 20, 8, 0, 0\) at n=5, where it is \(16, "):
        compared(16)
