"""Layers that perturb activations at random while training. Drawing the random bits costs no operations."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Layer, Operations, PerElement, ceil_log2, covers, prod

DROPOUTS: Mapping[str, PerElement] = {
    "dropout": PerElement(Operations(mul=1, cmp=1), "where(keep, scale * x, 0)"),
    "feature_dropout": PerElement(Operations(mul=1, cmp=1), "where(keep, scale * x, 0)"),
    "alpha_dropout": PerElement(Operations(fma=1, cmp=1), "fma(where(keep, x, value), scale, shift)"),
    "feature_alpha_dropout": PerElement(Operations(fma=1, cmp=1), "fma(where(keep, x, value), scale, shift)"),
}

FEATURE_DROPOUTS = ("feature_dropout", "feature_alpha_dropout")
"""The operators that drop whole channels."""


@covers(DROPOUTS)
def calc_dropout(layer: Layer) -> Cost:
    """Dropout: in training every element is chosen or dropped, and scaled; nothing at inference.

    Training: the operations of the definition, per element, and the mask is written beside the output: the second
    output where the framework returns it, else one byte per element (per sample and channel for the ``feature`` kinds,
    which drop whole channels). Inference (setting ``training`` false): free on purpose, no operations and no bytes.

    Source: Srivastava et al., "Dropout", JMLR 2014; alpha: Klambauer et al., "Self-Normalizing Neural Networks",
    arXiv:1706.02515; whole channels: Tompson et al., arXiv:1411.4280.

    Shapes: x[N, C] -> y[N, C], mask[N, C]
    Settings: training=True
    """
    if not layer.attrs.get("training"):
        return Cost(Operations(), 0, 0, layer.attrs)
    x = layer["x"]
    drawn = prod(x.shape[:2] if layer.op in FEATURE_DROPOUTS else x.shape)
    mask = 0 if len(layer.outputs) > 1 else drawn
    return Cost(DROPOUTS[layer.op].operations * x.size, layer.read, layer.written + mask, layer.attrs)


@covers("dropout_backward", "feature_dropout_backward")
def calc_dropout_backward(layer: Layer) -> Cost:
    """Backward of dropout: dx = where(mask, scale * dy, 0), one mul and one cmp per element.

    With a mask that is not bool but holds 0 and the scale, one mul.

    Shapes: dy[N, C], mask[N, C] -> dx[N, C]
    """
    size = layer["dy"].size
    choice = size if layer["mask"].dtype == "bool" else 0
    return Cost(Operations(mul=size, cmp=choice), layer.read, layer.written, layer.attrs)


def calc_bernoulli(layer: Layer) -> Cost:
    """A coin for every element of x, its probability: one comparison with a random number each.

    Shapes: x[N, C] -> y[N, C]
    """
    return Cost(Operations(cmp=layer["x"].size), layer.read, layer.written, layer.attrs)


def calc_multinomial(layer: Layer) -> Cost:
    """Classes drawn by unnormalised log-probabilities: their running sums, and one search in them a sample.

    Per row of C classes: C exp (none with ``logarithmic`` false), C - 1 additions; per sample 1 mul of the random
    number by the total, and the bisection, at most ceil(log2(C)) comparisons.

    Shapes: x[N, C] -> y[N, S]
    """
    x, samples = layer["x"], layer.out.size
    classes = x.shape[-1]
    powers = x.size if layer.attrs.get("logarithmic", True) else 0
    operations = Operations(add=x.size - x.size // classes, special=powers)
    operations += samples * Operations(mul=1, cmp=ceil_log2(classes))
    return Cost(operations, layer.read, layer.written, layer.attrs)


def calc_normal(layer: Layer) -> Cost:
    """Normal random numbers of given means x0 and deviations x1: mean + deviation * noise, one fma an element.

    Shapes: x0[N, C], x1[N, C] -> y[N, C]
    """
    return Cost(Operations(fma=layer.out.size), layer.read, layer.written, layer.attrs)


def calc_sample(layer: Layer) -> Cost:
    """Random numbers of another distribution (Poisson, binomial, gamma, Dirichlet) with parameters that are tensors.

    Drawing them is free, as all random bits are, though such generators reject numbers as data decides; the parameters
    are read.

    Shapes: x[N, C] -> y[N, C]
    """
    return Cost(Operations(), layer.read, layer.written, layer.attrs)
