"""Values put into expressions: those of sympy, and exact where sympy has none."""

from __future__ import annotations

import pytest
import sympy

from costcore.ir import ceil_div, ceil_log2, gcd, maximum, minimum
from costcore.numbers import Evaluation, floor_div, symbols_of

n, m = sympy.symbols("n m", integer=True, positive=True)


@pytest.mark.parametrize(
    "expression",
    [
        3 * n * m - 2 * n + 7,
        (n + m) ** 3,
        ceil_div(n, 2) * m,
        n // m,
        (n - 5) % 4,
        abs(m - n),
        maximum(n, m) - minimum(n, 3),
        gcd(n, m),
        ceil_log2(n),
        sympy.Integer(4),
    ],
)
def test_values_are_those_of_sympy(expression):
    for values in ({n: 7, m: 4}, {n: 1, m: 12}, {n: 64, m: 64}):
        assert Evaluation(values)(expression) == expression.subs(values)
        assert sympy.sympify(Evaluation({n: values[n]})(expression)).subs(m, values[m]) == expression.subs(values)


def test_powers_of_two_are_exact():
    """3 is the smallest e with 2**e >= 5; a sort of one element compares nothing, though log(0) is infinite."""
    assert [Evaluation({n: k})(ceil_log2(n)) for k in (1, 2, 5, 8, 9)] == [0, 1, 3, 3, 4]
    assert Evaluation({n: 1})((n - 1) * ceil_log2(2 * n - 2)) == 0
    assert Evaluation({n: 2**80 + 1})(ceil_log2(n)) == 81


def test_values_that_are_no_integers():
    assert Evaluation({n: 3})(n / 2) == sympy.Rational(3, 2)
    with pytest.raises(ZeroDivisionError):
        Evaluation({n: 5})(1 / (n - 5))
    with pytest.raises(OverflowError, match="more than 131072 bits"):
        Evaluation({n: 1 << 60000})(n**3)


def test_a_hundred_symbols_and_deep_expressions_are_quick():
    names = sympy.symbols("a:100", integer=True, positive=True)
    assert Evaluation(dict.fromkeys(names, 2))(sum(names)) == 200
    deep = n
    for i in range(8):
        deep = maximum(deep + 1, names[i]) if i % 2 else -(-(deep + names[i]) // 3)
    assert Evaluation({}, default=5)(deep) > 0
    assert symbols_of([deep, 4]) == {n, *names[:8]}


def test_a_chain_of_divisions_is_one_division():
    assert floor_div(floor_div(n, 2), 2) == n // 4
    assert str(floor_div(floor_div(n + 1, 2) + 3, 2)) == "floor(n/4 + 7/4)"
    assert ceil_div(ceil_div(n, 2), 2) == ceil_div(n, 4)
    chain = n
    for _ in range(300):
        chain = floor_div(chain - 1, 2) + 1
    assert len(str(chain)) < 250
    for k in range(1, 70):
        halves = (((k - 1) // 2 + 1 - 1) // 2 + 1 - 1) // 2 + 1
        number = floor_div(floor_div(floor_div(n - 1, 2), 2), 2) + 1
        assert number.subs(n, k) == halves
    assert floor_div(floor_div(6 * n, 4), 3) == n // 2
    assert floor_div(n / m, 1) == sympy.floor(n / m), "a quotient of symbols is no integer"


def test_the_largest_of_many_symbols():
    names = sympy.symbols("a:20", integer=True, positive=True)
    largest = names[0]
    for name in names[1:]:
        largest = maximum(largest, name)
    assert Evaluation(dict(zip(names, range(1, 21), strict=True)))(largest) == 20
    assert maximum(largest, names[3]) == largest
