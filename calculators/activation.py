"""Activation functions and softmax.

Attributes such as slopes and bounds are constants and cost nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Dim, Layer, Operations, PerElement, Tensor, covers, element_wise, minimum, pattern

from ._shared import dot_products, index_bytes, row_count, saved_bytes

# Activation functions.


ACTIVATIONS: Mapping[str, PerElement] = {
    "relu": PerElement(Operations(cmp=1), "max(x, 0)"),
    "relu6": PerElement(Operations(cmp=2), "min(max(x, 0), 6)"),
    "hard_tanh": PerElement(Operations(cmp=2), "min(max(x, lower), upper)"),
    "leaky_relu": PerElement(Operations(mul=1, cmp=1), "max(x, slope * x)"),
    "rrelu": PerElement(Operations(mul=1, cmp=1), "max(x, slope * x)"),
    "threshold": PerElement(Operations(cmp=1), "where(x > threshold, x, value)"),
    "elu": PerElement(Operations(mul=1, add=1, cmp=1, special=1), "where(x > 0, x, alpha * (exp(x) - 1))"),
    "celu": PerElement(
        Operations(mul=1, add=1, div=1, cmp=1, special=1), "where(x > 0, x, alpha * (exp(x / alpha) - 1))"
    ),
    "selu": PerElement(Operations(mul=2, add=1, cmp=1, special=1), "scale * where(x > 0, x, alpha * (exp(x) - 1))"),
    "sigmoid": PerElement(Operations(add=2, div=1, special=1), "1 / (1 + exp(-x))"),
    "log_sigmoid": PerElement(Operations(add=2, div=1, special=2), "log(1 / (1 + exp(-x)))"),
    "silu": PerElement(Operations(mul=1, add=2, div=1, special=1), "x * (1 / (1 + exp(-x)))"),
    "quick_gelu": PerElement(Operations(mul=2, add=2, div=1, special=1), "x * (1 / (1 + exp(-(alpha * x))))"),
    "mish": PerElement(Operations(mul=1, add=1, special=3), "x * tanh(log(1 + exp(x)))"),
    "softsign": PerElement(Operations(add=2, div=1), "x / (1 + abs(x))"),
    "tanh": PerElement(Operations(special=1), "tanh(x)"),
    "tanh_shrink": PerElement(Operations(add=1, special=1), "x - tanh(x)"),
    "hard_sigmoid": PerElement(Operations(mul=1, add=1, cmp=2), "min(max(slope * x + shift, 0), 1)"),
    "hard_swish": PerElement(Operations(mul=2, add=1, cmp=2), "x * min(max(slope * x + shift, 0), 1)"),
    "hard_shrink": PerElement(Operations(cmp=2), "where(x > lambd, x, where(x < -lambd, x, 0))"),
    "soft_shrink": PerElement(Operations(add=2, cmp=2), "where(x > lambd, x - bias, where(x < -lambd, x + bias, 0))"),
}

SIGMOID = ACTIVATIONS["sigmoid"].operations
"""The operations of one sigmoid."""


@element_wise
@covers(ACTIVATIONS)
def calc_activation(layer: Layer) -> Cost:
    """Activation functions of one input: the operations of the definition, once per element.

    Attributes (slopes, bounds, alpha) are constants of the definition and cost nothing. ``threshold`` also covers
    ONNX's ThresholdedRelu, and ``soft_shrink`` its Shrink (``bias`` equals ``lambd`` elsewhere). The random slopes of
    ``rrelu`` are written, in the dtype ``saved``, if a backward pass reads them.

    Shapes: x[N, C] -> y[N, C]
    """
    elements = layer["x"].size
    written = layer.written + saved_bytes(layer, elements)
    return Cost(elements * ACTIVATIONS[layer.op].operations, layer.read, written, layer.attrs)


@element_wise
def calc_prelu(layer: Layer) -> Cost:
    """Leaky ReLU with a learned slope, ``max(x, w * x)``: one mul and one cmp per element.

    Shapes: x[N, C, H, W], w[C] -> y[N, C, H, W]
    """
    return Cost(layer["x"].size * Operations(mul=1, cmp=1), layer.read, layer.written, layer.attrs)


GELU: Mapping[str, PerElement] = {
    "none": PerElement(Operations(mul=3, add=1, special=1), "x * 0.5 * (1 + erf(x * 0.5**0.5))"),
    "tanh": PerElement(
        Operations(mul=6, add=2, special=1), "x * 0.5 * (1 + tanh((x * x * x * 0.044715 + x) * (2 / pi) ** 0.5))"
    ),
}


@element_wise
def calc_gelu(layer: Layer) -> Cost:
    """Gaussian error linear unit, x times the normal distribution function of x.

    * ``approximate="none"`` (default): ``x * 1/2 * (1 + erf(x * sqrt(1/2)))``, 3 mul, 1 add, 1 special.
    * ``approximate="tanh"``: ``x * 1/2 * (1 + tanh((x*x*x * 0.044715 + x) * sqrt(2/pi)))``, 6 mul, 2 add, 1 special.

    No operation counts as fma, even if a compiler fuses them.

    Source: Hendrycks and Gimpel, Gaussian Error Linear Units, arXiv:1606.08415.

    Shapes: x[N, C] -> y[N, C]
    Settings: approximate="none"
    """
    element = GELU[layer.attrs.get("approximate", "none")]
    return Cost(layer["x"].size * element.operations, layer.read, layer.written, layer.attrs)


@element_wise
def calc_softplus(layer: Layer) -> Cost:
    """Smooth ReLU, ``1 / beta * log(1 + exp(beta * x))``: 2 special and 1 add per element.

    A ``beta`` other than 1 adds 2 mul; 1 / beta is a constant. Implementations return ``x`` if exp would overflow; that
    switch is not part of the definition and is not counted.

    Shapes: x[N, C] -> y[N, C]
    """
    operations = Operations(mul=0 if layer.attrs.get("beta", 1) == 1 else 2, add=1, special=2)
    return Cost(layer["x"].size * operations, layer.read, layer.written, layer.attrs)


@element_wise
def calc_swish(layer: Layer) -> Cost:
    """SiLU with a factor, ``x * (1 / (1 + exp(-(beta * x))))``.

    ``beta`` is an attribute, or a second operand if it is learned. Without a beta, or with the constant 1, the cost is
    that of ``silu``.

    Shapes: x[N, C], beta[C] -> y[N, C]
    """
    scaled = 1 if len(layer.inputs) > 1 or layer.attrs.get("beta", 1) != 1 else 0
    operations = Operations(mul=1 + scaled, add=2, div=1, special=1)
    return Cost(layer["x"].size * operations, layer.read, layer.written, layer.attrs)


@pattern("map")
def calc_swiglu(layer: Layer) -> Cost:
    """Gated SiLU of two operands, ``x0 * (1 / (1 + exp(-x0))) * x1``.

    An ``alpha`` other than 1 scales the exponent first: 1 mul more.

    Source: Shazeer, GLU Variants Improve Transformer, arXiv:2002.05202.

    Shapes: x0[N, C], x1[N, C] -> y[N, C]
    """
    scaled = 0 if layer.attrs.get("alpha", 1) == 1 else 1
    operations = Operations(mul=2 + scaled, add=2, div=1, special=1)
    return Cost(layer.out.size * operations, layer.read, layer.written, layer.attrs)


@pattern("map")
def calc_geglu(layer: Layer) -> Cost:
    """Gated GELU of two operands, ``gelu(x0) * x1``: the operations of ``gelu`` and 1 mul per element.

    Source: Shazeer, GLU Variants Improve Transformer, arXiv:2002.05202.

    Shapes: x0[N, C], x1[N, C] -> y[N, C]
    Settings: approximate="tanh"
    """
    operations = GELU[layer.attrs.get("approximate", "none")].operations + Operations(mul=1)
    return Cost(layer.out.size * operations, layer.read, layer.written, layer.attrs)


@pattern("map")
def calc_glu(layer: Layer) -> Cost:
    """Gated linear unit: one half of x times the sigmoid of the other half, ``x0 * (1 / (1 + exp(-x1)))``.

    Source: Dauphin et al., Language Modeling with Gated Convolutional Networks, arXiv:1612.08083.

    Shapes: x[N, 2*C] -> y[N, C]
    """
    operations = Operations(mul=1, add=2, div=1, special=1)
    return Cost(layer.out.size * operations, layer.read, layer.written, layer.attrs)


@pattern("map")
def calc_crelu(layer: Layer) -> Cost:
    """Concatenated ReLU, ``max(x, 0)`` and ``max(-x, 0)``: one negation and two maxima per input element.

    Source: Shang et al., Concatenated Rectified Linear Units, arXiv:1603.05201.

    Shapes: x[N, C] -> y[N, 2*C]
    """
    return Cost(layer["x"].size * Operations(add=1, cmp=2), layer.read, layer.written, layer.attrs)


@pattern("reduce")
def calc_hardmax(layer: Layer) -> Cost:
    """One at the first maximum of each row, zero elsewhere: c - 1 comparisons per row of length c.

    Shapes: x[N, C] -> y[N, C]
    Settings: axis=1
    """
    x = layer["x"]
    operations = Operations(cmp=x.size - row_count(x.shape, layer.attrs["axis"]))
    return Cost(operations, layer.read, layer.written, layer.attrs)


@element_wise
def calc_zoneout(layer: Layer) -> Cost:
    """Zoneout: a random choice between two operands in training, their blend at inference.

    * Training (attribute ``training``): 1 cmp per element.
    * Inference: 2 mul and 1 add per element.

    Source: Krueger et al., Zoneout, arXiv:1606.01305.

    Shapes: x0[N, C], x1[N, C] -> y[N, C]
    Settings: training=True
    """
    operations = Operations(cmp=1) if layer.attrs.get("training", False) else Operations(mul=2, add=1)
    return Cost(layer.out.size * operations, layer.read, layer.written, layer.attrs)


# Softmax, its relatives and their gradients.


def softmax_operations(elements: Dim, count: Dim) -> Operations:
    """Return the operations of the softmax of ``count`` rows with ``elements`` elements in all."""
    return Operations(add=elements - count, div=elements, special=elements)


def log_softmax_operations(elements: Dim, count: Dim) -> Operations:
    """Return the operations of the log_softmax of ``count`` rows with ``elements`` elements in all."""
    return Operations(add=2 * elements - count, special=elements + count)


def _rows(layer: Layer, x: Tensor) -> Dim:
    return layer.attrs["rows"] if "rows" in layer.attrs else row_count(x.shape, layer.attrs["axis"])


def _softmax_cost(layer: Layer, operations: Operations) -> Cost:
    read = layer.read + len(layer.inputs) * index_bytes(layer)
    return Cost(operations, read, layer.written + index_bytes(layer), layer.attrs)


@pattern("reduce")
def calc_softmax(layer: Layer) -> Cost:
    """Softmax, exp(x) / sum(exp(x)) along ``axis`` (a tuple of several axes is allowed).

    Per row of length c:

    * c exp;
    * c - 1 add for the sum;
    * c div.

    Implementations subtract the maximum first. That is not part of the definition and is not counted, as in
    chainer-computational-cost. The attribute ``pairs``, which ``attention="computed"`` adds, has the elements that no
    mask excludes; others cost nothing.

    A sparse tensor has Z values as ``x``, and ``indices``, which are read and written. ``rows`` is the maximum number
    of rows with a value: if some rows are empty, the additions are a lower bound.

    Shapes: x[N, C] -> y[N, C]
    Settings: axis=1
    """
    x = layer["x"]
    elements = layer.attrs.get("pairs", x.size)
    return _softmax_cost(layer, softmax_operations(elements, minimum(elements, _rows(layer, x))))


@pattern("reduce")
def calc_log_softmax(layer: Layer) -> Cost:
    """Logarithm of softmax, x - log(sum(exp(x))) along ``axis``.

    Per row of length c: c exp, c - 1 add for the sum, 1 log, c subtractions. As in ``softmax``, the subtraction of the
    maximum is not counted.

    Shapes: x[N, C] -> y[N, C]
    Settings: axis=1
    """
    x = layer["x"]
    return _softmax_cost(layer, log_softmax_operations(x.size, _rows(layer, x)))


@pattern("reduce")
def calc_softmin(layer: Layer) -> Cost:
    """Softmin: the softmax of -x along ``axis``, with one negation more per element.

    Shapes: x[N, C] -> y[N, C]
    Settings: axis=1
    """
    x = layer["x"]
    operations = softmax_operations(x.size, row_count(x.shape, layer.attrs["axis"])) + Operations(add=x.size)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("reduce")
def calc_softmax_backward(layer: Layer) -> Cost:
    """Backward of softmax, dx = y (dy - sum(dy y)) along ``axis``.

    Per row of length c: the sum (1 mul, c - 1 fma), c subtractions, c mul. ``pairs`` is as for ``softmax``.

    Shapes: dy[N, C], y[N, C] -> dx[N, C]
    Settings: axis=1
    """
    size = layer.attrs.get("pairs", layer["dy"].size)
    count = minimum(size, _rows(layer, layer["dy"]))
    return _softmax_cost(layer, dot_products(count, size) + Operations(add=size, mul=size))


@pattern("reduce")
def calc_log_softmax_backward(layer: Layer) -> Cost:
    """Backward of log_softmax, dx = dy - exp(y) sum(dy) along ``axis``.

    Per row of length c: the sum (c - 1 add), c exp, and their products with the sum, subtracted from dy (c fma).

    Shapes: dy[N, C], y[N, C] -> dx[N, C]
    Settings: axis=1
    """
    size = layer["dy"].size
    count = _rows(layer, layer["dy"])
    return _softmax_cost(layer, Operations(fma=size, add=size - count, special=size))


@pattern("reduce")
def calc_softmin_backward(layer: Layer) -> Cost:
    """Backward of softmin, dx = y (sum(dy y) - dy): the same operations as ``softmax_backward``.

    Shapes: dy[N, C], y[N, C] -> dx[N, C]
    Settings: axis=1
    """
    return calc_softmax_backward(layer)


@pattern("reduce")
def calc_masked_softmax(layer: Layer) -> Cost:
    """Softmax along ``axis`` of the elements that a mask selects: 1 cmp per element, and the softmax.

    Shapes: x[N, C], mask[N, C] -> y[N, C]
    Settings: axis=1
    """
    x = layer["x"]
    operations = softmax_operations(x.size, row_count(x.shape, layer.attrs["axis"])) + Operations(cmp=x.size)
    return Cost(operations, layer.read, layer.written, layer.attrs)


# Gradients of activation functions and of their learned parameters.


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
