"""Shapes of results and elements of small values that follow from sizes, by hand: of numbers and of symbols alike."""

from __future__ import annotations

import operator
from fractions import Fraction
from typing import Any

import pytest

from costcore.graphs.graph import (
    LARGE,
    MOST_ELEMENTS,
    as_integer,
    broadcast,
    einsum,
    expanded,
    gathered,
    joined,
    matmul,
    over_elements,
    padded,
    quotient,
    reduced,
    reshaped,
    same_padding,
    sliced,
    squeezed,
    times,
    window,
)
from costcore.numbers import ceil_div, symbol_of

N, M = (8, 12), (7, 10)
"""A pair is a size with these two values, or a symbol."""

n, m = symbol_of("n"), symbol_of("m")

CASES = [
    (broadcast, [], []),
    (broadcast, [[3, 1], [4]], [3, 4]),
    (broadcast, [[N, 1], [1, M], [1]], [N, M]),
    (window, [N, 3], (6, 10)),
    (window, [N, 3, 0], (6, 10)),
    (window, [N, 3, 2], (3, 5)),
    (window, [N, 3, 1, 2], (4, 8)),  # 3 dilated by 2 are as 5
    (window, [N, 3, 2, 1, 2], (4, 6)),  # (8 + 2 - 3) // 2 + 1
    (window, [M, 2, 2, 1, 0, ceil_div], (4, 5)),  # ceil(5 / 2) + 1, 8 / 2 + 1
    (same_padding, [N, 3], 2),
    (same_padding, [M, 3, 2], (2, 1)),  # 3 * 2 + 3 - 7, 4 * 2 + 3 - 10
    (same_padding, [N, 1, 2], 0),
    (same_padding, [N, 3, 1, 2], 4),
    (same_padding, [N, 2, 1, 3], 3),
    (matmul, [[2, 3], [3, 4]], [2, 4]),
    (matmul, [[3], [3, 4]], [4]),
    (matmul, [[2, 3], [3]], [2]),
    (matmul, [[3], [3]], []),
    (matmul, [[5, 1, 2, 3], [N, 3, 4]], [5, N, 2, 4]),
    (matmul, [[N, 3, 2], [5, 3], True, True], [N, 2, 5]),
    (reduced, [[N, 3, M], None, False], []),
    (reduced, [[N, 3, M], None, True], [1, 1, 1]),
    (reduced, [[N, 3, M], [-1], True], [N, 3, 1]),
    (reduced, [[N, 3, M], [0, -1], False], [3]),
    (reduced, [[], [0], False], []),
    (reshaped, [[N, 6], [0, 3, -1]], [N, 3, 2]),
    (reshaped, [[N, 6], [-1, 0]], [N, 6]),
    (reshaped, [[6], [6, 0]], [6, 0]),
    (reshaped, [[0, 6], [0, 5], False], [0, 5]),
    (reshaped, [[4, 6], [0, 1], False], [0, 1]),
    (reshaped, [[N, M], [M, -1]], [M, N]),
    (reshaped, [[N, 4], [-1, 3]], [(10, 16), 3]),  # 32 // 3, 48 // 3
    (reshaped, [[0, N], [0, -1]], [0, 0]),
    (reshaped, [[0, 5], [0, -1]], [0, 0]),
    (reshaped, [[2, 3], [-1, -1]], [-1, -1]),
    (joined, [[[N, 3], [M, 3]], 0], [(15, 22), 3]),
    (joined, [[[2, 3, 4], [2, N, 4]], -2], [2, (11, 15), 4]),
    (joined, [[[1, 2], [N, 3]], 1], [N, 5]),
    (expanded, [[N, M], [0, -1]], [1, N, M, 1]),
    (expanded, [[N, M], [2, 1]], [N, 1, 1, M]),
    (squeezed, [[N, 1, 1], None], [N]),
    (squeezed, [[N, 1, 1], [-1]], [N, 1]),
    (squeezed, [[], [0]], []),
    (gathered, [[N, M, 4], [2, 3]], [2, 3, M, 4]),
    (gathered, [[N, M, 4], [2, 3], -1], [N, M, 2, 3]),
    (gathered, [[N], [2], -1], [2]),
    (gathered, [[N, M, 4], [], 1], [N, 4]),
    (gathered, [[N, M, 4], [N, 5], 1, 1], [N, 5, 4]),
    (gathered, [[N, M, 4], [N, 5], 1, -1], [N, 5, 4]),
    (gathered, [[], [], 0, 1], []),
    (sliced, [N, None, None], N),
    (sliced, [N, None, None, 0], N),
    (sliced, [N, 1, None, 2], (4, 6)),  # 1, 3, 5, 7
    (sliced, [N, -3, None], 3),
    (sliced, [N, None, -3], (5, 9)),
    (sliced, [N, 2, LARGE], (6, 10)),
    (sliced, [N, 0, 5, 2], 3),
    (sliced, [N, M, None], (1, 2)),
    (sliced, [N, None, M], M),
    (sliced, [11, 2, M], (5, 8)),
    (sliced, [N, None, None, -1], N),
    (sliced, [N, -1, -LARGE, -3], (3, 4)),  # 7, 4, 1; 11, 8, 5, 2
    (sliced, [N, LARGE, None, -3], (3, 4)),
    (sliced, [N, None, 1, -3], (2, 4)),  # 7, 4; 11, 8, 5, 2
    (sliced, [N, -2, -LARGE, -3], (3, 4)),  # 6, 3, 0; 10, 7, 4, 1
    (sliced, [N, 5, None, -2], 3),
    (sliced, [N, 5, -LARGE, -2], 3),
    (sliced, [N, -1, -5, -2], 2),
    (sliced, [5, 2, 9], 3),
    (sliced, [5, 4, 2], 0),
    (sliced, [5, 9, None, -1], 5),
    (padded, [[N, 3], [1, 0], [2, 1]], [(11, 15), 4]),
    (einsum, ["ij,jk->ik", [[N, 3], [3, M]]], [N, M]),
    (einsum, ["...ij, ...jk -> ...ik", [[N, 1, 2, 3], [5, 3, 4]]], [N, 5, 2, 4]),
    (einsum, ["i...j->j...", [[2, N, M, 5]]], [5, N, M]),
    (einsum, ["i...->i", [[2, 3]]], [2]),
    (einsum, ["i...->...i", [[2]]], [2]),
    (einsum, ["ij->", [[2, 3]]], []),
    (einsum, ["ij,jk", [[2, 3], [3, 4]]], None),
    (einsum, ["ij->i", [[2, 3], [3, 4]]], None),
    (einsum, ["ijk->i", [[2, 3]]], None),
    (einsum, ["i->i", [[2, 3]]], None),
    (einsum, ["i...j->i", [[2]]], None),
    (einsum, ["ij->k", [[2, 3]]], None),
    (over_elements, [operator.add, [N, 2], [3]], [(11, 15), 5]),
    (over_elements, [operator.sub, [1], [N, 2]], [(-7, -11), -1]),
    (over_elements, [operator.add, [1, 2], [1, 2, 3]], None),
    (over_elements, [operator.neg, []], []),
    (quotient, [M, 2, True], (3, 5)),
    (quotient, [-7, 2, True], -3),
    (quotient, [7, -2, True], -3),
    (quotient, [-7, -2, True], 3),
    (quotient, [7, 2, False], Fraction(7, 2)),
    (quotient, [M, 2, False], (Fraction(7, 2), 5)),
    (quotient, [12, N, False], (Fraction(3, 2), 1)),
    (times, [M, Fraction(1, 2)], (Fraction(7, 2), 5)),
    (times, [Fraction(3, 2), N], (12, 18)),
    (times, [6, 0.5], 3),
    (times, [3, 0.5], Fraction(3, 2)),
]


