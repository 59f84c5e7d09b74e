"""Arithmetic, comparisons and functions of single elements, with broadcasting."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Layer, Operations, PerElement, covers

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


@covers(UNARY)
def calc_unary(layer: Layer) -> Cost:
    """Function of one element: for every element the operations of its definition.

    Rounding is one ``cmp`` (the choice among neighbouring integers), bit operations are one ``cmp``, a change of sign
    and an absolute value are one ``add``, and a function evaluated by itself is one ``special``. Complex numbers count
    as real ones do.

    Shapes: x[N, C] -> y[N, C]
    """
    return Cost(layer["x"].size * UNARY[layer.op].operations, layer.read, layer.written, layer.attrs)


NARY: Mapping[str, PerElement] = {
    "mul": PerElement(MUL, "x0 * x1"),
    "div": PerElement(DIV, "x0 / x1"),
    "floor_div": PerElement(DIV, "x0 // x1"),
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


@covers(NARY)
def calc_nary(layer: Layer) -> Cost:
    """Arithmetic or comparison of N operands with broadcasting: N - 1 times |y| operations.

    |y| is the broadcast output; operands are read as they are, not as they are broadcast. A scalar constant is an
    operand and takes no bytes. Bit operations and logic are ``cmp``.

    Shapes: x0[N, C], x1[C] -> y[N, C]
    """
    operations = NARY[layer.op].operations * (len(layer.inputs) - 1)
    return Cost(layer.out.size * operations, layer.read, layer.written, layer.attrs)


SUMS: Mapping[str, PerElement] = {
    "add": PerElement(ADD, "x0 + x1"),
    "sub": PerElement(ADD, "x0 - x1"),
}


@covers(SUMS)
def calc_sum_of_operands(layer: Layer) -> Cost:
    """Sum or difference of N operands with broadcasting: N - 1 times |y| additions.

    With ``alpha`` other than 1 the last operand is scaled as it is added, ``x0 + alpha * x1``: scale-and-shift, so fma
    (the parameter update of SGD is one). A scalar constant is an operand and takes no bytes.

    Shapes: x0[N, C], x1[C] -> y[N, C]
    """
    operation = ADD if layer.attrs.get("alpha", 1) == 1 else Operations(fma=1)
    operations = operation * (len(layer.inputs) - 1)
    return Cost(layer.out.size * operations, layer.read, layer.written, layer.attrs)


POWERS: Mapping[object, PerElement] = {
    2: PerElement(MUL, "x * x"),
    3: PerElement(Operations(mul=2), "x * x * x"),
}


def calc_pow(layer: Layer) -> Cost:
    """Power with broadcasting: one special per element, but a constant exponent of 2 or 3 is 1 or 2 multiplications.

    ``exponent`` is given where it is a constant; frameworks evaluate these two as products.

    Shapes: x0[N, C], x1[C] -> y[N, C]
    """
    element = POWERS.get(layer.attrs.get("exponent"))
    operations = SPECIAL if element is None else element.operations
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


@covers(BINARY)
def calc_binary(layer: Layer) -> Cost:
    """Function of two operands with broadcasting: for every output element the operations of its definition.

    Shapes: x0[N, C], x1[C] -> y[N, C]
    """
    return Cost(layer.out.size * BINARY[layer.op].operations, layer.read, layer.written, layer.attrs)


TERNARY: Mapping[str, PerElement] = {
    "lerp": PerElement(Operations(mul=1, add=2), "x0 + x2 * (x1 - x0)"),
    "gaussian": PerElement(Operations(fma=1, mul=1, special=1), "fma(exp(x1 * 0.5), x2, x0)"),
}


@covers(TERNARY)
def calc_ternary(layer: Layer) -> Cost:
    """Function of three operands with broadcasting: for every output element the operations of its definition.

    ``gaussian`` draws from a distribution of mean x0 and log variance x1; the noise x2 may be an operand, and costs
    nothing to draw.

    Shapes: x0[N, C], x1[N, C], x2[N, C] -> y[N, C]
    """
    return Cost(layer.out.size * TERNARY[layer.op].operations, layer.read, layer.written, layer.attrs)


def calc_addcmul(layer: Layer) -> Cost:
    """Product added to an operand, ``x0 + value * x1 * x2``: one fma per element, and a mul for a value other than 1.

    Shapes: x0[N, C], x1[N, C], x2[N, C] -> y[N, C]
    """
    scaled = 0 if layer.attrs.get("value", 1) == 1 else 1
    return Cost(layer.out.size * Operations(fma=1, mul=scaled), layer.read, layer.written, layer.attrs)


def calc_addcdiv(layer: Layer) -> Cost:
    """Quotient added to an operand, ``x0 + value * (x1 / x2)``: a div and an add; the add is an fma for a value not 1.

    Shapes: x0[N, C], x1[N, C], x2[N, C] -> y[N, C]
    """
    operations = Operations(div=1, add=1) if layer.attrs.get("value", 1) == 1 else Operations(div=1, fma=1)
    return Cost(layer.out.size * operations, layer.read, layer.written, layer.attrs)


def calc_where(layer: Layer) -> Cost:
    """Selection by a condition, ``x0`` where it holds and ``x1`` elsewhere: one comparison per output element.

    Both operands are read whole, as which elements are needed is not known.

    Shapes: condition[N, C], x0[N, C], x1[N, C] -> y[N, C]
    """
    return Cost(layer.out.size * CMP, layer.read, layer.written, layer.attrs)


def calc_clip(layer: Layer) -> Cost:
    """Values limited to an interval: one comparison per element and bound.

    Bounds are the settings ``lower`` and ``upper`` (None or not given: no bound), or operands of these names.

    Shapes: x[N, C] -> y[N, C]
    Settings: lower=0, upper=6
    """
    bounds = sum(1 for name in ("lower", "upper") if name in layer or layer.attrs.get(name) is not None)
    return Cost(layer["x"].size * Operations(cmp=bounds), layer.read, layer.written, layer.attrs)


def calc_elementwise_mean(layer: Layer) -> Cost:
    """Mean of N operands with broadcasting: N - 1 additions and a division per output element.

    Shapes: x0[N, C], x1[C] -> y[N, C]
    """
    operations = Operations(add=len(layer.inputs) - 1, div=1)
    return Cost(layer.out.size * operations, layer.read, layer.written, layer.attrs)


def calc_polar(layer: Layer) -> Cost:
    """Complex numbers from modulus and angle, ``x0 * cos(x1)`` and ``x0 * sin(x1)``: 2 mul and 2 special per element.

    Shapes: x0[N, C], x1[N, C] -> y[N, C]
    """
    return Cost(layer.out.size * Operations(mul=2, special=2), layer.read, layer.written, layer.attrs)
