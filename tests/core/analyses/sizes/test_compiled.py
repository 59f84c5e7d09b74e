"""Formulas as functions of integers and arrays, and as text."""

from __future__ import annotations

import warnings

import numpy
import pytest
from sympy import Rational, floor

from costcore import CostWarning
from costcore.analyses.sizes.formulas import Formulas, latex
from costcore.ir import ceil_div, ceil_log2, gcd, maximum, minimum
from costcore.numbers import Evaluation, floor_div, symbol_of

B, S, H = map(symbol_of, ("batch", "seq", "h"))
NAMES = ("batch", "seq", "h")
FORMULAS = {
    "number": 7,
    "polynomial": 3 * B * S**2 - 2 * S + 5,
    "triangle": B * S * (S + 1) / 2,
    "rounded": B * floor_div(H + 31, 32) ** 2 * floor_div(S - 3, 4),
    "rounded up": ceil_div(S * B, 7) + H,
    "extremes": minimum(S, 128) * maximum(B, H),
    "divisor": gcd(B, H) * 2,
    "logarithm": ceil_log2(S) * B,
}


@pytest.mark.parametrize("name", FORMULAS)
def test_values_are_those_of_the_expression(name):
    function = Formulas([FORMULAS[name]], NAMES)
    for sizes in ((1, 5, 64), (3, 128, 33), (17, 1000, 224)):
        expected = Evaluation(dict(zip((B, S, H), sizes, strict=True)))(FORMULAS[name]) if name != "number" else 7
        assert function(*sizes) == expected
        assert type(function(*sizes)) is int


@pytest.mark.parametrize("name", FORMULAS)
def test_arrays_have_the_values_of_their_elements(name):
    function = Formulas([FORMULAS[name], B + S], NAMES)
    if name in ("divisor", "logarithm"):
        with pytest.raises(TypeError, match="one size at a time"):
            function(2, numpy.array([5]), 64)
        return
    lengths = numpy.arange(5, 300, 7)
    found, sums = function(2, lengths, 64)
    assert [int(value) for value in numpy.broadcast_to(found, lengths.shape)] == [
        function(2, int(length), 64)[0] for length in lengths
    ]
    assert list(sums) == [2 + length for length in lengths]


def test_arrays_do_not_overflow():
    # 2**21 cubed is 2**63, one more than int64 holds.
    function = Formulas([S**3], ("seq",))
    assert function(numpy.array([2**20])).dtype == numpy.int64
    assert list(function(numpy.array([2**20, 2**21]))) == [2**60, 2**63]
    assert list(function(numpy.array([10**30], dtype=object))) == [10**90]


def test_arrays_of_quotients_do_not_overflow():
    # ⌊n/7 + n/11 + n/13⌋ is ⌊311 n / 1001⌋, whose numerator needs 9 bits more than n.
    quotients = floor(B * Rational(1, 7) + S * Rational(1, 11) + H * Rational(1, 13))
    for size in (2**40, 2**56, 2**58):
        assert Formulas([quotients], NAMES)(*[numpy.array([size])] * 3) == [311 * size // 1001]


def test_sizes_by_name_and_wrong_sizes():
    function = Formulas([B * S], ("batch", "seq"))
    assert function(2, seq=3) == function(seq=3, batch=2) == 6
    for sizes, names, message in (
        ((2,), {}, "expected 2 sizes, batch, seq"),
        ((2,), {"length": 3}, "unknown or repeated size length"),
        ((), {"seq": 3}, "no value for batch"),
        ((2, 1.5), {}, "seq needs an integer or an array of integers"),
    ):
        with pytest.raises(TypeError, match=message):
            function(*sizes, **names)


def test_sizes_outside_the_checked_ones_warn_once():
    function = Formulas([B * S], ("batch", "seq"), {"seq": (2, 64)})
    assert function(1, 64) == 64
    with pytest.warns(CostWarning, match="seq is outside the sizes at which the formulas were checked, 2 to 64"):
        function(1, numpy.array([3, 65]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        function(1, 70)


def test_formulas_in_latex():
    assert latex("n_params", 3 * B * H**2) == r"\mathrm{n\_params} = 3\,\mathrm{batch}\,h^{2}"
