"""Operations on complex numbers, counted as the operations on their real and imaginary parts.

Calculators are written for real numbers. For layers with complex operands, :func:`for_complex_numbers` converts their
counts: a sum is 2 add, a product 4 mul and 2 add, a quotient 6 mul, 3 add and 2 div, and a product in a contraction 4
MACs. Functions such as exp, and operators that join real with complex numbers, have separate definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, wraps

from costcore.ir import Calculator, Cost, Dim, Layer, Operations, PerElement, Tensor

from ._shared import operations_of, power_operations
from .elementwise import UNARY
from .matmul import scaling_products

# Functions of one complex number, by their real and imaginary parts.


SUM, PRODUCT, QUOTIENT = Operations(add=2), Operations(mul=4, add=2), Operations(mul=6, add=3, div=2)

MODULUS = Operations(mul=2, add=1, special=1)

EXP, LOG = Operations(mul=2, special=3), Operations(mul=2, add=1, special=3)

EQUAL = Operations(cmp=3)
"""Both parts are compared, and the two results joined."""

FUNCTIONS: Mapping[str, PerElement] = {
    "abs": PerElement(MODULUS, "sqrt(a * a + b * b)"),
    "angle": PerElement(Operations(special=1), "atan2(b, a)"),
    "conj": PerElement(Operations(add=1), "(a, -b)"),
    "sign": PerElement(
        Operations(mul=2, add=1, div=2, cmp=1, special=1),
        "r = sqrt(a * a + b * b); (where(r == 0, zero, a / r), b / r)",
    ),
    "reciprocal": PerElement(Operations(mul=2, add=2, div=2), "s = a * a + b * b; (a / s, -b / s)"),
    "exp": PerElement(EXP, "r = exp(a); (r * cos(b), r * sin(b))"),
    "exp2": PerElement(EXP + Operations(mul=2), "c = b * ln2; r = exp(a * ln2); (r * cos(c), r * sin(c))"),
    "expm1": PerElement(EXP + Operations(add=1), "r = exp(a); (r * cos(b) - 1, r * sin(b))"),
    "log": PerElement(LOG, "(log(sqrt(a * a + b * b)), atan2(b, a))"),
    "log2": PerElement(LOG + Operations(mul=2), "(log(sqrt(a * a + b * b)) * ln2, atan2(b, a) * ln2)"),
    "log10": PerElement(LOG + Operations(mul=2), "(log(sqrt(a * a + b * b)) * ln10, atan2(b, a) * ln10)"),
    "log1p": PerElement(LOG + Operations(add=1), "c = 1 + a; (log(sqrt(c * c + b * b)), atan2(b, c))"),
    "sqrt": PerElement(
        Operations(mul=4, add=3, cmp=1, special=3),
        "r = sqrt(a * a + b * b); (sqrt((r + a) * 0.5), copysign(sqrt((r - a) * 0.5), b))",
    ),
    "rsqrt": PerElement(
        Operations(mul=6, add=5, div=2, cmp=1, special=3),
        "r = sqrt(a * a + b * b); c = sqrt((r + a) * 0.5); d = copysign(sqrt((r - a) * 0.5), b); "
        "s = c * c + d * d; (c / s, -d / s)",
    ),
    "sin": PerElement(Operations(mul=2, special=4), "(sin(a) * cosh(b), cos(a) * sinh(b))"),
    "cos": PerElement(Operations(mul=2, add=1, special=4), "(cos(a) * cosh(b), -(sin(a) * sinh(b)))"),
    "sinh": PerElement(Operations(mul=2, special=4), "(sinh(a) * cos(b), cosh(a) * sin(b))"),
    "cosh": PerElement(Operations(mul=2, special=4), "(cosh(a) * cos(b), sinh(a) * sin(b))"),
    "tan": PerElement(
        Operations(mul=2, add=1, div=2, special=4),
        "p = 2 * a; q = 2 * b; s = cos(p) + cosh(q); (sin(p) / s, sinh(q) / s)",
    ),
    "tanh": PerElement(
        Operations(mul=2, add=1, div=2, special=4),
        "p = 2 * a; q = 2 * b; s = cosh(p) + cos(q); (sinh(p) / s, sin(q) / s)",
    ),
    "sigmoid": PerElement(
        Operations(mul=4, add=5, div=2, special=3),
        "r = exp(-a); c = -b; p = 1 + r * cos(c); q = r * sin(c); s = p * p + q * q; (p / s, -q / s)",
    ),
    "silu": PerElement(
        Operations(mul=8, add=7, div=2, special=3),
        "r = exp(-a); c = -b; p = 1 + r * cos(c); q = r * sin(c); s = p * p + q * q; u = p / s; v = -q / s; "
        "(a * u - b * v, a * v + b * u)",
    ),
    "isnan": PerElement(EQUAL, "(a != a) | (b != b)"),
    "isfinite": PerElement(Operations(add=2, cmp=3), "(abs(a) < inf) & (abs(b) < inf)"),
    "isinf": PerElement(Operations(add=2, cmp=3), "(abs(a) == inf) | (abs(b) == inf)"),
    "logical_not": PerElement(EQUAL, "(a == 0) & (b == 0)"),
}
"""Functions of one complex number ``a + b i``. A function that is not listed is one special of each part."""


@cache
def for_complex_numbers(calculator: Calculator) -> Calculator:
    """Return a calculator that counts layers with complex operands by the parts of their numbers.

    Calculators of Fourier transforms count parts themselves.
    """
    if calculator.__module__.endswith(".signal"):
        return calculator

    @wraps(calculator)
    def count(layer: Layer) -> Cost:
        cost = Cost(*calculator(layer))
        if not any(map(is_complex, layer.inputs.values())):
            return cost
        return cost._replace(flops=_operations(layer, cost), macs=4 * cost.macs)

    return count


def is_complex(tensor: Tensor) -> bool:
    """Return whether the elements of a tensor are complex numbers."""
    return tensor.dtype.startswith("complex")


def _operations(layer: Layer, cost: Cost) -> Operations:
    op, operations = layer.op.removeprefix("foreach_"), operations_of(cost)
    elements, results = sum(x.size for x in layer.inputs.values()), sum(y.size for y in layer.outputs)
    if cost.macs != 0:
        return _contraction(layer, operations)
    if op in FUNCTIONS:
        return results * FUNCTIONS[op].operations
    if op in JOINS:
        return results * JOINS[op](layer, _are_complex(layer))
    if op in REDUCTIONS:
        return REDUCTIONS[op](layer, elements, layer.out.size if op == layer.op else results)
    if op == "l1_loss":
        size = layer["x"].size
        return size * (SUM + MODULUS) + replace(operations, add=operations.add - 2 * size)
    return _in_parts(operations, 2 if op in UNARY else 1)


def _in_parts(operations: Operations, parts_of_function: int = 1) -> Operations:
    # All operands are complex; a function is evaluated for one part or for both.
    direct = Operations(fma=4 * operations.fma, cmp=operations.cmp, special=parts_of_function * operations.special)
    return direct + operations.add * SUM + operations.mul * PRODUCT + operations.div * QUOTIENT


def _contraction(layer: Layer, operations: Operations) -> Operations:
    # Either part is a real dot product of twice the length. A dot product that starts with a mul has a mul for each
    # part; ``alpha`` and ``beta`` are plain products.
    scaled = scaling_products(layer) if layer.op in ("linear", "matmul") else Operations()
    first = operations.mul - scaled.mul
    factors = [layer.attrs.get(name) for name in ("alpha", "beta")]
    factor = _product(True, any(isinstance(number, complex) for number in factors))
    products = _in_parts(replace(operations, mul=0)) + Operations(fma=2 * first, mul=2 * first)
    return products + scaled.mul * factor


def _are_complex(layer: Layer) -> list[bool]:
    if not layer.op.startswith("foreach_"):
        return [is_complex(operand) for operand in layer.inputs.values()]
    found = [is_complex(operand) for operand in list(layer.inputs.values())[:: len(layer.outputs)]]
    # A number beside one list is real.
    return found if len(found) > 1 else [*found, False]


def _product(x: bool, y: bool) -> Operations:
    return PRODUCT if x and y else Operations(mul=2 if x or y else 1)


def _quotient(x: bool, y: bool) -> Operations:
    if not y:
        return Operations(div=2 if x else 1)
    # A real x / (c + d i) is x c / s and -(x d) / s with s = c c + d d.
    return QUOTIENT if x else Operations(mul=4, add=2, div=2)


def _joined(join: Callable[[bool, bool], Operations]) -> Join:
    def operations(layer: Layer, are_complex: Sequence[bool]) -> Operations:
        # From left to right.
        left, *others = are_complex
        total = Operations()
        for right in others:
            total, left = total + join(left, right), left or right
        return total

    return operations


def _sum(layer: Layer, are_complex: Sequence[bool]) -> Operations:
    alpha = layer.attrs.get("alpha", 1)
    # A sum with a real number changes the real part alone; ``alpha`` makes the additions fma.
    if alpha == 1:
        return _joined(lambda x, y: SUM if x and y else Operations(add=1))(layer, are_complex)
    return Operations(fma=_product(are_complex[-1], isinstance(alpha, complex)).mul)


def _difference(layer: Layer, are_complex: Sequence[bool]) -> Operations:
    if layer.attrs.get("alpha", 1) != 1:
        return _sum(layer, are_complex)
    # A real number minus a complex one also negates the imaginary part.
    return _joined(lambda x, y: SUM if y else Operations(add=1))(layer, are_complex)


def _power(layer: Layer, are_complex: Sequence[bool]) -> Operations:
    exponent, (base, *others) = layer.attrs.get("exponent"), are_complex
    products = power_operations(exponent)
    if not isinstance(exponent, tuple) and products.special == 0:
        return products.mul * PRODUCT
    # Otherwise exp(x1 log(x0)).
    logarithm = LOG if base else Operations(special=1)
    return logarithm + _product(base, any(others)) + EXP


def _interpolation(layer: Layer, are_complex: Sequence[bool]) -> Operations:
    return 2 * SUM + _product(True, any(are_complex[2:]))


def _added_product(layer: Layer, are_complex: Sequence[bool]) -> Operations:
    _, x1, x2 = are_complex
    scale = Operations() if layer.attrs.get("value", 1) == 1 else _product(x1, False)
    # Either part of the product is added by fma.
    return Operations(fma=_product(x1, x2).mul) + scale


def _added_quotient(layer: Layer, are_complex: Sequence[bool]) -> Operations:
    _, x1, x2 = are_complex
    parts = 2 if x1 or x2 else 1
    return _quotient(x1, x2) + (Operations(add=parts) if layer.attrs.get("value", 1) == 1 else Operations(fma=parts))


Join = Callable[[Layer, Sequence[bool]], Operations]

JOINS: Mapping[str, Join] = {
    "add": _sum,
    "sub": _difference,
    "mul": _joined(_product),
    "div": _joined(_quotient),
    "equal": _joined(lambda x, y: EQUAL),
    "not_equal": _joined(lambda x, y: EQUAL),
    "where": lambda layer, are_complex: Operations(cmp=2),
    "pow": _power,
    "lerp": _interpolation,
    "addcmul": _added_product,
    "addcdiv": _added_quotient,
    # |x0 - x1| <= atol + rtol |x1|
    "isclose": lambda layer, are_complex: SUM + 2 * MODULUS + Operations(mul=1, add=1, cmp=1),
}
"""The operations per element of operators whose operands may be real or complex."""


def _norm(p: object, elements: Dim, results: Dim) -> Operations:
    if p == 2:
        # The sum of squares is a dot product of all parts.
        return Operations(mul=results, fma=2 * elements - results, special=results)
    moduli = elements * MODULUS
    if p in (float("inf"), float("-inf")):
        return moduli + Operations(cmp=elements - results)
    if p == 1:
        return moduli + Operations(add=elements - results)
    return moduli + elements * power_operations(p) + Operations(add=elements - results, special=results)


def _variance(elements: Dim, results: Dim, roots: Dim) -> Operations:
    # Means, differences, and the squares of all parts of the differences.
    means = Operations(add=2 * (elements - results), div=2 * results)
    squares = Operations(mul=results, fma=2 * elements - results, div=results, special=roots)
    return means + elements * SUM + squares


REDUCTIONS: Mapping[str, Callable[[Layer, Dim, Dim], Operations]] = {
    "reduce_mean": lambda layer, n, y: Operations(add=2 * (n - y), div=2 * y),
    "count_nonzero": lambda layer, n, y: n * EQUAL + Operations(add=n - y),
    "reduce_l1": lambda layer, n, y: _norm(1, n, y),
    "reduce_l2": lambda layer, n, y: _norm(2, n, y),
    "reduce_linf": lambda layer, n, y: _norm(float("inf"), n, y),
    "reduce_lp": lambda layer, n, y: _norm(layer.attrs.get("p"), n, y),
    "norm": lambda layer, n, y: _norm(layer.attrs.get("p", 2), n, y),
    "var": lambda layer, n, y: _variance(n, y, 0),
    "var_mean": lambda layer, n, y: _variance(n, y, 0),
    "std": lambda layer, n, y: _variance(n, y, y),
    "std_mean": lambda layer, n, y: _variance(n, y, y),
}
"""The operations of reductions of n complex numbers to y results, for which :func:`_in_parts` does not hold."""
