"""Dropout and random numbers.

Drawing random bits costs no operations.
"""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Layer, Operations, PerElement, Tensor, ceil_log2, covers, element_wise, pattern

from .layout import calc_creation

DROPOUTS: Mapping[str, PerElement] = {
    "dropout": PerElement(Operations(mul=1, cmp=1), "where(keep, scale * x, 0)"),
    "feature_dropout": PerElement(Operations(mul=1, cmp=1), "where(keep, scale * x, 0)"),
    "alpha_dropout": PerElement(Operations(fma=1, cmp=1), "fma(where(keep, x, value), scale, shift)"),
    "feature_alpha_dropout": PerElement(Operations(fma=1, cmp=1), "fma(where(keep, x, value), scale, shift)"),
}

FEATURE_DROPOUTS = ("feature_dropout", "feature_alpha_dropout")
"""The operators that drop whole channels."""


@element_wise
@pattern(lambda layer: "map" if layer.attrs.get("training") else "free")
@covers(DROPOUTS)
def calc_dropout(layer: Layer) -> Cost:
    """Dropout: in training every element is kept and scaled or dropped; at inference zero cost.

    Training: the operations of the definition, per element. The mask is written. It is the second output if the
    framework returns it. Else it has one element per element of x (one per sample and channel for the ``feature``
    operators, which drop whole channels), of the dtype ``mask`` that the backward pass reads (default: bool).
    Inference (attribute ``training`` false): no operations and no bytes.

    Source: Srivastava et al., "Dropout", JMLR 2014; alpha: Klambauer et al., "Self-Normalizing Neural Networks",
    arXiv:1706.02515; whole channels: Tompson et al., arXiv:1411.4280.

    Shapes: x[N, C] -> y[N, C], mask[N, C]
    Settings: training=True
    """
    if not layer.attrs.get("training"):
        return Cost(Operations(), 0, 0, layer.attrs)
    x = layer["x"]
    drawn = Tensor(x.shape[:2] if layer.op in FEATURE_DROPOUTS else x.shape, layer.attrs.get("mask", "bool"))
    mask = 0 if len(layer.outputs) > 1 else drawn.nbytes
    return Cost(DROPOUTS[layer.op].operations * x.size, layer.read, layer.written + mask, layer.attrs)


@pattern("map")
@covers("dropout_backward", "feature_dropout_backward")
def calc_dropout_backward(layer: Layer) -> Cost:
    """Backward of dropout: dx = where(mask, scale * dy, 0), one mul and one cmp per element.

    A mask that is not bool but contains 0 and the scale takes one mul.

    Shapes: dy[N, C], mask[N, C] -> dx[N, C]
    """
    size = layer["dy"].size
    choice = size if layer["mask"].dtype == "bool" else 0
    return Cost(Operations(mul=size, cmp=choice), layer.read, layer.written, layer.attrs)


@element_wise
def calc_bernoulli(layer: Layer) -> Cost:
    """Bernoulli samples with the probabilities x: one cmp with a random number per element.

    Shapes: x[N, C] -> y[N, C]
    """
    return Cost(Operations(cmp=layer["x"].size), layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_multinomial(layer: Layer) -> Cost:
    """Classes drawn by unnormalized log-probabilities.

    * Per row of C classes: C exp (none if ``logarithmic`` is false) and C - 1 add for the running sums.
    * Per sample: 1 mul of the random number by the total, and a bisection, at most ceil(log2(C)) cmp.

    Shapes: x[N, C] -> y[N, S]
    """
    x, samples = layer["x"], layer.out.size
    classes = x.shape[-1]
    powers = x.size if layer.attrs.get("logarithmic", True) else 0
    operations = Operations(add=x.size - x.size // classes, special=powers)
    operations += samples * Operations(mul=1, cmp=ceil_log2(classes))
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("make")
def calc_random(layer: Layer) -> Cost:
    """New tensor of random numbers of any distribution: no operations; only the output is written.

    An operand that only provides the shape is not read; scalar operands (parameters) are read.

    Shapes: -> y[N, C]
    """
    return calc_creation(layer)


@pattern("map")
def calc_normal(layer: Layer) -> Cost:
    """Normal random numbers with means x0 and deviations x1, mean + deviation * noise: one fma each.

    Shapes: x0[N, C], x1[N, C] -> y[N, C]
    """
    return Cost(Operations(fma=layer.out.size), layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_sample(layer: Layer) -> Cost:
    """Random numbers of a distribution with tensors as parameters.

    Examples are Poisson, binomial, gamma and Dirichlet. No operations, as for all random bits, although such generators
    reject numbers depending on data. The parameters are read.

    Shapes: x[N, C] -> y[N, C]
    """
    return Cost(Operations(), layer.read, layer.written, layer.attrs)
