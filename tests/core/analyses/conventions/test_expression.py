"""Expressions compute what they spell, and anything but arithmetic is refused before it can run."""

from __future__ import annotations

import time

import pytest

from costcore import CostError, Layer, Tensor
from tests.core.analyses.conventions.written import amount

LAYER = Layer("op", {"x": Tensor((2, 3)), "w": Tensor((4,))}, [Tensor(())], {"training": True, "mode": "linear"})
"""x is 6, w is 4, y is 1, mask is 0."""
LENGTH, BITS = 500, 8192


def value(text):
    return amount(text, LAYER)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7", 7),
        ("x + w", 10),
        ("x - w", 2),
        ("x * w", 24),
        ("x // w", 1),
        ("x % w", 2),
        ("-(-x)", 6),
        ("2 * (x + w)", 20),
        ("2 * x + w", 16),
        ("square_kernel() * w", 4),
        ("x if training else w", 6),
        ("x if not training else w", 4),
        ("x if mode == 'linear' else w", 6),
        ("x if mode != 'linear' else w", 4),
        ("1 if x < w else 2 if x <= 6 else 3", 2),
        ("1 if x > w and w >= 4 else 0", 1),
        ("1 if x < w or mask else 0", 0),
        ("x * (3 if training else 1) + True", 19),
        ("  x +  w ", 10),
        ("last(x)", 3),
        ("shape(x, -2)", 2),
        ("x if training else 1 // mask", 6),  # only the chosen branch is computed
        ("9007199254740993 * 9007199254740993", 9007199254740993**2),
        (" + ".join(["x * 2"] * 21), 12 * 21),
        ("+".join(["1", *["x"] * 37]), 1 + 37 * 6),  # 150 nodes
        ("x" + " " * (LENGTH - 1), 6),
    ],
)
def test_arithmetic(text, expected):
    assert value(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("x.real", "x[0]", "__import__('os')", "().__class__", "x ** w", "x / w", "x << w", "x @ w", "x & w", "~x"),
        *("+x", "lambda: x", "(x := 3)", "[x]", "(x, w)", "{x}", "{'a': x}", "[i for i in x]", "f'{x}'", "1.5 * x"),
        *("1j * x", "None", "...", "b'x'", "x < w < 3", "x is w", "x in w", "last(operand=x)", "last(*x)"),
        *("last.real(x)", "await_", "eval('x')", "exec", "open('x')", "shape(x.real, 0)"),
        *("", "x +", "x w", "import os", "x = 3", "x; w", "\0", "(", "1" * 5000),
        *("+".join(["x"] * 38), "x" + " " * LENGTH),
    ],
)
def test_everything_else_is_refused_when_it_is_read(text):
    with pytest.raises(CostError):
        value(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x + yy", r"'x \+ yy' contains an unknown name 'yy'"),
        ("lost(x)", "unknown function 'lost'"),
        ("last(x, w)", r"passes 2 arguments to last\(\) \(expected 1\)"),
        ("windows(x)", r"passes 1 arguments to windows\(\) \(expected 0\)"),
        ("x ** w", r"'x \*\* w' contains 'x \*\* w', which rules cannot use"),
        ("x +", "'x \\+' is not an expression"),
        ("+".join(["x"] * 38), "is too long"),
        ("x" + " " * LENGTH, f"has {LENGTH + 1} characters"),
        ("'ab' * 400000000 * 2", "'ab' is not a number"),
        ("x * mode", "'linear' is not a number"),
        ("-'a'", "bad operand type"),
        ("'a' < x", "not supported between"),
        ("'a'", "it is 'a', not a number"),
        ("x // mask", "integer division or modulo by zero"),
        ("x % mask", "by zero"),
        ("9" * 450 + " * 9" + "9" * 40, None),
    ],
)
def test_errors_show_the_rule_and_the_reason(text, message):
    if message is None:
        assert value(text) == int("9" * 450) * int("9" * 41)
        return
    with pytest.raises(CostError, match=message) as caught:
        value(text)
    assert "mine.toml: count 1, op" in str(caught.value)


def test_values_have_a_bound():
    """A tensor of 2 ** 240 elements, 34 times: 8,160 bits, and 35 times: 8,400."""
    layer = Layer("op", {"x": Tensor((2**120, 2**120))}, [])
    assert amount(" * ".join(["x"] * 34), layer) == 2 ** (240 * 34)
    with pytest.raises(CostError, match=f"it has more than {BITS} bits"):
        amount(" * ".join(["x"] * 35), layer)


def test_long_and_deep_expressions_are_refused_in_no_time():
    start = time.process_time()
    for text in ("x + " * LENGTH + "x", "(" * 240 + "x" + ")" * 240, "-" * 400 + "x", "not " * 100 + "x"):
        with pytest.raises(CostError):
            value(text)
    assert time.process_time() - start < 1
