from fractions import Fraction

import pytest

import costcore
from tests.core.given_costs import dense, net

MODEL = net(dense("a"))


def read_number(*written):
    """Return the number as an explanation of a small network has it."""
    return costcore.explain(MODEL, *written).number


@pytest.mark.parametrize(
    ("text", "value", "half", "digits", "word"),
    [
        ("4.14G", 4_140_000_000, 5_000_000, 3, ""),
        ("4.14 GFLOPs", 4_140_000_000, 5_000_000, 3, "FLOPs"),
        ("4.1e9", 4_100_000_000, 50_000_000, 2, ""),
        ("8.2 GOPS", 8_200_000_000, 50_000_000, 2, "OPS"),
        ("300M", 300_000_000, 500_000, 3, ""),
        ("25.6M params", 25_600_000, 50_000, 3, "params"),
        ("4.1 billion", 4_100_000_000, 50_000_000, 2, ""),
        ("1.5 BOPs", Fraction(3, 2), Fraction(1, 20), 2, "BOPs"),
        ("569 million mult-adds", 569_000_000, 500_000, 3, "mult-adds"),
        ("4,089,184,256", 4_089_184_256, Fraction(1, 2), 10, ""),
        ("0.58 GMac", 580_000_000, 5_000_000, 2, "Mac"),
        ("1.20e+3 MACs", 1200, 5, 3, "MACs"),
        ("7.50", Fraction(15, 2), Fraction(1, 200), 3, ""),
        (4_089_184_256, 4_089_184_256, Fraction(1, 2), 10, ""),
        (4.14e9, 4_140_000_000, 5_000_000, 3, ""),
    ],
)
def test_numbers_as_people_write_them(text, value, half, digits, word):
    number = read_number(text)
    assert (number.value, number.half, number.digits, number.word) == (value, half, digits, word)


def test_given_digits():
    number = read_number(4_100_000_000, 2)
    assert (number.low, number.high) == (4_050_000_000, 4_150_000_000)


def test_rounding_and_cutting():
    number = read_number("4.14G")
    assert number.rounds(4_135_789_592)
    assert not number.rounds(4_134_999_999)
    assert number.cuts(4_149_999_999)
    assert not number.cuts(4_139_999_999)


@pytest.mark.parametrize(
    ("wrong", "error", "sentence"),
    [
        ("many", ValueError, "'many' is not a number (expected digits, a prefix and a unit: 4.14 GFLOPs)"),
        ("-4G", ValueError, "'-4G' is not a number"),
        ("4.1X", ValueError, "'4.1X' has an unknown unit 'X' (expected FLOPs, MACs, MAdds, OPs or params)"),
        ("989 TFLOP/s", ValueError, "'989 TFLOP/s' is a rate, operations per second; only amounts can be explained"),
        ("0", ValueError, "'0' is not positive; only amounts above 0 can be explained"),
        ("1" * 100, ValueError, "a number to explain has 100 characters (expected at most 60)"),
        ("1e9999", ValueError, "is not a number"),
        (True, TypeError, "a number to explain must be a text such as '4.14G', or a number (got True)"),
        (None, TypeError, "a number to explain must be a text such as '4.14G', or a number (got None)"),
        (float("nan"), ValueError, "nan is not a number"),
    ],
)
def test_what_is_not_a_number(wrong, error, sentence):
    with pytest.raises(error) as caught:
        read_number(wrong)
    assert sentence in str(caught.value)


def test_wrong_digits():
    with pytest.raises(ValueError, match=r"digits must be at least 1 \(got 0\)"):
        read_number("4.1G", 0)


def test_what_is_no_report():
    with pytest.raises(TypeError, match=r"explain expects a report, such as that of estimate \(got str\)"):
        costcore.explain("net.onnx", "4.1G")