def of(item: Any, size: Any) -> Any:
    """Return arguments with a size for each pair; shapes are tuples."""
    if isinstance(item, tuple):
        return size(item)
    return tuple(of(each, size) for each in item) if isinstance(item, list) else item


def with_values(item: Any, i: int) -> Any:
    """Return a result with values for the symbols."""
    if isinstance(item, tuple):
        return tuple(with_values(each, i) for each in item)
    return item.subs({n: N[i], m: M[i]}) if hasattr(item, "subs") else item


@pytest.mark.parametrize(("function", "args", "expected"), CASES, ids=lambda each: getattr(each, "__name__", ""))
def test_what_follows_from_sizes(function, args, expected):
    for i in range(2):
        wanted = of(expected, lambda pair, i=i: pair[i])
        assert function(*(of(each, lambda pair, i=i: pair[i]) for each in args)) == wanted
        found = with_values(function(*(of(each, lambda pair: n if pair == N else m) for each in args)), i)
        assert (found is None) == (wanted is None)
        if isinstance(wanted, Fraction):
            assert found * wanted.denominator == wanted.numerator
        else:
            assert found == wanted


def test_symbols_that_cancel():
    assert quotient(n * m, n, are_integers=True) == m
    assert sliced(n, None, n + 1) == sliced(n, 0, n) == n
    assert sliced(n, None, m) == sliced(9, None, m) == m  # it is assumed that there are as many
    assert sliced(n, 1, n - 2, 2) == ceil_div(n - 3, 2)
    assert sliced(n, -n, None) == n
    assert broadcast([n], [5]) == broadcast([5], [n]) == (5,)
    assert as_integer(n / 2).subs(n, 7) == 3
    assert as_integer(2 * n / 2) == n


def test_numbers_are_integers_where_they_are_whole():
    found = quotient(6, 2, are_integers=False), times(6, 0.5), as_integer(-2.5), times(2, 3)
    assert found == (3, 3, -2, 6)
    assert {*map(type, found)} == {int}


def test_a_quotient_by_zero():
    for a in (1, n):
        with pytest.raises(ZeroDivisionError):
            quotient(a, 0, are_integers=True)


def test_the_largest_number_of_elements():
    assert MOST_ELEMENTS == 1024  # as many as constants are read with
    assert over_elements(operator.neg, [1] * 1024) == (-1,) * 1024
    assert over_elements(operator.neg, [1] * 1025) is None
