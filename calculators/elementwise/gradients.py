"""Gradients of elementwise functions, powers and clips."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Layer, Operations, PerElement, covers, pattern

from .._shared import power_operations

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
