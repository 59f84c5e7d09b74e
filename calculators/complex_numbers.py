"""Operations on complex numbers, counted as the operations on their real and imaginary parts.

Calculators are written for real numbers. :func:`for_complex_numbers` converts what they count for layers with complex
operands: a sum is 2 add, a product 4 mul and 2 add, a quotient 6 mul, 3 add and 2 div, a product in a contraction 4
MACs. Functions have definitions of their own, and so have operators that join real with complex numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, wraps

from costcore.ir import Calculator, Cost, Dim, Layer, Operations, Tensor

from ._shared import operations_of, power_operations
from .complex_functions import EQUAL, EXP, FUNCTIONS, LOG, MODULUS, PRODUCT, QUOTIENT, SUM
from .elementwise.arithmetic import UNARY
from .matmul.dense import scaling_products


@cache
def for_complex_numbers(calculator: Calculator) -> Calculator:
    """Return a calculator that counts layers with complex operands by the parts of their numbers.

    Those of Fourier transforms count parts themselves.
    """
    if ".signal." in calculator.__module__:
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
    """Return the operations on parts of a layer whose cost on real numbers is ``cost``."""
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
    """Return operations whose operands are all complex; a function is evaluated for one part or for both."""
    direct = Operations(fma=4 * operations.fma, cmp=operations.cmp, special=parts_of_function * operations.special)
    return direct + operations.add * SUM + operations.mul * PRODUCT + operations.div * QUOTIENT


def _contraction(layer: Layer, operations: Operations) -> Operations:
    """Return the operations of complex dot products: either part is a real dot product of twice the length.

    A dot product that starts with a mul has a mul for each part. Factors ``alpha`` and ``beta`` are plain products.
    """
    scaled = scaling_products(layer) if layer.op in ("linear", "matmul") else Operations()
    first = operations.mul - scaled.mul
    factors = [layer.attrs.get(name) for name in ("alpha", "beta")]
    factor = _product(True, any(isinstance(number, complex) for number in factors))
    products = _in_parts(replace(operations, mul=0)) + Operations(fma=2 * first, mul=2 * first)
    return products + scaled.mul * factor


def _are_complex(layer: Layer) -> list[bool]:
    """Return whether each operand is complex, or each list of operands; a number beside one list is real."""
    if not layer.op.startswith("foreach_"):
        return [is_complex(operand) for operand in layer.inputs.values()]
    found = [is_complex(operand) for operand in list(layer.inputs.values())[:: len(layer.outputs)]]
    return found if len(found) > 1 else [*found, False]


def _product(x: bool, y: bool) -> Operations:
    return PRODUCT if x and y else Operations(mul=2 if x or y else 1)


def _quotient(x: bool, y: bool) -> Operations:
    """Return the operations of x / y; a real x / (c + d i) is x c / s and -(x d) / s with s = c c + d d."""
    if not y:
        return Operations(div=2 if x else 1)
    return QUOTIENT if x else Operations(mul=4, add=2, div=2)


def _joined(join: Callable[[bool, bool], Operations]) -> Join:
    """Return the operations of joining all operands from left to right."""

    def operations(layer: Layer, are_complex: Sequence[bool]) -> Operations:
        left, *others = are_complex
        total = Operations()
        for right in others:
            total, left = total + join(left, right), left or right
        return total

    return operations


def _sum(layer: Layer, are_complex: Sequence[bool]) -> Operations:
    """A sum with a real number changes the real part alone; a factor ``alpha`` makes the additions fma."""
    alpha = layer.attrs.get("alpha", 1)
    if alpha == 1:
        return _joined(lambda x, y: SUM if x and y else Operations(add=1))(layer, are_complex)
    return Operations(fma=_product(are_complex[-1], isinstance(alpha, complex)).mul)


def _difference(layer: Layer, are_complex: Sequence[bool]) -> Operations:
    """As a sum; a real number minus a complex one also negates the imaginary part."""
    if layer.attrs.get("alpha", 1) != 1:
        return _sum(layer, are_complex)
    return _joined(lambda x, y: SUM if y else Operations(add=1))(layer, are_complex)


def _power(layer: Layer, are_complex: Sequence[bool]) -> Operations:
    """Products for the exponents 2 and 3, else exp(x1 log(x0))."""
    exponent, (base, *others) = layer.attrs.get("exponent"), are_complex
    products = power_operations(exponent)
    if not isinstance(exponent, tuple) and products.special == 0:
        return products.mul * PRODUCT
    logarithm = LOG if base else Operations(special=1)
    return logarithm + _product(base, any(others)) + EXP


def _interpolation(layer: Layer, are_complex: Sequence[bool]) -> Operations:
    return 2 * SUM + _product(True, any(are_complex[2:]))


def _added_product(layer: Layer, are_complex: Sequence[bool]) -> Operations:
    """x0 + value x1 x2: either part of the product is added by fma."""
    _, x1, x2 = are_complex
    scale = Operations() if layer.attrs.get("value", 1) == 1 else _product(x1, False)
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
    """Return the operations of p-norms: the sum of squares is a dot product of all parts."""
    if p == 2:
        return Operations(mul=results, fma=2 * elements - results, special=results)
    moduli = elements * MODULUS
    if p in (float("inf"), float("-inf")):
        return moduli + Operations(cmp=elements - results)
    if p == 1:
        return moduli + Operations(add=elements - results)
    return moduli + elements * power_operations(p) + Operations(add=elements - results, special=results)


def _variance(elements: Dim, results: Dim, roots: Dim) -> Operations:
    """Return the operations of variances: means, differences, and the squares of all parts of these."""
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
"""The operations of reductions of n complex numbers to y results that differ from those of :func:`_in_parts`."""
