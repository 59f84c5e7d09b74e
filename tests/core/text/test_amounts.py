from fractions import Fraction

import pytest
from sympy import Symbol

from costcore.text.amounts import exact, parse_amount, parse_percent, readable


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
