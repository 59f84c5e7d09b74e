from __future__ import annotations

import pytest

from costcore.ir import Operations
from tests.calculators.counting_scalar import measure
from tests.calculators.layer_costs import bytes_moved, declared, operations

FOREACH = declared("elementwise", "FOREACH")
SCALED = declared("elementwise", "SCALED")

LISTS = {"x0": (2, 3), "x1": (4,), "x2": (2, 3), "x3": (4,)}
FACTORS = {"foreach_add": "alpha", "foreach_sub": "alpha", "foreach_addcmul": "value", "foreach_addcdiv": "value"}


@pytest.mark.parametrize("op", FOREACH)
def test_every_element_of_every_tensor_counts(op: str) -> None:
    _, counted = measure(FOREACH[op].definition, "x", "x0", "x1", "x2")
    assert operations(op, LISTS, (2, 3), (4,)) == 10 * counted
    assert bytes_moved(op, LISTS, (2, 3), (4,)) == (20 * 4, 10 * 4)


@pytest.mark.parametrize("op", FACTORS)
def test_a_factor_scales_as_in_the_operator_on_one_tensor(op: str) -> None:
    _, counted = measure(SCALED[op].definition, "x0", "x1", "x2", alpha=0.5, value=0.5)
    assert operations(op, LISTS, (2, 3), (4,), **{FACTORS[op]: -0.1}) == 10 * counted
    one = {"x0": (10,), "x1": (10,), "x2": (10,)} if "addc" in op else {"x0": (10,), "x1": (10,)}
    assert operations(op.removeprefix("foreach_"), one, (10,), **{FACTORS[op]: -0.1}) == 10 * counted
    assert operations(op, LISTS, (2, 3), (4,), **{FACTORS[op]: 1}) == operations(op, LISTS, (2, 3), (4,))


def test_constant_powers_are_products() -> None:
    lists = {"x0": (2, 3), "x1": (4,)}
    assert operations("foreach_pow", lists, (2, 3), (4,), exponent=2) == Operations(mul=10)
    assert operations("foreach_pow", lists, (2, 3), (4,), exponent=3.0) == Operations(mul=20)
    assert operations("foreach_pow", lists, (2, 3), (4,), exponent=0.5) == Operations(special=10)
    assert operations("foreach_pow", lists, (2, 3), (4,), exponent=(3, 0.5)) == Operations(mul=12, special=4)


def test_unscaling() -> None:
    scaled = {"x0": (2, 3), "x1": (4,), "scale": ()}
    assert operations("foreach_unscale", scaled, (2, 3), (4,)) == Operations(mul=10, cmp=10)
