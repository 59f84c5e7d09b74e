"""Operations on complex numbers against definitions that are executed on their parts."""

from __future__ import annotations

import cmath
import math
from collections import Counter

import pytest

from costcore.ir import Operations, Tensor
from tests.calculators.counting_scalar import CountingScalar, count, dot, exp, measure, sqrt, total, value_of
from tests.calculators.layer_costs import bytes_moved, declared, layer_cost, operations

FUNCTIONS = declared("complex_numbers", "FUNCTIONS")


class Number:
    """A complex number of two scalars that count their operations; the other operand may be one real scalar."""

    __hash__ = None

    def __init__(self, a, b):
        self.parts = a, b

    def __add__(self, other):
        (a, b), (c, d) = self.parts, parts_of(other)
        return Number(a + c, b if d is None else b + d)

    def __radd__(self, other):
        return self + other

    def __sub__(self, other):
        (a, b), (c, d) = self.parts, parts_of(other)
        return Number(a - c, b if d is None else b - d)

    def __rsub__(self, other):
        a, b = self.parts
        return Number(other - a, -b)

    def __neg__(self):
        a, b = self.parts
        return Number(-a, -b)

    def __mul__(self, other):
        (a, b), (c, d) = self.parts, parts_of(other)
        return Number(a * c, b * c) if d is None else Number(a * c - b * d, a * d + b * c)

    def __rmul__(self, other):
        return self * other

    def __truediv__(self, other):
        (a, b), (c, d) = self.parts, parts_of(other)
        if d is None:
            return Number(a / c, b / c)
        s = c * c + d * d
        return Number((a * c + b * d) / s, (b * c - a * d) / s)

    def __rtruediv__(self, other):
        c, d = self.parts
        s = c * c + d * d
        return Number(other * c / s, -(other * d) / s)

    def __eq__(self, other):
        (a, b), (c, d) = self.parts, parts_of(other)
        first, second = a == c, b == (0 if d is None else d)
        a.counts["cmp"] += 1  # joins both
        return first and second


def parts_of(value):
    return value.parts if isinstance(value, Number) else (value, None)


def fma(x, y, z):
    """Add every product of a part of x and a part of y to z."""
    products = [CountingScalar(1.0, p.counts) for p in parts_of(x) if p for q in parts_of(y) if q]
    for product in products:
        product.record("fma", 1.0)
    return z


def power(x, exponent):
    a, b = x.parts
    logarithm = Number(measured_log(a, b), a.record("special", 0.5))
    c, d = (logarithm * exponent).parts
    r = exp(c)
    return Number(r * d.record("special", 0.5), r * d.record("special", 0.5))


def measured_log(a, b):
    return sqrt(a * a + b * b).record("special", 0.5)


def modulus(x):
    a, b = x.parts
    return sqrt(a * a + b * b)


COMPLEX = {"x": Tensor((6,), "complex64")}
KINDS = {"complex": "complex64", "real": "float32"}


def operand(kind, value, counts):
    a = CountingScalar(value, counts)
    return Number(a, CountingScalar(value / 2, counts)) if kind == "complex" else a


def counted(definition, *kinds):
    """Return the operations of a definition on one number per kind, complex or real."""
    counts = Counter()
    definition(*(operand(kind, 0.25 + i, counts) for i, kind in enumerate(kinds)))
    return Operations(**counts)


def layer_operations(op, *kinds, **attrs):
    inputs = {f"x{i}": Tensor((6,), KINDS[kind]) for i, kind in enumerate(kinds)}
    return operations(op, inputs, Tensor((6,), "complex64"), **attrs)


PAIRS = [("complex", "complex"), ("complex", "real"), ("real", "complex")]


@pytest.mark.parametrize("kinds", PAIRS)
@pytest.mark.parametrize(("op", "method"), [("add", "add"), ("sub", "sub"), ("mul", "mul"), ("div", "truediv")])
def test_arithmetic(op, method, kinds):
    def definition(x, y):
        is_reflected = not isinstance(x, Number)
        return getattr(y, f"__r{method}__")(x) if is_reflected else getattr(x, f"__{method}__")(y)

    assert layer_operations(op, *kinds) == 6 * counted(definition, *kinds)
    lists = {f"x{i}": Tensor((3,), KINDS[kind]) for i, kind in enumerate(kind for kind in kinds for _ in range(2))}
    found = operations(f"foreach_{op}", lists, Tensor((3,), "complex64"), Tensor((3,), "complex64"))
    assert found == 6 * counted(definition, *kinds)


