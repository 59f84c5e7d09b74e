"""Derivatives and gradients of functions of single elements that only some frameworks have as operators."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Layer, Operations, PerElement, covers

DERIVATIVES: Mapping[str, PerElement] = {
    "elu_derivative": PerElement(Operations(add=1, cmp=1), "where(x > 0, one, y + alpha)"),
    "constant_div_backward": PerElement(Operations(mul=2, div=1), "(-value * dy) / (x * x)"),
    "constant_pow_backward": PerElement(Operations(mul=2), "log_value * y * dy"),
    "reduce_sum_square_backward": PerElement(Operations(mul=2), "2 * x * dy"),
}


@covers(DERIVATIVES)
def calc_derivative(layer: Layer) -> Cost:
    """Derivative of a function of single elements: for each element the operations of its definition.

    ``elu_derivative`` is not yet multiplied by a gradient. ``value`` is the constant that was divided by x, or raised
    to its power; what is made of constants alone costs nothing.

    Shapes: x[N, C], y[N, C] -> dx[N, C]
    """
    return Cost(layer.out.size * DERIVATIVES[layer.op].operations, layer.read, layer.written, layer.attrs)


def calc_swish_backward(layer: Layer) -> Cost:
    """Gradients of x * s(beta x), s the sigmoid, for x and for a learned beta.

    ``g = s(beta x)``, ``y = x g``, ``dx = dy (beta y + g (1 - beta y))``, and for beta ``dy y (x - y)``, summed to its
    size: per element 4 for the sigmoid, 7 mul and 3 add.

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
    """Linear recurrence along ``axis``, y_0 = x0_0 and y_i = x1_i y_(i-1) + x0_i: one fma for every step of a row.

    Shapes: x0[N, T], x1[N, T-1] -> y[N, T]
    Settings: axis=1
    """
    return Cost(Operations(fma=layer["x1"].size), layer.read, layer.written, layer.attrs)


def calc_hinge_loss_backward(layer: Layer) -> Cost:
    """Gradient of hinge_loss: s dy where 1 + s x > 0, with s = -1 for the target class, else 1; a mean divides dy.

    Per element the margin again (1 add, 1 cmp; a negation a row), dy or 0 (1 cmp), its sign a row (1 add). ``norm``
    "l2": 2 dy times the margin instead, 2 mul.

    Shapes: dy[], x[N, C], target[N] -> dx[N, C]
    Settings: norm="l1", reduction="mean"
    """
    size, count = layer["x"].size, layer["target"].size
    is_l2 = layer.attrs.get("norm", "l1").lower() == "l2"
    element = Operations(add=1, cmp=1) + (Operations(mul=2) if is_l2 else Operations(cmp=1))
    operations = element * size + Operations(add=2 * count)
    operations += Operations(div=1 if layer.attrs.get("reduction", "mean") == "mean" else 0)
    return Cost(operations, layer.read, layer.written, layer.attrs)
