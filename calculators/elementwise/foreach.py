"""Elementwise operators on lists of tensors, as optimizers run them."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Layer, Operations, PerElement, covers, pattern

from .._shared import power_operations
from ..activation.activations import ACTIVATIONS
from .arithmetic import NARY, SUMS, TERNARY, UNARY

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