def test_a_product_by_hand():
    """(a + b i) (c + d i) is 4 mul and 2 add, a sum 2 add, a product with a real number 2 mul."""
    assert layer_operations("mul", "complex", "complex") == Operations(mul=24, add=12)
    assert layer_operations("add", "complex", "complex") == Operations(add=12)
    assert layer_operations("mul", "complex", "real") == Operations(mul=12)
    assert layer_operations("mul", "complex", "complex", "complex") == Operations(mul=48, add=24)
    assert operations("foreach_mul", {"x0": COMPLEX["x"]}, COMPLEX["x"]) == Operations(mul=12)
    assert operations("square", COMPLEX, COMPLEX["x"]) == Operations(mul=24, add=12)
    assert operations("neg", COMPLEX, COMPLEX["x"]) == Operations(add=12)
    assert operations("asin", COMPLEX, COMPLEX["x"]) == Operations(special=12)
    assert bytes_moved("mul", {"x0": COMPLEX["x"], "x1": COMPLEX["x"]}, COMPLEX["x"]) == (96, 48)


@pytest.mark.parametrize("weight", KINDS)
def test_interpolation(weight):
    kinds = ("complex", "complex", weight)
    assert layer_operations("lerp", *kinds) == 6 * counted(lambda x, y, w: x + (y - x) * w, *kinds)


@pytest.mark.parametrize(("value", "scale"), [(1, 0), (0.5, 1)])
@pytest.mark.parametrize("kinds", [("complex", *pair) for pair in PAIRS])
def test_added_products(kinds, value, scale):
    def added(x, y, z):
        return fma(y * 0.5 if scale else y, z, x)

    assert layer_operations("addcmul", *kinds, value=value) == 6 * counted(added, *kinds)


def test_scaled_and_divided_sums():
    assert layer_operations("add", "complex", "complex", alpha=0.5) == Operations(fma=12)
    assert layer_operations("sub", "complex", "complex", alpha=0.5j) == Operations(fma=24)
    quotient = counted(lambda x, y: x / y, "complex", "complex")
    three = "complex", "complex", "complex"
    assert layer_operations("addcdiv", *three) == 6 * (quotient + Operations(add=2))
    assert layer_operations("addcdiv", *three, value=0.5) == 6 * (quotient + Operations(fma=2))


def test_comparisons_and_choices():
    assert layer_operations("equal", "complex", "complex") == 6 * counted(lambda x, y: x == y, "complex", "complex")
    assert layer_operations("equal", "complex", "real") == 6 * counted(lambda x, y: x == y, "complex", "real")
    chosen = {"condition": Tensor((6,), "bool"), "x0": COMPLEX["x"], "x1": COMPLEX["x"]}
    assert operations("where", chosen, COMPLEX["x"]) == Operations(cmp=12)


def test_powers():
    found = [layer_operations("pow", "complex", "real", exponent=exponent) for exponent in (2, 3, 2.5)]
    assert found[0] == 6 * counted(lambda x: x * x, "complex")
    assert found[1] == 6 * counted(lambda x: x * x * x, "complex")
    assert found[2] == 6 * counted(lambda x: power(x, 2.5), "complex")
    assert layer_operations("pow", "complex", "complex") == 6 * counted(power, "complex", "complex")


NAMES = {"ln2": 0.7, "ln10": 0.4, "zero": 0.0}
VALUES = {
    "abs": abs,
    "angle": cmath.phase,
    "conj": lambda z: z.conjugate(),
    "sign": lambda z: z / abs(z),
    "reciprocal": lambda z: 1 / z,
    "sqrt": cmath.sqrt,
    "rsqrt": lambda z: 1 / cmath.sqrt(z),
    "expm1": lambda z: cmath.exp(z) - 1,
    "log1p": lambda z: cmath.log(1 + z),
    "sigmoid": lambda z: 1 / (1 + cmath.exp(-z)),
    "silu": lambda z: z / (1 + cmath.exp(-z)),
    **{name: getattr(cmath, name) for name in ("exp", "log", "sin", "cos", "sinh", "cosh", "tan", "tanh")},
}


