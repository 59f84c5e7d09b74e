"""Functions of probability distributions."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Layer, Operations, PerElement, covers, pattern

UNARY: Mapping[str, PerElement] = {
    "laplace_cdf": PerElement(
        Operations(mul=1, add=3, cmp=2, special=1),
        "0.5 - where(x > 0, 0.5, where(x < 0, -0.5, 0)) * expm1(-abs(x))",
    ),
    "laplace_icdf": PerElement(
        Operations(mul=2, add=3, cmp=2, special=1),
        "h = 1 - 2 * x; where(h > 0, 1, where(h < 0, -1, 0)) * log1p(-abs(h))",
    ),
}


@pattern("map")
@covers(UNARY)
def calc_distribution_function(layer: Layer) -> Cost:
    """Cumulative distribution functions and their inverses: the operations of the definition, once per element.

    Shapes: x[N, C] -> y[N, C]
    """
    return Cost(layer["x"].size * UNARY[layer.op].operations, layer.read, layer.written, layer.attrs)


BINARY: Mapping[str, PerElement] = {
    "bernoulli_log_prob": PerElement(Operations(mul=1, add=4, special=2), "x0 * (x1 - 1) - log(exp(-x0) + 1)"),
    "checked_bernoulli_log_prob": PerElement(
        Operations(mul=1, add=4, cmp=2, special=2),
        "y = x0 * (x1 - 1) - log(exp(-x0) + 1); where(x1 == 0, y, where(x1 == 1, y, -inf))",
    ),
    "xlogx": PerElement(Operations(mul=1, cmp=1), "where(x0 == 0, 0, x0 * x1)"),
}


@pattern("map")
@covers(BINARY)
def calc_distribution_terms(layer: Layer) -> Cost:
    """Logarithms of probabilities and terms of an entropy: the operations of the definition, once per output element.

    * ``bernoulli_log_prob``: logits x0 and outcomes x1; ``checked`` tests whether the outcomes are 0 or 1. The limits
      for infinite logits are not counted.
    * ``xlogx``: probabilities x0 and their logarithms x1, which are given.

    Masks that a backward pass reads are further outputs.

    Shapes: x0[N, C], x1[N, C] -> y[N, C]
    """
    return Cost(layer.out.size * BINARY[layer.op].operations, layer.read, layer.written, layer.attrs)
