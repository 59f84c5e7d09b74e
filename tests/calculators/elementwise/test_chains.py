"""Element-wise chains against their executed definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from costcore.ir import Operations, Tensor
from tests.calculators.counting_scalar import count, measure
from tests.calculators.layer_costs import declared, layer_cost, operations

CHAINS = declared("elementwise", "CHAINS")

SETTINGS = {"alpha": 2.0, "beta": 3.0, "scale": 4.0, "shift": 5.0}


@pytest.mark.parametrize("op", CHAINS)
def test_a_chain_is_its_definition(op: str) -> None:
    _, once = measure(CHAINS[op].definition, "x", "x0", "x1", "gate", **SETTINGS)
    assert operations(op, {"x": (2, 3)}, (2, 3)) == 6 * once


@pytest.mark.parametrize(
    ("op", "value"),
    [
        ("gated_add", 0.25 + 2.0 * 0.5),
        ("scaled_silu", 2.0 / (1 + math.exp(-2.0))),  # 4 * 0.5
        ("scaled_tanh", 2.0 * math.tanh(1.5)),
        ("scaled_softplus", 2.0 * math.log(1 + math.exp(1.5))),
        ("scale_shift", 4.0 * 0.5 + 5.0),
    ],
)
def test_a_definition_means_what_its_name_says(op: str, value: float) -> None:
    found, _ = measure(CHAINS[op].definition, "x=0.5", "x0=0.25", "x1=2", "gate=0.5", **SETTINGS)
    assert found == pytest.approx(value)


@pytest.mark.parametrize("conjugate", [False, True])
def test_products_of_complex_pairs(conjugate: bool) -> None:
    def definition(x0, x1):
        for (a, b), (c, d) in zip(x0, x1, strict=True):
            _ = (a * c + b * d, b * c - a * d) if conjugate else (a * c - b * d, a * d + b * c)

    op = "complex_pairs_mul_conj" if conjugate else "complex_pairs_mul"
    assert operations(op, {"x0": (3, 2), "x1": (3, 2)}, (3, 2)) == count(definition, (3, 2), (3, 2))


def test_products_of_integers_less_their_zero_points() -> None:
    def definition(x0, x1):
        shifted = np.array([value - 3 for value in x0.flat], dtype=object).reshape(x0.shape)
        _ = shifted * x1

    x0, x1, zero = Tensor((2, 3), "uint8"), Tensor((3,), "int8"), Tensor((1,), "uint8")
    given = {"x0": x0, "x0_zero_point": zero, "x1": x1}
    result = layer_cost("integer_mul", given, Tensor((2, 3), "int32"))
    assert result.flops == count(definition, (2, 3), (3,))
    assert (result.mread, result.mwrite) == (6 + 1 + 3, 4 * 6)
    both = {**given, "x1_zero_point": zero}
    assert operations("integer_mul", both, Tensor((2, 3), "int32")) == Operations(mul=6, add=6 + 3)
    assert operations("integer_mul", {"x0": x0, "x1": x1}, Tensor((2, 3), "int32")) == Operations(mul=6)
