from __future__ import annotations

import math

import pytest

from costcore.ir import Operations, Tensor
from tests.calculators.counting_scalar import cos, count, fma, maximum, measure, minimum, select, sin, total
from tests.calculators.layer_costs import bytes_moved, declared, operations

BINARY = declared("elementwise", "BINARY")
NARY = declared("elementwise", "NARY")
SUMS = declared("elementwise", "SUMS")
TERNARY = declared("elementwise", "TERNARY")
UNARY = declared("elementwise", "UNARY")

SETTINGS = {"lowest": -1e9, "largest": 1e9, "atol": 1e-8, "rtol": 1e-5}

# At x = 0.5, or at x0 = 0.5 and x1 = 0.25, by arithmetic or Python's math.
VALUES = {
    "neg": -0.5,
    "abs": 0.5,
    "sign": 1,
    "floor": 0,
    "ceil": 1,
    "trunc": 0,
    "frac": 0.5,
    "square": 0.25,
    "reciprocal": 2,
    "rsqrt": math.sqrt(2),
    "logit": 0,
    "sinc": 2 / math.pi,
    "entropy": 0.5 * math.log(2),
    "deg2rad": math.radians(0.5),
    "rad2deg": math.degrees(0.5),
    "exp": math.exp(0.5),
    "erf": math.erf(0.5),
    "mul": 0.125,
    "div": 2,
    "floor_div": 2,
    "mod": 0,
    "maximum": 0.5,
    "minimum": 0.25,
    "greater": True,
    "less_equal": False,
    "add": 0.75,
    "sub": 0.25,
    "atan2": math.atan2(0.5, 0.25),
    "heaviside": 1,
    "hypot": math.hypot(0.5, 0.25),
    "logaddexp": math.log(math.exp(0.5) + math.exp(0.25)),
    "xlogy": 0.5 * math.log(0.25),
    "xlog1py": 0.5 * math.log(1.25),
    "squared_difference": 0.0625,
    "isclose": False,
}


@pytest.mark.parametrize("op", UNARY)
def test_a_function_of_one_element_counts_what_its_definition_does(op: str) -> None:
    value, counted = measure(UNARY[op].definition, "x=0.5", **SETTINGS)
    assert operations(op, {"x": (2, 3)}, (2, 3)) == 6 * counted
    assert value == pytest.approx(VALUES.get(op, value), nan_ok=True)


@pytest.mark.parametrize("op", {**NARY, **SUMS, **BINARY})
def test_a_function_of_two_operands_counts_what_its_definition_does(op: str) -> None:
    value, counted = measure({**NARY, **SUMS, **BINARY}[op].definition, "x0=0.5", "x1=0.25", **SETTINGS)
    assert operations(op, {"x0": (2, 3), "x1": (3,)}, (2, 3)) == 6 * counted
    assert value == pytest.approx(VALUES.get(op, value), nan_ok=True)


@pytest.mark.parametrize("op", TERNARY)
def test_a_function_of_three_operands_counts_what_its_definition_does(op: str) -> None:
    _, counted = measure(TERNARY[op].definition, "x0", "x1", "x2")
    assert operations(op, {"x0": (2, 3), "x1": (2, 3), "x2": (2, 3)}, (2, 3)) == 6 * counted


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("exp", Operations(special=1)),
        ("sqrt", Operations(special=1)),
        ("rsqrt", Operations(div=1, special=1)),
        ("square", Operations(mul=1)),
        ("neg", Operations(add=1)),
        ("abs", Operations(add=1)),
        ("isnan", Operations(cmp=1)),
    ],
)
def test_by_hand(op: str, expected: Operations) -> None:
    assert operations(op, {"x": (5,)}, (5,)) == 5 * expected


def test_broadcasting_counts_the_output_and_reads_the_operands_as_they_are() -> None:
    operands = {"x0": (3, 1), "x1": (1, 4)}
    assert operations("mul", operands, (3, 4)) == Operations(mul=3 * 4)
    assert bytes_moved("mul", operands, (3, 4)) == ((3 + 4) * 4, 3 * 4 * 4)


