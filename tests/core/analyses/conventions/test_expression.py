"""Expressions compute what they spell, and anything but arithmetic is refused before it can run."""

from __future__ import annotations

import pickle
import time

import pytest

from costcore.analyses.conventions.convention import MAX_LENGTH, MAX_NODES, MOST_BITS, ConventionError, Expression
from costcore.errors import CostError

VALUES = {"x": 6, "y": 4, "flag": True, "mode": "linear", "zero": 0}
FUNCTIONS = {"last": 1, "shape": 2, "taps": 0}


def value(text):
    functions = {"last": lambda operand: VALUES[operand], "shape": lambda operand, axis: axis, "taps": lambda: 9}
    return Expression(text, VALUES, FUNCTIONS)(lambda name: {**VALUES, **functions}[name])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7", 7),
        ("x + y", 10),
        ("x - y", 2),
        ("x * y", 24),
        ("x // y", 1),
        ("x % y", 2),
        ("-x", -6),
        ("2 * (x + y)", 20),
        ("2 * x + y", 16),
        ("taps() * y", 36),
        ("x if flag else y", 6),
        ("x if not flag else y", 4),
        ("x if mode == 'linear' else y", 6),
        ("x if mode != 'linear' else y", 4),
        ("1 if x < y else 2 if x <= 6 else 3", 2),
        ("1 if x > y and y >= 4 else 0", 1),
        ("1 if x < y or zero else 0", 0),
        ("x * (3 if flag else 1) + True", 19),
        ("  x\n +  y ", 10),
    ],
)
def test_arithmetic(text, expected):
    assert value(text) == expected


def test_functions_take_operands_by_name():
    assert value("last(x)") == 6
    assert value("shape(w, -1)") == -1


def test_only_the_chosen_branch_is_computed():
    def lookup(name):
        assert name != "y", "the other branch was computed"
        return VALUES[name]

    assert Expression("x if flag else y", VALUES, {})(lookup) == 6


def test_the_names_of_an_expression_are_known():
    expression = Expression("x if flag else last(w)", VALUES, FUNCTIONS)
    assert expression.names == {"x", "flag", "last"}
    assert expression == Expression(" x if flag  else last(w)", VALUES, FUNCTIONS)
    assert hash(expression) == hash(Expression("x if flag else last(w)", VALUES, FUNCTIONS))
    assert repr(expression) == "Expression('x if flag else last(w)')"


@pytest.mark.parametrize(
    "text",
    [
        "x.real",
        "x[0]",
        "__import__('os')",
        "().__class__",
        "x ** y",
        "x / y",
        "x << y",
        "x @ y",
        "x & y",
        "~x",
        "+x",
        "lambda: x",
        "(x := 3)",
        "[x]",
        "(x, y)",
        "{x}",
        "{'a': x}",
        "[i for i in x]",
        "f'{x}'",
        "1.5 * x",
        "1j * x",
        "None",
        "...",
        "b'x'",
        "x < y < 3",
        "x is y",
        "x in y",
        "last(operand=x)",
        "last(*x)",
        "last.real(x)",
        "await_",
        "eval('x')",
        "exec",
        "open('x')",
        "shape(x.real, 0)",
    ],
)
def test_everything_else_is_refused_when_it_is_read(text):
    with pytest.raises(CostError):
        Expression(text, VALUES, FUNCTIONS)


@pytest.mark.parametrize("text", ["", "x +", "x y", "import os", "x = 3", "x; y", "\0", "(", "1" * 5000])
def test_what_is_not_an_expression_is_refused(text):
    with pytest.raises(CostError):
        Expression(text, VALUES, FUNCTIONS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x + yy", r"'x \+ yy' contains an unknown name 'yy'"),
        ("lost(x)", "unknown function 'lost'"),
        ("last(x, y)", r"passes 2 arguments to last\(\) \(expected 1\)"),
        ("taps(x)", r"passes 1 arguments to taps\(\) \(expected 0\)"),
        ("x ** y", r"'x \*\* y' contains 'x \*\* y', which rules cannot use"),
        ("x +", "'x \\+' is not an expression"),
    ],
)
def test_errors_show_the_expression_and_the_reason(text, message):
    with pytest.raises(CostError, match=message):
        Expression(text, VALUES, FUNCTIONS)


def test_long_and_deep_expressions_are_refused_in_no_time():
    start = time.process_time()
    for text in ("x + " * MAX_LENGTH + "x", "(" * 240 + "x" + ")" * 240, "-" * 400 + "x", "not " * 100 + "x"):
        with pytest.raises(CostError):
            Expression(text, VALUES, FUNCTIONS)
    assert time.process_time() - start < 1


def test_the_largest_expression_is_computed():
    terms = (MAX_NODES - 20) // 6
    assert value(" + ".join(["x * 2"] * terms)) == 12 * terms


def test_large_numbers_stay_exact():
    assert value("9007199254740993 * 9007199254740993") == 9007199254740993**2


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("'ab' * 400000000 * 2", "'ab' is not a number"),
        ("x * mode", "'linear' is not a number"),
        ("-'a'", "bad operand type"),
        ("'a' < x", "not supported between"),
        ("'a'", "it is 'a', not a number"),
        ("x // zero", "integer division or modulo by zero"),
        ("x % zero", "by zero"),
        ("last('none')", "none"),
        ("9" * 450 + " * big" * 8, "it has more than 8192 bits"),
    ],
)
def test_what_has_no_value_is_an_error_of_the_rule(text, problem):
    """The quantity ``big`` has 400 digits; 450 + 8 * 400 = 3650 digits are 12125 bits."""
    values = {**VALUES, "big": 10**400, "last": VALUES.__getitem__}
    expression = Expression(text, [*values], FUNCTIONS, "mine.toml: count 1, conv")
    for each in (expression, pickle.loads(pickle.dumps(expression))):
        with pytest.raises(ConventionError, match=r"^mine\.toml: count 1, conv: .* cannot be computed: ") as caught:
            each(values.__getitem__)
        assert problem in str(caught.value)


def test_expressions_of_the_most_nodes_and_characters_are_accepted():
    """The expression, n names each with its use, and n - 1 sums each with its operator; a number has no use."""
    assert MAX_NODES == 1 + 2 * 38 + 2 * 37 - 1
    assert value("+".join(["1", *["x"] * 37])) == 1 + 37 * 6
    with pytest.raises(ConventionError, match="is too long"):
        value("+".join(["x"] * 38))
    assert value("x" + " " * (MAX_LENGTH - 2) + " ") == 6
    with pytest.raises(ConventionError, match=f"has {MAX_LENGTH + 1} characters"):
        value("x" + " " * MAX_LENGTH)


def test_values_have_a_bound():
    def of(number):
        return Expression("x", {"x"}, {})(lambda _: number)

    assert of((1 << MOST_BITS) - 1) == (1 << MOST_BITS) - 1
    with pytest.raises(ConventionError, match=f"it has more than {MOST_BITS} bits"):
        of(1 << MOST_BITS)


def test_bounds_are_those_that_are_documented():
    assert (MAX_LENGTH, MAX_NODES, MOST_BITS) == (500, 150, 8192)
