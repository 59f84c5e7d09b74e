"""Arithmetic, comparisons and functions of single elements."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Layer, Operations, PerElement, covers, element_wise

from .._shared import power_operations

ADD, MUL, DIV = Operations(add=1), Operations(mul=1), Operations(div=1)
CMP, SPECIAL = Operations(cmp=1), Operations(special=1)


def _functions(*names: str) -> dict[str, PerElement]:
    return {name: PerElement(SPECIAL, f"{name}(x)") for name in names}


UNARY: Mapping[str, PerElement] = {
    "neg": PerElement(ADD, "-x"),
    "abs": PerElement(ADD, "abs(x)"),
    "sign": PerElement(Operations(cmp=2), "where(x > 0, 1, where(x < 0, -1, 0))"),
    "floor": PerElement(CMP, "floor(x)"),
    "ceil": PerElement(CMP, "ceil(x)"),
    "round": PerElement(CMP, "round(x)"),
    "trunc": PerElement(CMP, "trunc(x)"),
    "frac": PerElement(Operations(add=1, cmp=1), "x - trunc(x)"),
    "square": PerElement(MUL, "x * x"),
    "reciprocal": PerElement(DIV, "1 / x"),
    "rsqrt": PerElement(Operations(div=1, special=1), "1 / sqrt(x)"),
    "logit": PerElement(Operations(add=1, div=1, special=1), "log(x / (1 - x))"),
    "sinc": PerElement(Operations(mul=1, div=1, cmp=1, special=1), "s = pi * x; where(x == 0, 1, sin(s) / s)"),
    "entropy": PerElement(Operations(mul=1, add=1, special=1), "-(x * log(x))"),
    "deg2rad": PerElement(MUL, "x * (pi / 180)"),
    "rad2deg": PerElement(MUL, "x * (180 / pi)"),
    "logical_not": PerElement(CMP, "x == 0"),
    "bitwise_not": PerElement(CMP, "~x"),
    "signbit": PerElement(CMP, "x < 0"),
    "isnan": PerElement(CMP, "x != x"),
    "isinf": PerElement(Operations(add=1, cmp=1), "abs(x) == inf"),
    "isposinf": PerElement(CMP, "x == inf"),
    "isneginf": PerElement(CMP, "x == -inf"),
    "isfinite": PerElement(Operations(add=1, cmp=1), "abs(x) < inf"),
    "nan_to_num": PerElement(Operations(cmp=3), "where(x != x, 0, min(max(x, lowest), largest))"),
    "conj": PerElement(ADD, "-imag(x)"),
    **_functions("exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "sqrt", "cbrt"),
    **_functions("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh"),
    **_functions("erf", "erfc", "erfinv", "erfcinv", "erfcx", "ndtr", "ndtri", "log_ndtr"),
    **_functions("lgamma", "digamma", "i0", "i0e", "i1", "i1e", "angle"),
}


@element_wise
@covers(UNARY)
def calc_unary(layer: Layer) -> Cost:
    """Functions of one operand: the operations of the definition, once per element.

    Rounding is one ``cmp`` (the choice between neighboring integers). A bit operation is one ``cmp``. A change of sign
    and an absolute value are one ``add``. A function that is evaluated as such is one ``special``.

    Shapes: x[N, C] -> y[N, C]
    """
    return Cost(layer["x"].size * UNARY[layer.op].operations, layer.read, layer.written, layer.attrs)


NARY: Mapping[str, PerElement] = {
    "mul": PerElement(MUL, "x0 * x1"),
    "div": PerElement(DIV, "x0 / x1"),
    "floor_div": PerElement(Operations(div=1, cmp=1), "floor(x0 / x1)"),
    "trunc_div": PerElement(Operations(div=1, cmp=1), "trunc(x0 / x1)"),
    "mod": PerElement(DIV, "x0 % x1"),
    "fmod": PerElement(DIV, "fmod(x0, x1)"),
    "maximum": PerElement(CMP, "max(x0, x1)"),
    "minimum": PerElement(CMP, "min(x0, x1)"),
    "equal": PerElement(CMP, "x0 == x1"),
    "not_equal": PerElement(CMP, "x0 != x1"),
    "less": PerElement(CMP, "x0 < x1"),
    "less_equal": PerElement(CMP, "x0 <= x1"),
    "greater": PerElement(CMP, "x0 > x1"),
    "greater_equal": PerElement(CMP, "x0 >= x1"),
    "logical_and": PerElement(CMP, "x0 & x1"),
    "logical_or": PerElement(CMP, "x0 | x1"),
    "logical_xor": PerElement(CMP, "x0 ^ x1"),
    "bitwise_and": PerElement(CMP, "x0 & x1"),
    "bitwise_or": PerElement(CMP, "x0 | x1"),
    "bitwise_xor": PerElement(CMP, "x0 ^ x1"),
    "bitwise_left_shift": PerElement(CMP, "x0 << x1"),
    "bitwise_right_shift": PerElement(CMP, "x0 >> x1"),
}


@element_wise
@covers(NARY)
def calc_nary(layer: Layer) -> Cost:
    """Arithmetic and comparisons of N operands: (N - 1) * |y| operations.

    |y| is the size of the broadcast output; operands are read at their own size. A scalar constant is an operand
    without bytes. Bit operations and logic are ``cmp``.

    Shapes: x0[N, C], x1[C] -> y[N, C]
    """
    operations = NARY[layer.op].operations * (len(layer.inputs) - 1)
    return Cost(layer.out.size * operations, layer.read, layer.written, layer.attrs)


SUMS: Mapping[str, PerElement] = {
    "add": PerElement(ADD, "x0 + x1"),
    "sub": PerElement(ADD, "x0 - x1"),
}


@element_wise
@covers(SUMS)
def calc_sum_of_operands(layer: Layer) -> Cost:
    """Sum or difference of N operands: (N - 1) * |y| additions.

    With ``alpha`` other than 1 the last operand is scaled as it is added, ``x0 + alpha * x1``, which is an fma (such as
    the parameter update of SGD). A scalar constant is an operand without bytes.

    Shapes: x0[N, C], x1[C] -> y[N, C]
    """
    operation = ADD if layer.attrs.get("alpha", 1) == 1 else Operations(fma=1)
    operations = operation * (len(layer.inputs) - 1)
    return Cost(layer.out.size * operations, layer.read, layer.written, layer.attrs)


@element_wise
def calc_pow(layer: Layer) -> Cost:
    """Power with broadcasting: one special per element; with the constant exponent 2 or 3, 1 or 2 mul.

    The attribute ``exponent`` is the exponent if it is a constant. Frameworks evaluate squares and cubes as products.

    Shapes: x0[N, C], x1[C] -> y[N, C]
    """
    operations = power_operations(layer.attrs.get("exponent"))
    return Cost(layer.out.size * operations, layer.read, layer.written, layer.attrs)


BINARY: Mapping[str, PerElement] = {
    "atan2": PerElement(SPECIAL, "atan2(x0, x1)"),
    "copysign": PerElement(CMP, "copysign(x0, x1)"),
    "nextafter": PerElement(CMP, "nextafter(x0, x1)"),
    "heaviside": PerElement(Operations(cmp=2), "where(x0 == 0, x1, where(x0 > 0, 1, 0))"),
    "hypot": PerElement(Operations(mul=2, add=1, special=1), "sqrt(x0 * x0 + x1 * x1)"),
    "logaddexp": PerElement(Operations(add=1, special=3), "log(exp(x0) + exp(x1))"),
    "logaddexp2": PerElement(Operations(add=1, special=3), "log2(exp2(x0) + exp2(x1))"),
    "xlogy": PerElement(Operations(mul=1, cmp=1, special=1), "where(x0 == 0, 0, x0 * log(x1))"),
    "xlog1py": PerElement(Operations(mul=1, cmp=1, special=1), "where(x0 == 0, 0, x0 * log1p(x1))"),
    "ldexp": PerElement(Operations(mul=1, special=1), "x0 * exp2(x1)"),
    "squared_difference": PerElement(Operations(mul=1, add=1), "d = x0 - x1; d * d"),
    "isclose": PerElement(Operations(mul=1, add=4, cmp=1), "abs(x0 - x1) <= atol + rtol * abs(x1)"),
    "igamma": PerElement(SPECIAL, "igamma(x0, x1)"),
    "igammac": PerElement(SPECIAL, "igammac(x0, x1)"),
    "polygamma": PerElement(SPECIAL, "polygamma(x0, x1)"),
    "zeta": PerElement(SPECIAL, "zeta(x0, x1)"),
    "gcd": PerElement(SPECIAL, "gcd(x0, x1)"),
    "lcm": PerElement(SPECIAL, "lcm(x0, x1)"),
}


@element_wise
@covers(BINARY)
def calc_binary(layer: Layer) -> Cost:
    """Functions of two operands: the operations of the definition, once per output element.

    Shapes: x0[N, C], x1[C] -> y[N, C]
    """
    return Cost(layer.out.size * BINARY[layer.op].operations, layer.read, layer.written, layer.attrs)


TERNARY: Mapping[str, PerElement] = {
    "lerp": PerElement(Operations(mul=1, add=2), "x0 + x2 * (x1 - x0)"),
    "gaussian": PerElement(Operations(fma=1, mul=1, special=1), "fma(exp(x1 * 0.5), x2, x0)"),
}


@element_wise
@covers(TERNARY)
def calc_ternary(layer: Layer) -> Cost:
    """Functions of three operands: the operations of the definition, once per output element.

    ``gaussian`` samples a distribution with mean x0 and log variance x1. The noise x2 may be an operand; drawing it
    costs nothing.

    Shapes: x0[N, C], x1[N, C], x2[N, C] -> y[N, C]
    """
    return Cost(layer.out.size * TERNARY[layer.op].operations, layer.read, layer.written, layer.attrs)


@element_wise
def calc_addcmul(layer: Layer) -> Cost:
    """Product added to an operand, ``x0 + value * x1 * x2``: one fma per element.

    A ``value`` other than 1 adds 1 mul.

    Shapes: x0[N, C], x1[N, C], x2[N, C] -> y[N, C]
    """
    scaled = 0 if layer.attrs.get("value", 1) == 1 else 1
    return Cost(layer.out.size * Operations(fma=1, mul=scaled), layer.read, layer.written, layer.attrs)


@element_wise
def calc_addcdiv(layer: Layer) -> Cost:
    """Quotient added to an operand, ``x0 + value * (x1 / x2)``: one div and one add per element.

    With a ``value`` other than 1 the add is an fma.

    Shapes: x0[N, C], x1[N, C], x2[N, C] -> y[N, C]
    """
    operations = Operations(div=1, add=1) if layer.attrs.get("value", 1) == 1 else Operations(div=1, fma=1)
    return Cost(layer.out.size * operations, layer.read, layer.written, layer.attrs)


@element_wise
def calc_where(layer: Layer) -> Cost:
    """Selection by a condition, ``x0`` if it holds, else ``x1``: one cmp per output element.

    Both operands are read completely, because the selected elements are unknown.

    Shapes: condition[N, C], x0[N, C], x1[N, C] -> y[N, C]
    """
    return Cost(layer.out.size * CMP, layer.read, layer.written, layer.attrs)


@element_wise
def calc_clip(layer: Layer) -> Cost:
    """Values limited to an interval: one cmp per element and bound.

    Bounds are the attributes ``lower`` and ``upper`` (None or absent: no bound), or operands of these names.

    Shapes: x[N, C] -> y[N, C]
    Settings: lower=0, upper=6
    """
    bounds = sum(1 for name in ("lower", "upper") if name in layer or layer.attrs.get(name) is not None)
    return Cost(layer["x"].size * Operations(cmp=bounds), layer.read, layer.written, layer.attrs)


@element_wise
def calc_elementwise_mean(layer: Layer) -> Cost:
    """Mean of N operands with broadcasting: N - 1 additions and one division per output element.

    Shapes: x0[N, C], x1[C] -> y[N, C]
    """
    operations = Operations(add=len(layer.inputs) - 1, div=1)
    return Cost(layer.out.size * operations, layer.read, layer.written, layer.attrs)


@element_wise
def calc_polar(layer: Layer) -> Cost:
    """Complex numbers from modulus and angle, ``x0 * cos(x1)`` and ``x0 * sin(x1)``.

    2 mul and 2 special per element.

    Shapes: x0[N, C], x1[N, C] -> y[N, C]
    """
    return Cost(layer.out.size * Operations(mul=2, special=2), layer.read, layer.written, layer.attrs)
