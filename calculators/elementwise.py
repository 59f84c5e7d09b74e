"""Functions of single elements, with broadcasting, and their gradients."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Layer, Operations, PerElement, covers, element_wise, pattern

from ._shared import power_operations
from .activation import ACTIVATIONS

# Arithmetic, comparisons and functions of single elements.


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


# Chains of elementwise functions that are one operator in some formats.


CHAINS: Mapping[str, PerElement] = {
    "gated_add": PerElement(Operations(fma=1), "fma(x1, gate, x0)"),
    "scaled_silu": PerElement(Operations(mul=2, add=2, div=1, special=1), "z = scale * x; z * (1 / (1 + exp(-z)))"),
    "scaled_tanh": PerElement(Operations(mul=2, special=1), "alpha * tanh(beta * x)"),
    "scaled_softplus": PerElement(Operations(mul=2, add=1, special=2), "alpha * log(1 + exp(beta * x))"),
    "scale_shift": PerElement(Operations(fma=1), "fma(scale, x, shift)"),
}


@element_wise
@covers(CHAINS)
def calc_chain(layer: Layer) -> Cost:
    """Chains of elementwise functions: the operations of the definition, once per output element.

    ``scale`` and ``shift`` are attributes, or operands with one element per row, channel or tensor.

    Shapes: x[N, C] -> y[N, C]
    """
    return Cost(layer.out.size * CHAINS[layer.op].operations, layer.read, layer.written, layer.attrs)


COMPLEX: Mapping[str, str] = {
    "complex_pairs_mul": "(a + b i) (c + d i) = (a c - b d) + (a d + b c) i",
    "complex_pairs_mul_conj": "(a + b i) (c - d i) = (a c + b d) + (b c - a d) i",
}


@pattern("map")
@covers(COMPLEX)
def calc_complex_pairs(layer: Layer) -> Cost:
    """Products of complex numbers stored as pairs: real and imaginary part adjacent along the last axis.

    A product is 4 mul and 2 add: 2 mul and 1 add for each of its two parts.

    Shapes: x0[N, C, 2], x1[N, C, 2] -> y[N, C, 2]
    """
    return Cost(layer.out.size * Operations(mul=2, add=1), layer.read, layer.written, layer.attrs)


@pattern("map")
def calc_integer_mul(layer: Layer) -> Cost:
    """Product of quantized values as integers: 1 mul per output element.

    First 1 add per element of each operand that has a zero point.

    Shapes: x0[N, C], x0_zero_point[1]?, x1[N, C], x1_zero_point[1]? -> y[N, C]
    """
    shifted = sum(layer[name].size for name in ("x0", "x1") if f"{name}_zero_point" in layer)
    return Cost(Operations(mul=layer.out.size, add=shifted), layer.read, layer.written, layer.attrs)


# Functions of probability distributions.


DISTRIBUTIONS_UNARY: Mapping[str, PerElement] = {
    "laplace_cdf": PerElement(
        Operations(mul=1, add=3, cmp=2, special=1),
        "0.5 - where(x > 0, 0.5, where(x < 0, -0.5, 0)) * expm1(-abs(x))",
    ),
    "laplace_icdf": PerElement(
        Operations(mul=2, add=3, cmp=2, special=1),
        "h = 1 - 2 * x; where(h > 0, 1, where(h < 0, -1, 0)) * log1p(-abs(h))",
    ),
}


@pattern("map")
@covers(DISTRIBUTIONS_UNARY)
def calc_distribution_function(layer: Layer) -> Cost:
    """Cumulative distribution functions and their inverses: the operations of the definition, once per element.

    Shapes: x[N, C] -> y[N, C]
    """
    return Cost(layer["x"].size * DISTRIBUTIONS_UNARY[layer.op].operations, layer.read, layer.written, layer.attrs)


DISTRIBUTIONS_BINARY: Mapping[str, PerElement] = {
    "bernoulli_log_prob": PerElement(Operations(mul=1, add=4, special=2), "x0 * (x1 - 1) - log(exp(-x0) + 1)"),
    "checked_bernoulli_log_prob": PerElement(
        Operations(mul=1, add=4, cmp=2, special=2),
        "y = x0 * (x1 - 1) - log(exp(-x0) + 1); where(x1 == 0, y, where(x1 == 1, y, -inf))",
    ),
    "xlogx": PerElement(Operations(mul=1, cmp=1), "where(x0 == 0, 0, x0 * x1)"),
}


@pattern("map")
@covers(DISTRIBUTIONS_BINARY)
def calc_distribution_terms(layer: Layer) -> Cost:
    """Logarithms of probabilities and terms of an entropy: the operations of the definition, once per output element.

    * ``bernoulli_log_prob``: logits x0 and outcomes x1; ``checked`` tests whether the outcomes are 0 or 1. The limits
      for infinite logits are not counted.
    * ``xlogx``: probabilities x0 and their logarithms x1, which are given.

    Masks that a backward pass reads are further outputs.

    Shapes: x0[N, C], x1[N, C] -> y[N, C]
    """
    return Cost(layer.out.size * DISTRIBUTIONS_BINARY[layer.op].operations, layer.read, layer.written, layer.attrs)


# Elementwise operators on lists of tensors, as optimizers run them.


_NAMES = (
    "abs acos add asin atan ceil cos cosh div erf erfc exp expm1 floor frac lerp lgamma log log10 log1p log2 maximum "
    "minimum mul neg reciprocal round rsqrt sigmoid sign sin sinh sqrt sub tan tanh trunc"
)

FOREACH: Mapping[str, PerElement] = {
    **{f"foreach_{name}": {**ACTIVATIONS, **UNARY, **NARY, **SUMS, **TERNARY}[name] for name in _NAMES.split()},
    "foreach_pow": PerElement(Operations(special=1), "x0 ** x1"),
    "foreach_addcmul": PerElement(Operations(fma=1), "fma(x1, x2, x0)"),
    "foreach_addcdiv": PerElement(Operations(div=1, add=1), "x0 + x1 / x2"),
    "foreach_copy": PerElement(Operations(), "x"),
}

SCALED: Mapping[str, PerElement] = {
    "foreach_add": PerElement(Operations(fma=1), "fma(alpha, x1, x0)"),
    "foreach_sub": PerElement(Operations(fma=1), "fma(-alpha, x1, x0)"),
    "foreach_addcmul": PerElement(Operations(fma=1, mul=1), "fma(value * x1, x2, x0)"),
    "foreach_addcdiv": PerElement(Operations(fma=1, div=1), "fma(value, x1 / x2, x0)"),
}


@pattern("map")
@covers(FOREACH)
def calc_foreach(layer: Layer) -> Cost:
    """Elementwise operators on lists of tensors: the operations of one element, for every output element.

    The operands ``x0``, ``x1`` … are the tensors of all lists. ``alpha`` (add, sub) and ``value`` (addcmul, addcdiv)
    other than 1 scale an operand as in the operator on one tensor: the additions of ``add`` and ``addcdiv`` become fma,
    ``addcmul`` has 1 mul more. ``pow`` with the constant ``exponent`` 2 or 3 (a tuple has one for each tensor) is 1 or
    2 mul instead of 1 special.

    Shapes: x0[N], x1[M] -> y0[N], y1[M]
    Shapes of foreach_add, foreach_sub, foreach_mul, foreach_div: x0[N], x1[M], x2[N], x3[M] -> y0[N], y1[M]
    Shapes of foreach_lerp, foreach_maximum, foreach_minimum, foreach_pow: x0[N], x1[M], x2[N], x3[M] -> y0[N], y1[M]
    Shapes of foreach_addcdiv, foreach_addcmul: x0[N], x1[M], x2[N], x3[M], x4[N], x5[M] -> y0[N], y1[M]
    """
    factors = (layer.attrs.get(name, 1) for name in ("alpha", "value"))
    scaled = layer.op in SCALED and any(factor != 1 for factor in factors)
    element = SCALED[layer.op] if scaled else FOREACH[layer.op]
    elements = sum(y.size for y in layer.outputs)
    operations = elements * element.operations
    if (exponent := layer.attrs.get("exponent")) is not None:
        exponents = exponent if isinstance(exponent, tuple) else (exponent,) * len(layer.outputs)
        powers = (y.size * power_operations(c) for y, c in zip(layer.outputs, exponents, strict=True))
        operations = sum(powers, Operations())
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("map")
def calc_foreach_unscale(layer: Layer) -> Cost:
    """Every tensor of a list times one factor, and a test for infinities: 1 mul and 1 cmp per element.

    Shapes: x0[N], x1[M], scale[1] -> y0[N], y1[M]
    """
    n = sum(y.size for y in layer.outputs)
    return Cost(n * Operations(mul=1, cmp=1), layer.read, layer.written, layer.attrs)


# Special functions: Bessel functions, orthogonal polynomials and the like.


SPECIAL_FUNCTIONS = Operations(special=1)

UNARY_SPECIAL: Mapping[str, PerElement] = {
    name: PerElement(SPECIAL_FUNCTIONS, f"{name}(x)")
    for name in (
        *("airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "spherical_bessel_j0"),
        *("modified_bessel_i0", "modified_bessel_i1", "modified_bessel_k0", "modified_bessel_k1"),
        *("scaled_modified_bessel_k0", "scaled_modified_bessel_k1"),
    )
}


@element_wise
@covers(UNARY_SPECIAL)
def calc_special_function(layer: Layer) -> Cost:
    """Special functions of one operand: one special per element.

    Shapes: x[N, C] -> y[N, C]
    """
    return Cost(layer["x"].size * UNARY_SPECIAL[layer.op].operations, layer.read, layer.written, layer.attrs)


POLYNOMIALS: Mapping[str, PerElement] = {
    name: PerElement(SPECIAL_FUNCTIONS, f"{name}(x0, x1)")
    for name in (
        *("chebyshev_t", "chebyshev_u", "chebyshev_v", "chebyshev_w"),
        *("shifted_chebyshev_t", "shifted_chebyshev_u", "shifted_chebyshev_v", "shifted_chebyshev_w"),
        *("hermite_h", "hermite_he", "laguerre_l", "legendre_p"),
    )
}


@element_wise
@covers(POLYNOMIALS)
def calc_orthogonal_polynomial(layer: Layer) -> Cost:
    """Orthogonal polynomials of the element x0 and the degree x1: one special per output element.

    The degree is data, so the length of the recurrence that evaluates the polynomial is unknown.

    Shapes: x0[N, C], x1[C] -> y[N, C]
    """
    return Cost(layer.out.size * POLYNOMIALS[layer.op].operations, layer.read, layer.written, layer.attrs)


@element_wise
def calc_multivariate_lgamma(layer: Layer) -> Cost:
    """Logarithm of the multivariate gamma function of dimension p.

    It is the sum of lgamma(x + (1 - j) / 2) for j = 1 .. p and a constant: p special; p - 1 shifts, p - 1 additions and
    one addition of the constant, 2 p - 1 add in all.

    Shapes: x[N, C] -> y[N, C]
    Settings: dimension=p
    """
    p = layer.attrs["dimension"]
    return Cost(layer["x"].size * Operations(special=p, add=2 * p - 1), layer.read, layer.written, layer.attrs)


@element_wise
def calc_frexp(layer: Layer) -> Cost:
    """Mantissa and exponent of a number, which are some of its bits: one cmp per element.

    Shapes: x[N, C] -> mantissa[N, C], exponent[N, C]
    """
    return Cost(Operations(cmp=layer["x"].size), layer.read, layer.written, layer.attrs)


# Gradients of elementwise functions, powers and clips.


GRADIENTS: Mapping[str, PerElement] = {
    "abs_backward": PerElement(Operations(mul=1, cmp=2), "dy * where(x > 0, one, where(x < 0, -1, 0))"),
    "square_backward": PerElement(Operations(mul=2), "dy * 2 * x"),
    "sqrt_backward": PerElement(Operations(mul=1, div=1), "dy / (2 * y)"),
    "rsqrt_backward": PerElement(Operations(mul=4), "dy * -0.5 * y * y * y"),
    "reciprocal_backward": PerElement(Operations(mul=2, add=1), "-(dy * y * y)"),
    "exp_backward": PerElement(Operations(mul=1), "dy * y"),
    "expm1_backward": PerElement(Operations(mul=1, add=1), "dy * (y + 1)"),
    "log_backward": PerElement(Operations(div=1), "dy / x"),
    "log1p_backward": PerElement(Operations(add=1, div=1), "dy / (1 + x)"),
    "erf_backward": PerElement(Operations(mul=3, add=1, special=1), "dy * (2 / pi**0.5) * exp(-(x * x))"),
    "sin_backward": PerElement(Operations(mul=1, special=1), "dy * cos(x)"),
    "cos_backward": PerElement(Operations(mul=1, add=1, special=1), "-(dy * sin(x))"),
    "tan_backward": PerElement(Operations(mul=2, add=1), "dy * (1 + y * y)"),
    "asin_backward": PerElement(Operations(mul=1, add=1, div=1, special=1), "dy / sqrt(1 - x * x)"),
    "acos_backward": PerElement(Operations(mul=1, add=2, div=1, special=1), "-(dy / sqrt(1 - x * x))"),
    "atan_backward": PerElement(Operations(mul=1, add=1, div=1), "dy / (1 + x * x)"),
    "sinh_backward": PerElement(Operations(mul=1, special=1), "dy * cosh(x)"),
    "cosh_backward": PerElement(Operations(mul=1, special=1), "dy * sinh(x)"),
    "logit_backward": PerElement(Operations(mul=1, add=1, div=1), "dy / (x * (1 - x))"),
    "atan2_backward": PerElement(
        Operations(mul=4, add=2, div=2), "s = x0 * x0 + x1 * x1; (dy * x1 / s, -(dy * x0 / s))"
    ),
    "div_backward": PerElement(Operations(mul=1, add=1, div=2), "g = dy / x1; (g, -(g * x0 / x1))"),
    "maximum_backward": PerElement(Operations(cmp=2), "(where(x0 >= x1, dy, 0), where(x0 < x1, dy, 0))"),
    "minimum_backward": PerElement(Operations(cmp=2), "(where(x0 <= x1, dy, 0), where(x0 > x1, dy, 0))"),
    "lerp_backward": PerElement(Operations(mul=2, add=2), "g = dy * x2; (dy - g, g, dy * (x1 - x0))"),
}


@pattern("map")
@covers(GRADIENTS)
def calc_pointwise_backward(layer: Layer) -> Cost:
    """Gradients of elementwise functions: the operations of the derivative, once per element of dy.

    x is the forward input and y the forward output; the definition uses one or both. All given operands are read. Sums
    over broadcast axes are separate operators.

    Shapes: dy[N, C], x[N, C] -> dx[N, C]
    """
    return Cost(layer["dy"].size * GRADIENTS[layer.op].operations, layer.read, layer.written, layer.attrs)


@pattern("map")
def calc_clip_backward(layer: Layer) -> Cost:
    """Gradient of clip: dy if x lies between the bounds, one cmp per element and bound.

    Shapes: dy[N, C], x[N, C] -> dx[N, C]
    Settings: lower=0, upper=6
    """
    bounds = sum(1 for name in ("lower", "upper") if name in layer or layer.attrs.get(name) is not None)
    return Cost(layer["dy"].size * Operations(cmp=bounds), layer.read, layer.written, layer.attrs)


@pattern("map")
def calc_pow_backward(layer: Layer) -> Cost:
    """Gradients of a power; the cost depends on the exponent.

    * Constant exponent c: ``dy * c * x0 ** (c - 1)``, 2 mul and 1 special.
    * c = 2: ``dy * 2 * x0``, 2 mul. c = 3: ``dy * 3 * (x0 * x0)``, 3 mul. c = 4: ``dy * 4 * (x0 * x0 * x0)``, 4 mul.
    * Operand x1: ``dy * x1 * x0 ** (x1 - 1)`` and ``dy * x0 ** x1 * log(x0)``, in all 4 mul, 1 add, 3 special; one
      special less if y, the power itself, is an operand.

    Shapes: dy[N, C], x0[N, C], x1[N, C] -> dx0[N, C], dx1[N, C]
    """
    exponent = layer.attrs.get("exponent")
    if exponent is None:
        operations = Operations(mul=4, add=1, special=2 if "y" in layer else 3)
    else:
        operations = Operations(mul=2) + (Operations() if exponent == 2 else power_operations(exponent - 1))
    return Cost(layer["dy"].size * operations, layer.read, layer.written, layer.attrs)


CONSTANT_GRADIENTS: Mapping[str, PerElement] = {
    "constant_div_backward": PerElement(Operations(mul=2, div=1), "(-value * dy) / (x * x)"),
    "constant_pow_backward": PerElement(Operations(mul=2), "log_value * y * dy"),
}


@pattern("map")
@covers(CONSTANT_GRADIENTS)
def calc_constant_backward(layer: Layer) -> Cost:
    """Gradients of a constant divided by x, and of a constant raised to the power x, per element.

    ``value`` is the constant, x the forward input and y the forward output. Expressions of constants cost nothing.

    Shapes: dy[N, C], x[N, C] -> dx[N, C]
    """
    return Cost(layer.out.size * CONSTANT_GRADIENTS[layer.op].operations, layer.read, layer.written, layer.attrs)
