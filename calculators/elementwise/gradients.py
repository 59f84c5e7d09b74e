"""Gradients of elementwise functions and of activation functions."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Layer, Operations, PerElement, covers

GRADIENTS: Mapping[str, PerElement] = {
    "relu_backward": PerElement(Operations(cmp=1), "where(y > 0, dy, 0)"),
    "threshold_backward": PerElement(Operations(cmp=1), "where(x > threshold, dy, 0)"),
    "relu6_backward": PerElement(Operations(cmp=2), "where((x > 0) & (x < 6), dy, 0)"),
    "hard_tanh_backward": PerElement(Operations(cmp=2), "where((x > lower) & (x < upper), dy, 0)"),
    "leaky_relu_backward": PerElement(Operations(mul=1, cmp=1), "where(x > 0, dy, slope * dy)"),
    "rrelu_backward": PerElement(Operations(mul=1, cmp=1), "where(x > 0, dy, slope * dy)"),
    "elu_backward": PerElement(Operations(mul=2, cmp=1, special=1), "where(x > 0, dy, dy * alpha * exp(x))"),
    "celu_backward": PerElement(Operations(mul=1, div=1, cmp=1, special=1), "where(x > 0, dy, dy * exp(x / alpha))"),
    "selu_backward": PerElement(Operations(mul=3, cmp=1, special=1), "scale * where(x > 0, dy, dy * alpha * exp(x))"),
    "sigmoid_backward": PerElement(Operations(mul=2, add=1), "dy * y * (1 - y)"),
    "log_sigmoid_backward": PerElement(Operations(add=1, div=1, special=1), "dy / (1 + exp(x))"),
    "silu_backward": PerElement(
        Operations(mul=3, add=4, div=1, special=1), "s = 1 / (1 + exp(-x)); dy * s * (1 + x * (1 - s))"
    ),
    "mish_backward": PerElement(
        Operations(mul=4, add=3, div=1, special=3),
        "e = exp(x); s = 1 + e; t = tanh(log(s)); dy * (t + x * (e / s) * (1 - t * t))",
    ),
    "softplus_backward": PerElement(Operations(add=2, div=1, special=1), "dy / (1 + exp(-x))"),
    "softsign_backward": PerElement(Operations(mul=1, add=2, div=1), "s = 1 + abs(x); dy / (s * s)"),
    "tanh_backward": PerElement(Operations(mul=2, add=1), "dy * (1 - y * y)"),
    "hard_sigmoid_backward": PerElement(Operations(mul=1, cmp=2), "where((x > lower) & (x < upper), slope * dy, 0)"),
    "hard_swish_backward": PerElement(
        Operations(mul=2, add=1, cmp=2), "where(x < -3, 0, where(x < 3, dy * (x * (1 / 3) + 0.5), dy))"
    ),
    "hard_shrink_backward": PerElement(Operations(cmp=2), "where((x > lambd) | (x < -lambd), dy, 0)"),
    "soft_shrink_backward": PerElement(Operations(cmp=2), "where((x > lambd) | (x < -lambd), dy, 0)"),
    "glu_backward": PerElement(
        Operations(mul=3, add=3, div=1, special=1), "s = 1 / (1 + exp(-x1)); g = dy * s; (g, g * x0 * (1 - s))"
    ),
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


@covers(GRADIENTS)
def calc_pointwise_backward(layer: Layer) -> Cost:
    """Gradients of elementwise functions: the operations of the derivative, once per element of dy.

    x is the forward input and y the forward output; the definition uses one or both. All given operands are read. Sums
    over broadcast axes are separate operators.

    Shapes: dy[N, C], x[N, C] -> dx[N, C]
    """
    return Cost(layer["dy"].size * GRADIENTS[layer.op].operations, layer.read, layer.written, layer.attrs)


GELU_GRADIENTS: Mapping[str, PerElement] = {
    "none": PerElement(
        Operations(mul=7, add=2, special=2),
        "dy * (0.5 * (1 + erf(x * 0.5**0.5)) + x * ((2 * pi) ** -0.5 * exp(x * x * -0.5)))",
    ),
    "tanh": PerElement(
        Operations(mul=12, add=5, special=1),
        "q = x * x; c = (2 / pi) ** 0.5; t = tanh((q * x * 0.044715 + x) * c); "
        "dy * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * ((1 + q * (3 * 0.044715)) * c))",
    ),
}


def calc_gelu_backward(layer: Layer) -> Cost:
    """Gradient of GELU, ``dy * (P(x) + x * p(x))`` with the normal distribution function P and density p.

    * ``approximate="none"`` (default): 7 mul, 2 add, 2 special.
    * ``approximate="tanh"``, the derivative of that form: 12 mul, 5 add, 1 special.

    Shapes: dy[N, C], x[N, C] -> dx[N, C]
    Settings: approximate="none"
    """
    element = GELU_GRADIENTS[layer.attrs.get("approximate", "none")]
    return Cost(layer["dy"].size * element.operations, layer.read, layer.written, layer.attrs)


def calc_prelu_backward(layer: Layer) -> Cost:
    """Gradients of PReLU for x and for the slope w.

    dx is ``where(x > 0, dy, w * dy)``; dw is the sum of ``where(x > 0, 0, x * dy)`` to the size of w.

    Shapes: dy[N, C, H, W], x[N, C, H, W], w[C] -> dx[N, C, H, W], dw[C]
    """
    n = layer["dy"].size
    sums = n - layer.outputs[-1].size
    return Cost(Operations(mul=2 * n, add=sums, cmp=2 * n), layer.read, layer.written, layer.attrs)


def calc_clip_backward(layer: Layer) -> Cost:
    """Gradient of clip: dy if x lies between the bounds, one cmp per element and bound.

    Shapes: dy[N, C], x[N, C] -> dx[N, C]
    Settings: lower=0, upper=6
    """
    bounds = sum(1 for name in ("lower", "upper") if name in layer or layer.attrs.get(name) is not None)
    return Cost(layer["dy"].size * Operations(cmp=bounds), layer.read, layer.written, layer.attrs)


CONSTANT_POWERS: Mapping[object, Operations] = {2: Operations(mul=2), 3: Operations(mul=3)}
"""The operations of the gradient by a constant exponent; any other exponent takes a power."""


def calc_pow_backward(layer: Layer) -> Cost:
    """Gradients of a power; the cost depends on the exponent.

    * Constant exponent c: ``dy * c * x0 ** (c - 1)``, 2 mul and 1 special.
    * c = 2: ``dy * 2 * x0``, 2 mul. c = 3: ``dy * 3 * (x0 * x0)``, 3 mul.
    * Operand x1: ``dy * x1 * x0 ** (x1 - 1)`` and ``dy * x0 ** x1 * log(x0)``, in all 4 mul, 1 add, 3 special; one
      special less if y, the power itself, is an operand.

    Shapes: dy[N, C], x0[N, C], x1[N, C] -> dx0[N, C], dx1[N, C]
    """
    exponent = layer.attrs.get("exponent")
    if exponent is None:
        operations = Operations(mul=4, add=1, special=2 if "y" in layer else 3)
    else:
        operations = CONSTANT_POWERS.get(exponent, Operations(mul=2, special=1))
    return Cost(layer["dy"].size * operations, layer.read, layer.written, layer.attrs)


DERIVATIVES: Mapping[str, PerElement] = {
    "elu_derivative": PerElement(Operations(add=1, cmp=1), "where(x > 0, one, y + alpha)"),
    "constant_div_backward": PerElement(Operations(mul=2, div=1), "(-value * dy) / (x * x)"),
    "constant_pow_backward": PerElement(Operations(mul=2), "log_value * y * dy"),
    "reduce_sum_square_backward": PerElement(Operations(mul=2), "2 * x * dy"),
}


@covers(DERIVATIVES)
def calc_derivative(layer: Layer) -> Cost:
    """Derivatives that few frameworks have as operators: the operations of the definition, per element.

    ``elu_derivative`` is not multiplied by a gradient yet. ``value`` is the constant that was divided by x, or raised
    to the power x. Expressions of constants cost nothing.

    Shapes: x[N, C], y[N, C] -> dx[N, C]
    """
    return Cost(layer.out.size * DERIVATIVES[layer.op].operations, layer.read, layer.written, layer.attrs)


def calc_swish_backward(layer: Layer) -> Cost:
    """Gradients of x * s(beta x), with the sigmoid s, for x and for a learned beta.

    With ``g = s(beta x)`` and ``y = x g``: ``dx = dy (beta y + g (1 - beta y))``, and for beta ``dy y (x - y)``, summed
    to its size. Per element 4 operations for the sigmoid, 7 mul and 3 add.

    Shapes: dy[N, C], x[N, C], beta[C] -> dx[N, C], dbeta[C]
    """
    n, sums = layer["x"].size, layer["x"].size - layer["beta"].size
    operations = Operations(mul=7, add=5, div=1, special=1) * n + Operations(add=sums)
    return Cost(operations, layer.read, layer.written, layer.attrs)


def calc_repeat_backward(layer: Layer) -> Cost:
    """Gradient of repeat: the sum of dy over the copies of each element.

    Shapes: dy[N, C, K] -> dx[N, C]
    """
    dy = layer["dy"]
    return Cost(Operations(add=dy.size - layer.out.size), dy.nbytes, layer.written, layer.attrs)


def calc_linear_recurrence(layer: Layer) -> Cost:
    """Linear recurrence along ``axis``, y_0 = x0_0 and y_i = x1_i y_(i-1) + x0_i.

    One fma per step of a row.

    Shapes: x0[N, T], x1[N, T-1] -> y[N, T]
    Settings: axis=1
    """
    return Cost(Operations(fma=layer["x1"].size), layer.read, layer.written, layer.attrs)


def calc_hinge_loss_backward(layer: Layer) -> Cost:
    """Gradient of hinge_loss: s dy if 1 + s x > 0, with s = -1 for the target class, else 1.

    * The margin again: 1 add and 1 cmp per element, a negation per row.
    * dy or 0: 1 cmp per element; its sign: 1 add per row.
    * ``norm`` "l2": 2 dy times the margin instead, 2 mul per element.
    * ``reduction`` mean: 1 div of dy.

    Shapes: dy[], x[N, C], target[N] -> dx[N, C]
    Settings: norm="l1", reduction="mean"
    """
    size, count = layer["x"].size, layer["target"].size
    is_l2 = layer.attrs.get("norm", "l1").lower() == "l2"
    element = Operations(add=1, cmp=1) + (Operations(mul=2) if is_l2 else Operations(cmp=1))
    operations = element * size + Operations(add=2 * count)
    operations += Operations(div=1 if layer.attrs.get("reduction", "mean") == "mean" else 0)
    return Cost(operations, layer.read, layer.written, layer.attrs)
