"""Functions of one complex number, by their real and imaginary parts."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Operations, PerElement

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
