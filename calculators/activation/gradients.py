"""Gradients of activation functions and of their learned parameters."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Layer, Operations, PerElement, covers, pattern

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
}


@pattern("map")
@covers(GRADIENTS)
def calc_activation_backward(layer: Layer) -> Cost:
    """Gradients of activation functions: the operations of the derivative, once per element of dy.

    x is the forward input and y the forward output; the definition uses one or both. All given operands are read. A
    ``beta`` of softplus other than 1 multiplies x first: 1 mul more.

    Shapes: dy[N, C], x[N, C] -> dx[N, C]
    """
    operations = GRADIENTS[layer.op].operations + Operations(mul=0 if layer.attrs.get("beta", 1) == 1 else 1)
    return Cost(layer["dy"].size * operations, layer.read, layer.written, layer.attrs)


ELU_DERIVATIVE = PerElement(Operations(add=1, cmp=1), "where(x > 0, one, y + alpha)")


@pattern("map")
def calc_elu_derivative(layer: Layer) -> Cost:
    """Derivative of ELU, 1 if x > 0, else y + alpha: 1 add and 1 cmp per element.

    It is not multiplied by a gradient yet; y is the forward output.

    Shapes: x[N, C], y[N, C] -> dx[N, C]
    """
    return Cost(layer.out.size * ELU_DERIVATIVE.operations, layer.read, layer.written, layer.attrs)


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


@pattern("map")
def calc_gelu_backward(layer: Layer) -> Cost:
    """Gradient of GELU, ``dy * (P(x) + x * p(x))`` with the normal distribution function P and density p.

    * ``approximate="none"`` (default): 7 mul, 2 add, 2 special.
    * ``approximate="tanh"``, the derivative of that form: 12 mul, 5 add, 1 special.

    Shapes: dy[N, C], x[N, C] -> dx[N, C]
    Settings: approximate="none"
    """
    element = GELU_GRADIENTS[layer.attrs.get("approximate", "none")]
    return Cost(layer["dy"].size * element.operations, layer.read, layer.written, layer.attrs)


@pattern("reduce", rows=lambda layer: layer.outputs[-1].size)
def calc_prelu_backward(layer: Layer) -> Cost:
    """Gradients of PReLU for x and for the slope w.

    dx is ``where(x > 0, dy, w * dy)``; dw is the sum of ``where(x > 0, 0, x * dy)`` to the size of w.

    Shapes: dy[N, C, H, W], x[N, C, H, W], w[C] -> dx[N, C, H, W], dw[C]
    """
    n = layer["dy"].size
    sums = n - layer.outputs[-1].size
    return Cost(Operations(mul=2 * n, add=sums, cmp=2 * n), layer.read, layer.written, layer.attrs)


@pattern("reduce", rows=lambda layer: layer["beta"].size)
def calc_swish_backward(layer: Layer) -> Cost:
    """Gradients of x * s(beta x), with the sigmoid s, for x and for a learned beta.

    With ``g = s(beta x)`` and ``y = x g``: ``dx = dy (beta y + g (1 - beta y))``, and for beta ``dy y (x - y)``, summed
    to its size. Per element 4 operations for the sigmoid, 7 mul and 3 add.

    Shapes: dy[N, C], x[N, C], beta[C] -> dx[N, C], dbeta[C]
    """
    n, sums = layer["x"].size, layer["x"].size - layer["beta"].size
    operations = Operations(mul=7, add=5, div=1, special=1) * n + Operations(add=sums)
    return Cost(operations, layer.read, layer.written, layer.attrs)