@pytest.mark.parametrize("op", FUNCTIONS)
def test_a_function_counts_what_its_definition_does(op):
    definition = FUNCTIONS[op].definition
    joins = Operations(cmp=1 if "|" in definition or "&" in definition else 0)  # of two plain bools
    result, found = measure(definition, "a=0.5", "b=0.25", **NAMES, copysign=copysign)
    assert operations(op, COMPLEX, COMPLEX["x"]) == 6 * (found + joins)
    if op in VALUES:
        expected = VALUES[op](0.5 + 0.25j)
        parts = tuple(map(value_of, result)) if isinstance(result, tuple) else (value_of(result), 0)
        assert complex(*parts) == pytest.approx(expected)


def copysign(x, y):
    return x.record("cmp", math.copysign(x.value, value_of(y)))


def parts(x):
    return [part for number in x for part in number.parts]


REDUCED = {
    "reduce_sum": total,
    "reduce_mean": lambda x: total(x) / CountingScalar(5.0, Counter()),
    "reduce_prod": lambda x: x[0] * x[1] * x[2] * x[3] * x[4],
    "reduce_l1": lambda x: total(map(modulus, x)),
    "reduce_l2": lambda x: sqrt(dot(parts(x), parts(x))),
    "reduce_lp": lambda x: total([(m := modulus(z)) * m * m for z in x]) ** (1 / 3),
    "trace": total,
    "var": lambda x: sum_of_squares(x) / 4,
    "std": lambda x: sqrt(sum_of_squares(x) / 4),
}


def sum_of_squares(x):
    mean = total(x) / CountingScalar(5.0, Counter())
    differences = parts([z - mean for z in x])
    return dot(differences, differences)


@pytest.mark.parametrize("op", REDUCED)
def test_reductions(op):
    counts = Counter()
    REDUCED[op]([operand("complex", 0.25 + i, counts) for i in range(5)])
    shape = (5, 5) if op == "trace" else (5,)
    found = operations(op, {"x": Tensor(shape, "complex64")}, Tensor((), "complex64"), axis=(0,), p=3)
    assert found == Operations(**counts)
    if op == "reduce_l2":
        assert operations("foreach_norm", {"x0": Tensor(shape, "complex64")}, ()) == found


@pytest.mark.parametrize("biased", [False, True])
def test_a_product_in_a_contraction_is_four_macs(biased):
    """Either part of a dot product of n complex numbers is a dot product of 2 n real ones."""

    def definition(x, y, b=None):
        n = 4
        for i in range(2):
            for j in range(3):
                row, column = x[2 * n * i : 2 * n * (i + 1)], y[2 * n * j : 2 * n * (j + 1)]
                for part in range(2):
                    dot(row, column, b[2 * j + part] if biased else None)

    operands = {"x": Tensor((2, 4), "complex64"), "w": Tensor((3, 4), "complex64")}
    bias = {"b": Tensor((3,), "complex64")} if biased else {}
    cost = layer_cost("linear", {**operands, **bias}, Tensor((2, 3), "complex64"))
    assert cost.flops == count(definition, (16,), (24,), *([(6,)] if biased else []))
    assert cost.macs == 4 * 2 * 3 * 4
    assert cost.mread == 8 * (8 + 12 + (3 if biased else 0))


def test_scaled_matrix_products():
    operands = {"x0": Tensor((2, 4), "complex64"), "x1": Tensor((4, 3), "complex64"), "b": Tensor((3,), "complex64")}
    plain = layer_cost("matmul", operands, Tensor((2, 3), "complex64"))
    scaled = layer_cost("matmul", operands, Tensor((2, 3), "complex64"), alpha=0.5, beta=2)
    # 6 products and 3 addends times a real factor
    assert scaled.flops == plain.flops + Operations(mul=2 * (6 + 3))
    assert scaled.macs == plain.macs == 4 * 24


def test_other_operators_are_counted_by_their_operations():
    # 2 products and a difference per element
    vectors = {"x0": Tensor((3,), "complex64"), "x1": Tensor((3,), "complex64")}
    product = counted(lambda x, y: x * y, "complex", "complex")
    assert operations("cross", vectors, COMPLEX["x"]) == 6 * (2 * product + Operations(add=2))
    assert operations("cumsum", COMPLEX, COMPLEX["x"], axis=0) == Operations(add=10)
    assert operations("l1_loss", {**COMPLEX, "target": COMPLEX["x"]}, ()) == 6 * counted(
        lambda x, y: modulus(x - y), "complex", "complex"
    ) + Operations(add=5, div=1)


def test_transforms_count_real_operations_themselves():
    real = operations("fft", {"x": Tensor((8,))}, Tensor((8,), "complex64"))
    assert operations("fft", {"x": Tensor((8,), "complex64")}, Tensor((8,), "complex64")) == real
