"""Arithmetic on dimensions, which are integers or expressions of symbols."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy

from costcore import estimate
from costcore.ir import as_dim, ceil_div, ceil_log2, gcd, is_symbolic, maximum, minimum
from costcore.numbers import (
    MAX_TERMS,
    Evaluation,
    as_text,
    degree,
    differ,
    expanded,
    expanded_sum,
    floor_div,
    is_negative,
    magnitude,
    quotient,
    share,
    symbol_of,
    symbols_of,
    unique_solution,
    with_ceilings,
)

n, m = sympy.symbols("n m", integer=True, positive=True)


@pytest.mark.parametrize(
    ("amounts", "expected"),
    [([], 0), ([1, 2, 3], 6), ([n, 2, n, m, 3, n], 3 * n + m + 5), ([n, 1, -n], 1), ([n * m, 2 * n * m], 3 * n * m)],
)
def test_sums_of_many_amounts(amounts, expected):
    assert expanded_sum(amounts) == expanded_sum(iter(amounts)) == expected
    assert isinstance(expanded_sum(amounts), int) == isinstance(expected, int)


@pytest.mark.parametrize(
    ("a", "b", "different"),
    [
        (3, 3, False),
        (3, 4, True),
        (n, n, False),
        (n, m, True),
        (n, 3, True),
        (3, n, True),
        (n * (m + 1), n * m + n, False),
        (n * (m + 1), n * m + 1, True),
    ],
)
def test_expressions_are_equal_if_their_expansions_are(a, b, different):
    assert differ(a, b) is different


def test_expressions_are_ranked_with_64_for_every_symbol():
    assert [magnitude(d) for d in (5, n, 2 * n + m, n * m)] == [5, 64, 192, 4096]
    assert magnitude(1 / (n - 64)) == 0


@pytest.mark.parametrize(
    ("part", "whole", "expected"),
    [
        (0, 0, 0.0),
        (0, n, 0.0),
        (1, 4, 0.25),
        (3, 0, 0.0),
        (2 * n, 8 * n, 0.25),
        (n + m, 2 * n + 2 * m, 0.5),
        (n + m, 2 * n + 3 * m, None),
        (n, n + m, None),
        (3, n, None),
        (n, 3, None),
    ],
)
def test_shares_of_numbers_and_of_expressions(part, whole, expected):
    assert share(part, whole) == expected


def test_common_divisors_of_numbers_and_of_expressions():
    assert (gcd(12, 18), gcd(7, 3), gcd(n, n)) == (6, 1, n)
    unevaluated = gcd(n, m)
    assert str(unevaluated) == "gcd(n, m)"
    assert unevaluated.subs({n: 12, m: 18}) == 6
    assert gcd(n, 8).subs(n, 12) == gcd(8, n).subs(n, 12) == 4
    assert unevaluated.is_integer
    assert unevaluated.is_positive


def test_integers_of_other_libraries_become_ints():
    for value in (np.int64(7), np.uint8(7), sympy.Integer(7)):
        assert (as_dim(value), type(as_dim(value))) == (7, int)
    assert as_dim(n + 1) == n + 1
    with pytest.raises(TypeError, match=r"n \+ 1/2 is not an integer expression"):
        as_dim(n + sympy.Rational(1, 2))
    with pytest.raises(TypeError, match=r"got 2\.0, float\)"):
        as_dim(2.0)


def test_symbolic_values_are_recognized_by_their_type():
    class Number:
        def __init__(self):
            self.free_symbols = ()

    assert [is_symbolic(value) for value in (n, n + 1, sympy.Integer(3), 3, 2.5, "n", Number())] == [True] * 3 + [
        False
    ] * 4


def test_helpers_agree_on_ints_and_symbols():
    for value in range(1, 20):
        assert minimum(n, 7).subs(n, value) == minimum(value, 7) == min(value, 7)
        assert maximum(n, 7).subs(n, value) == maximum(value, 7) == max(value, 7)
        assert ceil_div(n, 4).subs(n, value) == ceil_div(value, 4) == -(-value // 4)
        assert ceil_div(40, n).subs(n, value) == -(-40 // value)
        assert floor_div(n, m).subs({n: 40, m: value}) == 40 // value
        assert floor_div(n, -3).subs(n, value) == value // -3
        assert ceil_log2(n).subs(n, value) == ceil_log2(value)
    assert [ceil_log2(v) for v in (0, 1, 2, 3, 4, 5, 8, 9, 1024, 1025)] == [0, 0, 1, 2, 2, 3, 3, 4, 10, 11]


def test_quotients_of_symbols_are_exact_if_factors_cancel():
    assert quotient(7, 2) == 3
    assert quotient(6 * n * m, 2 * m) == 3 * n
    assert quotient(n + 1, 1) == n + 1
    assert quotient(n, 2).subs(n, 7) == 3


def test_the_degree_is_that_of_the_longest_product():
    assert [degree(d) for d in (5, sympy.Integer(5), n, n * m, n**3 * m + n, (n + m) ** 2 // 3)] == [0, 0, 1, 2, 4, 2]
    assert degree(sympy.Max(n, 2 * n * m)) == 2
    assert degree(2**n) > 16


H, W = symbol_of("h"), symbol_of("w")


@pytest.mark.parametrize(
    ("ratio", "text"), [(3 / H, "3/h"), (-2 / H, "-2/h"), (5 / (H * W), "5/(h*w)"), (3 / H**2, "3/h**2")]
)
def test_a_number_over_a_size_is_a_fraction(ratio, text):
    assert as_text(ratio) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (floor_div(H + 31, 32) * W, "w*ceiling(h/32)"),
        (floor_div(3 * H + 1, 2), "ceiling(3*h/2)"),
        (floor_div(H * W + 3, 4) ** 2, "ceiling(h*w/4)**2"),
        (floor_div(floor_div(H + 1, 2) * W + 2, 3), "ceiling(w*ceiling(h/2)/3)"),
        (ceil_div(H, 2), "ceiling(h/2)"),
        (5 * W - 3 * ceil_div(H, 2), "5*w - 3*ceiling(h/2)"),
        (floor_div(H + 30, 32), "floor(h/32 + 15/16)"),
        (floor_div(H + 3, 2), "floor(h/2 + 3/2)"),
        (floor_div(H, 2), "floor(h/2)"),
        (7, "7"),
    ],
)
def test_quotients_that_are_rounded_up(size, text):
    assert as_text(size) == text
    for h in (1, 2, 31, 32, 33, 64):
        sizes = {H: h, W: 5}
        assert with_ceilings(size) == size == 7 or with_ceilings(size).subs(sizes) == size.subs(sizes)


def test_the_largest_of_many_sizes_is_written_without_comparing_them_again(monkeypatch):
    """Two hundred terms are 19,900 pairs, each of which takes sympy a few milliseconds."""
    from sympy import Max

    terms = [k * ceil_div(H, 2) * W - 7 * k * k * W for k in range(1, 5)]
    largest = Max(*terms, evaluate=False)
    with monkeypatch.context() as patch:
        patch.setattr(Max, "_is_connected", lambda *_: pytest.fail("two terms are compared"))
        found = with_ceilings(largest)
    assert "ceiling(h/2)" in str(found) and "floor" not in str(found)
    assert found.subs({H: 33, W: 5}) == max(k * 17 * 5 - 35 * k * k for k in range(1, 5))


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


k = sympy.Symbol("k", integer=True, positive=True)


@pytest.mark.parametrize(
    ("amounts", "text"),
    [
        ([14336 * n * m, 16 * n * (32 * m - 1), 176 * n], "14848*m*n + 160*n"),
        ([n * (m + 1), 2 * n * (m + 1)], "3*m*n + 3*n"),
        ([(n + 1) ** 2, -1], "n**2 + 2*n"),
        ([2 * n * (m * (k + 1) - 1)], "2*k*m*n + 2*m*n - 2*n"),
        ([sympy.Max(n * (m + 1), k) * (n + 1)], "n*Max(k, n*(m + 1)) + Max(k, n*(m + 1))"),
        ([sympy.log(8 * n, 2) * 3], "3*log(8*n)/log(2)"),
    ],
)
def test_sums_are_expanded(amounts, text):
    assert str(expanded_sum(amounts)) == text


def test_expressions_with_many_terms_are_not_expanded():
    assert MAX_TERMS == 2**6
    six, seven = ((n + 1) ** power * m for power in (6, 7))  # as products of sums of two
    assert expanded(six) == sympy.expand(six) != six
    assert expanded(seven) is seven
    assert expanded((n + m) ** (1 << 40)) == (n + m) ** (1 << 40)
    assert (expanded(3), expanded(n), expanded(1 / (n + 1))) == (3, n, 1 / (n + 1))


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (640 * n, 64 * n * m, (m, 10)),
        (12, 6 * n, (n, 2)),
        (n * m + n, 11 * n, (m, 10)),
        (n * n, 49, (n, 7)),
        (n * (n - 3), 4, (n, 4)),  # (n - 4) * (n + 1)
        (n * (5 - n), 6, None),  # 2 and 3
        (n * m, 6, None),
        (2 * n, 7, None),
        (4 * n + 8, 4, None),  # -1
        (sympy.Max(n, 3), 5, None),
        (n, 0, None),
    ],
)
def test_the_only_size_for_which_two_expressions_are_equal(a, b, expected):
    assert unique_solution(a, b) == unique_solution(sympy.sympify(a), b) == expected


def test_expressions_that_are_negative_for_all_sizes():
    assert [is_negative(d) for d in (-1, -8 * n, -n - 1, -n * m - 3 * m, -(n**2))] == [True] * 5
    assert not any(map(is_negative, (0, 1, n, n - 100, n - m, -2 * n * (1 - m), sympy.Integer(0))))
    assert not is_negative(-sympy.Max(n, 1) * (1 - sympy.Min(n, 2)))


def test_a_size_rounded_up_is_not_negative():
    """It is written as the negative of a negative size rounded down."""
    up, more = ceil_div(n, 2), ceil_div(n + m, 3)
    assert [str(up), int(up.subs(n, 5))] == ["-floor(-n/2)", 3]
    assert not any(map(is_negative, (up, 24 * up, m * up, up**2, up + 5, more, up * more, up - n, ceil_log2(n))))
    assert [is_negative(-d) for d in (up, 24 * up, m * up, up**2, up + 5)] == [True] * 5
    assert not is_negative(-(n // 2)), "it is 0 for n = 1"
    assert is_negative(-(n // 2) - 1)


def test_equal_totals_have_the_same_text():
    onnx = pytest.importorskip("onnx")
    inputs = [onnx.helper.make_tensor_value_info("x", 1, ("n", "m", 4))]
    nodes = [onnx.helper.make_node("ReduceSum", ["x", "axes"], ["y"])]
    axes = onnx.helper.make_tensor("axes", 7, (1,), [1])
    graph = onnx.helper.make_graph(nodes, "g", inputs, [onnx.helper.make_tensor_value_info("y", 1, None)], [axes])
    report = estimate(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)]))
    assert str(report.total_report["flops"]) == "4*m*n - 4*n"
    assert report.layer_report["ReduceSum-1"]["flops%"] == 100


NAMES = sympy.symbols("n m k batch a b", integer=True, positive=True)


def expression(depth: int, choose: random.Random) -> Any:
    """A random size."""
    if depth == 0:
        return choose.choice([*NAMES, sympy.Integer(choose.randrange(-4, 9))])
    x, y = expression(depth - 1, choose), expression(depth - 1, choose)
    made: list[Callable[[], Any]] = [
        lambda: x + y,
        lambda: x * y,
        lambda: x - y,
        lambda: ceil_div(x, 3),
        lambda: floor_div(x + y, 2),
        lambda: maximum(x, y),
        lambda: 3 * minimum(x, y),
        lambda: x**2,
        lambda: (x + y) % 5,
    ]
    return sympy.sympify(choose.choice(made)())


def test_expressions_are_written_as_sympy_writes_them():
    choose = random.Random(1)
    for _ in range(400):
        found = expression(choose.randrange(1, 5), choose)
        assert as_text(found) == str(with_ceilings(found))
        assert as_text(found.expand()) == str(with_ceilings(found.expand()))
