import pytest
import sympy

from costcore.text.amounts import check_digits, check_unit, prefix_for, scaled


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
