"""Activation functions."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Layer, Operations, PerElement, covers, element_wise, pattern

from .._shared import row_count, saved_bytes

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
