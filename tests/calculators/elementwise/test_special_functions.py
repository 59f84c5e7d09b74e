from __future__ import annotations

import pytest

from costcore.ir import Operations
from tests.calculators.counting_scalar import count, lgamma, measure
from tests.calculators.layer_costs import bytes_moved, declared, operations

POLYNOMIALS = declared("elementwise", "POLYNOMIALS")
UNARY_SPECIAL = declared("elementwise", "UNARY_SPECIAL")


@pytest.mark.parametrize("op", UNARY_SPECIAL)
def test_functions_of_one_element(op):
    assert operations(op, {"x": (3, 4)}, (3, 4)) == 12 * measure(UNARY_SPECIAL[op].definition, "x")[1]


@pytest.mark.parametrize("op", POLYNOMIALS)
def test_polynomials_of_an_element_and_a_degree(op):
    assert operations(op, {"x0": (3, 4), "x1": (4,)}, (3, 4)) == 12 * measure(POLYNOMIALS[op].definition, "x0", "x1")[1]


@pytest.mark.parametrize("p", [1, 2, 4])
def test_multivariate_gamma_function(p):
    def definition(x):
        y = lgamma(x)
        for j in range(2, p + 1):
            y = y + lgamma(x + (1 - j) / 2)
        return y + 0.7

    assert operations("multivariate_lgamma", {"x": (5,)}, (5,), dimension=p) == 5 * count(definition, ())


def test_mantissa_and_exponent():
    assert operations("frexp", {"x": (5,)}, (5,), (5,)) == Operations(cmp=5)
    assert bytes_moved("frexp", {"x": (5,)}, (5,), (5,)) == (20, 40)
