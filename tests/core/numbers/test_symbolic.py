"""Symbolic totals: expansion of short expressions, and what follows from their terms."""

from __future__ import annotations

import pytest
import sympy

from costcore import estimate
from costcore.ir import ceil_div, ceil_log2
from costcore.numbers import MAX_TERMS, expanded, expanded_sum, is_negative, share, unique_solution

n, m, k = sympy.symbols("n m k", integer=True, positive=True)


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


def test_a_share_of_an_equal_expression_in_another_form():
    assert share(n * (m + 1), 2 * n * m + 2 * n) == 0.5
    assert share(n * (m + 1), n * m + 2 * n) is None


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
