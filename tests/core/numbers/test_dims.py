"""Arithmetic on dimensions, and the tables and containers of the intermediate representation."""

from __future__ import annotations

import re
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
import sympy

from costcore.ir import BITS, Layer, Operations, Tensor, as_dim, covers, gcd, is_symbolic, layout_operator
from costcore.numbers import HIGHEST_DEGREE, degree, differ, expanded_sum, magnitude, share

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


def test_powers_without_a_bound_have_a_degree_beyond_the_highest():
    assert [degree(d) for d in (n**2 * m**3, 1 / n, n**3 + n * m)] == [5, 1, 3]
    assert min(degree(n**m), degree(sympy.sqrt(n))) > HIGHEST_DEGREE


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


@pytest.mark.parametrize("dtype", BITS)
def test_the_name_of_a_dtype_has_its_bits(dtype):
    digits = re.search(r"\d+", dtype)
    assert BITS[dtype] == (int(digits[0]) if digits else {"bool": 8, "string": 0}[dtype])


def test_bytes_of_some_elements():
    assert [Tensor((), "int3").bytes_of(count) for count in (0, 1, 2, 3, 8)] == [0, 1, 1, 2, 3]
    assert Tensor((9,), "float64").bytes_of(3) == 24


def layer(**attrs) -> Layer:
    inputs = {"x": Tensor((n, 3), "float16"), "w": Tensor((m,), "int8", "param"), "s": Tensor((2,), role="state")}
    return Layer("op", inputs, [Tensor((n, m), "int64"), Tensor(())], attrs)


def test_dimensions_and_attributes_are_changed_together():
    changed = layer(kernel=(n, (m, 1)), mode="linear").map_dims(lambda d: {n: 5, m: 7}.get(d, d))
    assert changed == Layer(
        "op",
        {"x": Tensor((5, 3), "float16"), "w": Tensor((7,), "int8", "param"), "s": Tensor((2,), role="state")},
        [Tensor((5, 7), "int64"), Tensor(())],
        {"kernel": (5, (7, 1)), "mode": "linear"},
    )


def test_the_order_of_attributes_makes_no_difference():
    one, other = layer(a=1, b=(2, 3)), layer(b=(2, 3), a=1)
    assert one == other
    assert len({one, other, layer(a=1, b=(2, 4)), layer(a=1)}) == 3


@pytest.mark.parametrize(
    "change",
    [
        lambda attrs: attrs.__setitem__("a", 2),
        lambda attrs: attrs.__delitem__("a"),
        lambda attrs: attrs.__ior__({"b": 1}),
        lambda attrs: attrs.update(b=1),
        lambda attrs: attrs.setdefault("b", 1),
        lambda attrs: attrs.pop("a"),
        lambda attrs: attrs.popitem(),
        lambda attrs: attrs.clear(),
    ],
)
def test_attributes_cannot_be_changed(change):
    attrs = layer(a=1).attrs
    with pytest.raises(TypeError, match="create another layer"):
        change(attrs)
    assert attrs == {"a": 1}


@pytest.mark.parametrize(
    ("shared", "field"),
    [(Tensor((2,)), "shape"), (layer(), "op"), (Operations(), "fma")],
    ids=["tensor", "layer", "count"],
)
def test_shared_objects_cannot_be_changed(shared, field):
    with pytest.raises(FrozenInstanceError, match=field):
        setattr(shared, field, 1)
    assert not hasattr(shared, "__dict__"), "there are many of them"


def test_operands_by_name():
    found = layer()
    assert found["w"] is found.get("w")
    assert ("w" in found, "b" in found, found.get("b")) == (True, False, None)
    assert found.out.shape == (n, m)
    assert (found.read, found.written) == (2 * 3 * n + m + 8, 8 * n * m + 4)
    assert found.n_params == m


def test_operations_add_up_class_by_class():
    one, other = Operations(1, 2, 3, 4, 5, 6), Operations(60, 50, 40, 30, 20, 10)
    assert one + other == Operations(61, 52, 43, 34, 25, 16)
    assert 10 * one == one * 10 == Operations(10, 20, 30, 40, 50, 60)
    with pytest.raises(TypeError, match="unsupported operand"):
        one + 3


def test_a_calculator_of_several_operators_is_marked():
    table = {"b": "the second", "c": "the third"}
    marked = covers("a", table)(layout_operator(lambda layer: None))
    assert marked.ops == ("a", "b", "c")
    assert marked.table == table
    assert marked.is_layout is True
