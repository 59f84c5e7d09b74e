"""The highest of symbolic sums, by hand."""

from __future__ import annotations

import pytest
import sympy

from costcore.analyses.memory.order import first_step_of, highest

n = sympy.Symbol("n", integer=True, positive=True)


@pytest.mark.parametrize(
    ("amounts", "expected"),
    [
        ([], 0),
        ([3, 9, 5], 9),
        ([n, 2 * n], 2 * n),  # 2 n - n = n
        ([2 * n, n], 2 * n),
        ([n + 3, n], n + 3),  # the difference is 3 at every n
        ([n, n**2], n**2),  # n^2 - n = (n - 1) n; with m = n - 1 it is m^2 + m
        ([n * (n + 1), n**2 + n], n**2 + n),  # equal, although they are written differently
    ],
)
def test_one_amount_is_the_highest_at_every_size(amounts, expected):
    assert sympy.expand(highest(amounts)) == expected
    assert not isinstance(highest(amounts), sympy.Max)


@pytest.mark.parametrize(
    "amounts",
    [
        [7, n],  # 7 > 1 at n = 1, 7 < 64 at n = 64
        # n^2 - 66 n + 128 = (n - 2) (n - 64) is 63, 0, 0 and > 0 at 1, 2, 64 and 4096, but -432 at 10
        [66 * n, n**2 + 128],
        [1, 1 + sympy.floor(8 / (n - 1))],  # has no value at n = 1
    ],
)
def test_amounts_that_cannot_be_compared_are_a_maximum(amounts):
    found = highest(amounts)
    assert isinstance(found, sympy.Max)
    assert set(found.args) == set(map(sympy.sympify, amounts))


def test_a_number_below_another_one_is_left_out_of_a_maximum():
    assert set(highest([3, 9, n]).args) == {9, n}


def test_the_first_step_at_the_peak():
    assert first_step_of([n, 2 * n, n, 2 * n], 2 * n) == 1
    assert first_step_of([1, n, 7], sympy.Max(7, n, evaluate=False)) == 1  # n is one of its terms