def test_n_operands_take_n_minus_1_operations() -> None:
    def add(*operands):
        return [total(elements) for elements in zip(*operands, strict=True)]

    operands = {f"x{i}": (6,) for i in range(4)}
    assert operations("add", operands, (6,)) == count(add, (6,), (6,), (6,), (6,)) == Operations(add=3 * 6)
    assert operations("maximum", operands, (6,)) == Operations(cmp=3 * 6)
    assert operations("elementwise_mean", operands, (6,)) == Operations(add=3 * 6, div=6)
    assert operations("add", {"x0": (6,)}, (6,)) == Operations()


def test_a_scalar_constant_is_an_operand_without_bytes() -> None:
    assert operations("add", {"x0": (6,), "x1": None}, (6,)) == Operations(add=6)
    assert bytes_moved("add", {"x0": (6,), "x1": None}, (6,)) == (6 * 4, 6 * 4)
    assert bytes_moved("add", {"x0": (6,), "x1": Tensor((), "int64")}, (6,)) == (6 * 4 + 8, 6 * 4)


def test_comparisons_write_one_byte_an_element() -> None:
    assert bytes_moved("less", {"x0": (6,), "x1": (6,)}, Tensor((6,), "bool")) == (2 * 6 * 4, 6)


def test_a_scaled_operand_is_added_by_fma() -> None:
    def axpy(x0, x1):
        return [fma(-0.1, b, a) for a, b in zip(x0, x1, strict=True)]

    pair = {"x0": (6,), "x1": (6,)}
    assert operations("add", pair, (6,), alpha=-0.1) == count(axpy, (6,), (6,))
    assert operations("sub", pair, (6,), alpha=0.1) == count(axpy, (6,), (6,))
    assert operations("add", pair, (6,), alpha=1) == Operations(add=6)


@pytest.mark.parametrize(("value", "mul"), [(1, 0), (0.5, 6)])
def test_multiply_and_add(value: float, mul: int) -> None:
    operands = {"x0": (6,), "x1": (6,), "x2": (6,)}
    assert operations("addcmul", operands, (6,), value=value) == Operations(fma=6, mul=mul)
    added = Operations(add=6, div=6) if value == 1 else Operations(fma=6, div=6)
    assert operations("addcdiv", operands, (6,), value=value) == added


@pytest.mark.parametrize(
    ("exponent", "power"),
    [
        (2, lambda x: [v * v for v in x]),
        (2.0, lambda x: [v * v for v in x]),
        (3, lambda x: [v * v * v for v in x]),
        (0.5, lambda x: [v**0.5 for v in x]),
        (4, lambda x: [v**4 for v in x]),
        (-1, lambda x: [v**-1 for v in x]),
        (None, lambda x: [v**v for v in x]),
    ],
)
def test_powers(exponent, power) -> None:
    attrs = {} if exponent is None else {"exponent": exponent}
    assert operations("pow", {"x0": (6,), "x1": None}, (6,), **attrs) == count(power, (6,))


def test_where() -> None:
    def where(condition, x0, x1):
        return [select(c, a, b) for c, a, b in zip(condition, x0, x1, strict=True)]

    operands = {"condition": Tensor((6,), "bool"), "x0": (6,), "x1": None}
    assert operations("where", operands, (6,)) == count(where, (6,), (6,), (6,))
    assert bytes_moved("where", operands, (6,)) == (6 + 6 * 4, 6 * 4)


def test_clip_counts_the_bounds_there_are() -> None:
    def clip(x):
        return [minimum(maximum(v, 0), 6) for v in x]

    assert operations("clip", {"x": (6,)}, (6,), lower=0, upper=6) == count(clip, (6,))
    assert operations("clip", {"x": (6,)}, (6,), lower=0, upper=None) == Operations(cmp=6)
    assert operations("clip", {"x": (6,), "lower": (6,), "upper": None}, (6,)) == Operations(cmp=12)
    assert operations("clip", {"x": (6,)}, (6,)) == Operations()


def test_polar() -> None:
    def polar(r, angle):
        return [(a * cos(b), a * sin(b)) for a, b in zip(r, angle, strict=True)]

    assert operations("polar", {"x0": (6,), "x1": (6,)}, Tensor((6,), "complex64")) == count(polar, (6,), (6,))
