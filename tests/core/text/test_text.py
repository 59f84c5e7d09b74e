"""Names of models stand in Markdown and LaTeX as they are, whatever they look like."""

from __future__ import annotations

import io
from fractions import Fraction

import pytest
import sympy
from sympy import Symbol

from costcore.analyses.sizes.formulas import latex
from costcore.numbers import symbol_of
from costcore.text.amounts import (
    check_digits,
    check_unit,
    exact,
    parse_amount,
    parse_count,
    parse_percent,
    prefix_for,
    readable,
    scaled,
)
from costcore.text.output import Screen, escaped


def kind_of(metric):
    return "bytes" if metric in ("mread", "mwrite", "mrw") else "flops"


@pytest.mark.parametrize(
    ("value", "metric", "number"),
    [
        (25_600_000, "n_params", 25600000),
        ("4.1G", "flops", 4100000000),
        ("4.1 G", "macs", 4100000000),
        ("12", "flops", 12),
        ("25_600_000", "n_params", 25600000),
        ("0.0015K", "flops", 1),
        ("100 MiB", "mread", 104857600),
        ("100MB", "mwrite", 100000000),
        ("1.5 KiB", "mrw", 1536),
        ("7 B", "mread", 7),
        ("7", "mread", 7),
    ],
)
def test_amounts_are_integers_or_strings_with_a_unit(value, metric, number):
    assert parse_amount(value, metric, kind_of(metric)) == number


@pytest.mark.parametrize(
    ("value", "metric"),
    [
        ("4.1GB", "flops"),
        ("4 Gi", "flops"),
        ("4 Gi", "mread"),
        ("100M", "mread"),
        ("iB", "mread"),
        ("-1", "flops"),
        (-1, "flops"),
        ("", "flops"),
        ("1e9", "flops"),
        ("4X", "flops"),
    ],
)
def test_an_invalid_amount_is_an_error_with_an_example(value, metric):
    with pytest.raises(ValueError, match=r"must be an integer or a string such as|negative"):
        parse_amount(value, metric, kind_of(metric))


@pytest.mark.parametrize("value", [1.5, True, None, [1]])
def test_amounts_are_not_floats(value):
    with pytest.raises(TypeError, match="must be an integer or a string such as"):
        parse_amount(value, "flops")


def test_percentages():
    assert parse_percent("1%") == Fraction(1, 100)
    assert parse_percent(" 0.5 % ") == Fraction(1, 200)
    assert parse_percent("1") is parse_percent(1) is parse_percent("-1%") is None


@pytest.mark.parametrize(
    ("value", "metric", "text"),
    [
        (0, "flops", "0"),
        (999, "flops", "999"),
        (1500, "flops", "1.5 K"),
        (4_089_184_256, "macs", "4.089 G"),
        (-2_000_000, "n_params", "-2 M"),
        (1023, "mread", "1023 B"),
        (104857600, "mread", "100 MiB"),
        (Symbol("n") * 2, "flops", "2*n"),
    ],
)
def test_amounts_are_formatted_with_the_largest_fitting_prefix(value, metric, text):
    assert readable(value, kind_of(metric)) == text


def test_signed_amounts_have_a_plus_sign():
    assert readable(1500, "flops", signed=True) == "+1.5 K"
    assert readable(0, "flops", signed=True) == "0"
    assert exact(1234567) == "1,234,567"


@pytest.mark.parametrize(
    ("value", "prefix", "kind", "digits", "text"),
    [
        (15_346_630_656, "G", "flops", 3, "15.347"),
        (15_346_630_656, "G", "flops", 8, "15.34663066"),
        (95_186_176, "G", "bytes", 3, "0.089"),  # 95186176 / 2**30 = 0.08864…
        (95_186_176, "G", "bytes", 8, "0.08864903"),
        (1_849_688_064, "G", "flops", 3, "1.85"),
        (0, "G", "flops", 3, "0.0"),
        (1024, "K", "bytes", 3, "1.0"),
        (1024, "K", "flops", 3, "1.024"),
        (1500, "K", "flops", 0, "2"),  # half to even
        (2500, "K", "flops", 0, "2"),
        (10**30 + 1, "", "flops", 3, "1" + "0" * 29 + "1"),
        (10**40, "T", "flops", 2, "1" + "0" * 28 + ".0"),
        (-1500, "K", "flops", 1, "-1.5"),
        (-1, "G", "flops", 3, "0.0"),
    ],
)
def test_values_are_rounded_exactly(value, prefix, kind, digits, text):
    assert scaled(value, prefix, kind, digits) == text


def test_fixed_decimals_keep_trailing_zeros_except_for_zero():
    assert scaled(50_000_000, "G", "flops", 3, fixed=True) == "0.050"
    assert scaled(0, "G", "flops", 3, fixed=True) == "0"


