from __future__ import annotations

import math

import pytest

from costcore.ir import Operations
from tests.calculators.counting_scalar import count, log, measure
from tests.calculators.layer_costs import declared, layer_cost, operations

CONSTANT_GRADIENTS = declared("elementwise", "CONSTANT_GRADIENTS")
GRADIENTS = declared("elementwise", "GRADIENTS")

# dx for dy = 1 at x = 0.5 and the y that belongs to it, by calculus.
BY_CALCULUS = {
    "sqrt_backward": (math.sqrt(0.5), 0.5 / math.sqrt(0.5)),
    "rsqrt_backward": (0.5**-0.5, -0.5 * 0.5**-1.5),
    "reciprocal_backward": (2, -4),
    "exp_backward": (math.exp(0.5), math.exp(0.5)),
    "expm1_backward": (math.expm1(0.5), math.exp(0.5)),
    "tan_backward": (math.tan(0.5), math.cos(0.5) ** -2),
    "square_backward": (0.25, 1),
    "log_backward": (math.log(0.5), 2),
    "log1p_backward": (math.log1p(0.5), 1 / 1.5),
    "erf_backward": (math.erf(0.5), 2 / math.sqrt(math.pi) * math.exp(-0.25)),
    "sin_backward": (math.sin(0.5), math.cos(0.5)),
    "cos_backward": (math.cos(0.5), -math.sin(0.5)),
    "asin_backward": (math.asin(0.5), 1 / math.sqrt(0.75)),
    "acos_backward": (math.acos(0.5), -1 / math.sqrt(0.75)),
    "atan_backward": (math.atan(0.5), 0.8),
    "sinh_backward": (math.sinh(0.5), math.cosh(0.5)),
    "cosh_backward": (math.cosh(0.5), math.sinh(0.5)),
    "logit_backward": (0, 4),
}


@pytest.mark.parametrize("op", GRADIENTS)
def test_a_gradient_counts_what_its_definition_does(op: str) -> None:
    _, counted = measure(GRADIENTS[op].definition, "dy=1", "x", "y", "x0", "x1=0.25", "x2", one=1)
    assert operations(op, {"dy": (2, 3), "x": (2, 3)}, (2, 3)) == 6 * counted


@pytest.mark.parametrize("op", BY_CALCULUS)
def test_a_gradient_is_what_calculus_says(op: str) -> None:
    y, expected = BY_CALCULUS[op]
    assert measure(GRADIENTS[op].definition, "dy=1", "x=0.5", f"y={y}")[0] == pytest.approx(expected)


def test_gradient_of_clip() -> None:
    operands = {"dy": (6,), "x": (6,)}
    assert operations("clip_backward", operands, (6,), lower=0, upper=6) == Operations(cmp=12)
    assert operations("clip_backward", operands, (6,), lower=None, upper=6) == Operations(cmp=6)


def test_gradients_of_powers() -> None:
    def square(dy, x):
        return [g * 2 * v for g, v in zip(dy, x, strict=True)]

    def cube(dy, x):
        return [g * 3 * (v * v) for g, v in zip(dy, x, strict=True)]

    def fourth(dy, x):
        return [g * 4 * (v * v * v) for g, v in zip(dy, x, strict=True)]

    def constant(dy, x):
        return [g * 2.5 * v**1.5 for g, v in zip(dy, x, strict=True)]

    def variable(dy, x, c):
        bases = [g * p * v ** (p - 1) for g, v, p in zip(dy, x, c, strict=True)]
        return bases, [g * v**p * log(v) for g, v, p in zip(dy, x, c, strict=True)]

    def known(dy, x, c, y):
        bases = [g * p * v ** (p - 1) for g, v, p in zip(dy, x, c, strict=True)]
        return bases, [g * r * log(v) for g, v, r in zip(dy, x, y, strict=True)]

    pair = {"dy": (6,), "x0": (6,)}
    assert operations("pow_backward", pair, (6,), exponent=2) == count(square, (6,), (6,))
    assert operations("pow_backward", pair, (6,), exponent=3) == count(cube, (6,), (6,))
    assert operations("pow_backward", pair, (6,), exponent=4) == count(fourth, (6,), (6,))
    assert operations("pow_backward", pair, (6,), exponent=2.5) == count(constant, (6,), (6,))
    operands = {**pair, "x1": (6,)}
    assert operations("pow_backward", operands, (6,), (6,)) == count(variable, (6,), (6,), (6,))
    assert operations("pow_backward", {**operands, "y": (6,)}, (6,), (6,)) == count(known, (6,), (6,), (6,), (6,))


@pytest.mark.parametrize(("op", "operand"), [("constant_div_backward", "x"), ("constant_pow_backward", "y")])
def test_gradients_of_operators_on_a_constant(op: str, operand: str) -> None:
    _, each = measure(CONSTANT_GRADIENTS[op].definition, operand, "dy", value=2.0, log_value=0.7)
    result = layer_cost(op, {operand: (2, 3), "dy": (2, 3)}, (2, 3))
    assert (result.flops, result.mread, result.mwrite) == (6 * each, 2 * 24, 24)
