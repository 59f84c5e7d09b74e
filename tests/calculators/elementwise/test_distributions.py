from __future__ import annotations

import math

import pytest

from tests.calculators.counting_scalar import measure
from tests.calculators.layer_costs import bytes_moved, declared, operations

DISTRIBUTIONS_BINARY = declared("elementwise", "DISTRIBUTIONS_BINARY")
DISTRIBUTIONS_UNARY = declared("elementwise", "DISTRIBUTIONS_UNARY")

VALUES = {
    # at 0.25: 1 - exp(-0.25) / 2; log(2 * 0.25)
    "laplace_cdf": 1 - math.exp(-0.25) / 2,
    "laplace_icdf": math.log(0.5),
    # at 0.25 and 1
    "bernoulli_log_prob": -math.log(1 + math.exp(-0.25)),
    "checked_bernoulli_log_prob": -math.log(1 + math.exp(-0.25)),
    "xlogx": 0.25,
}


@pytest.mark.parametrize("op", DISTRIBUTIONS_UNARY)
def test_functions_of_one_element(op):
    value, counted = measure(DISTRIBUTIONS_UNARY[op].definition, "x=0.25")
    assert value == pytest.approx(VALUES[op])
    assert operations(op, {"x": (3, 4)}, (3, 4)) == 12 * counted


@pytest.mark.parametrize("op", DISTRIBUTIONS_BINARY)
def test_functions_of_two_elements(op):
    value, counted = measure(DISTRIBUTIONS_BINARY[op].definition, "x0=0.25", "x1=1")
    assert value == pytest.approx(VALUES[op])
    assert operations(op, {"x0": (4,), "x1": (3, 4)}, (3, 4)) == 12 * counted
    assert bytes_moved(op, {"x0": (4,), "x1": (3, 4)}, (3, 4)) == (4 * (4 + 12), 4 * 12)