def test_symbolic_amounts_are_not_rounded():
    n = sympy.Symbol("n", integer=True)
    assert scaled(3 * n, "", "flops", 3) == "3*n"
    assert scaled(3 * n, "K", "bytes", 3) == "(3*n)/1024"


def test_the_prefix_is_that_of_the_largest_value():
    assert prefix_for([1, 999], "flops") == ""
    assert prefix_for([1, 1000], "flops") == "K"
    assert prefix_for([1, 1000], "bytes") == ""
    assert prefix_for([1023, 1024**3], "bytes") == "G"
    assert prefix_for([10**30], "flops") == "T"
    assert prefix_for([], "flops") == ""


@pytest.mark.parametrize("unit", ["g", "GiB", "", 3])
def test_an_unknown_unit_lists_the_expected_ones(unit):
    with pytest.raises(ValueError, match="autoaligned"):
        check_unit(unit)


def test_digits_are_between_0_and_10():
    assert check_digits(None) == 10
    assert check_digits(0) == 0
    for wrong in (-1, 11):
        with pytest.raises(ValueError, match="between 0 and 10"):
            check_digits(wrong)
    for wrong in (2.0, "3", True):
        with pytest.raises(TypeError, match="integer from 0 to 10"):
            check_digits(wrong)


@pytest.mark.parametrize(
    ("name", "markdown"),
    [
        ("[a](javascript:b)", r"[a]\(javascript:b)"),
        ("![a](b)", r"![a]\(b)"),
        ("__init__", r"\_\_init__"),
        ("_a_", r"\_a_"),
        ("relu_", "relu_"),
        ("n_params", "n_params"),
        ("(2, 3)", "(2, 3)"),
        ("[2, 3]", "[2, 3]"),
        ("~~a~~", "&#126;&#126;a&#126;&#126;"),
        ("$x$", r"\$x\$"),
        ("a|b*c`d", r"a\|b\*c\`d"),
        ("<b>\x1b[0m\\", "&lt;b>\\x1b[0m\\\\"),
        ("a\nb", "a b"),
    ],
)
def test_markdown(name, markdown):
    assert escaped(name) == markdown


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("h", "h"),
        ("batch", r"\mathrm{batch}"),
        ("a_b", r"\mathrm{a\_b}"),
        ("$", r"\mathrm{\$}"),
        ("{", r"\mathrm{\{}"),
        ("x^2", r"\mathrm{x\char94{}2}"),
        (r"\input{f}", r"\mathrm{\backslash{}input\{f\}}"),
        ("a b%", r"\mathrm{a\ b\%}"),
        ("~#&", r"\mathrm{\char126{}\#\&}"),
        ("h'", r"\mathrm{h\char39{}}"),
        ("\x07", r"\mathrm{\backslash{}x07}"),
    ],
)
def test_latex(name, text):
    assert latex("macs", 3 * symbol_of(name)) == rf"\mathrm{{macs}} = 3\,{text}"


def test_a_screen_that_is_closed_writes_nothing():
    """Python 3.13 closes, and so flushes, what is no longer used, and reports every error of it."""
    stream = io.StringIO()
    screen = Screen(stream, "--format table")
    screen.write("a line\n")
    screen.close()
    assert stream.getvalue() == ""
    stream.close()
    screen.close()


def test_a_long_line_goes_on_two_characters_to_the_right(monkeypatch):
    """In a terminal of 20 characters, "  note: one two three" has 21."""
    monkeypatch.setenv("COLUMNS", "20")
    stream = io.StringIO()
    stream.isatty = lambda: True
    screen = Screen(stream, "--format table")
    screen.write("  note: one two three four\n")
    screen.finish()
    assert stream.getvalue() == "  note: one two\n    three four\n"


@pytest.mark.parametrize(
    ("text", "base", "number"),
    [
        ("64", 1000, 64),
        ("1,000", 1000, 1000),
        ("100k", 1000, 100_000),
        ("1.5M", 1000, 1_500_000),
        ("300B", 1000, 300_000_000_000),
        ("1T", 1000, 1_000_000_000_000),
        ("2e6", 1000, 2_000_000),
        ("8k", 1024, 8192),
        ("128K", 1024, 131_072),
        ("4096", 1024, 4096),
        ("1M", 1024, 1_048_576),
    ],
)
def test_counts_have_prefixes(text, base, number):
    assert parse_count(text, "--context", base) == number


@pytest.mark.parametrize("text", ["", "k", "8.5", "8kb", "-1", "1e-3", "8 MiB", "١٢"])
def test_other_texts_are_no_counts(text):
    with pytest.raises(ValueError, match="--context must be a whole number such as 64, 8k or"):
        parse_count(text, "--context", 1024)
