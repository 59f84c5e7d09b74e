"""Chains of elementwise functions that are one operator in some formats."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Layer, Operations, PerElement, covers, element_wise, pattern

CHAINS: Mapping[str, PerElement] = {
    "gated_add": PerElement(Operations(fma=1), "fma(x1, gate, x0)"),
    "scaled_silu": PerElement(Operations(mul=2, add=2, div=1, special=1), "z = scale * x; z * (1 / (1 + exp(-z)))"),
    "scaled_tanh": PerElement(Operations(mul=2, special=1), "alpha * tanh(beta * x)"),
    "scaled_softplus": PerElement(Operations(mul=2, add=1, special=2), "alpha * log(1 + exp(beta * x))"),
    "scale_shift": PerElement(Operations(fma=1), "fma(scale, x, shift)"),
}


@element_wise
@covers(CHAINS)
def calc_chain(layer: Layer) -> Cost:
    """Chains of elementwise functions: the operations of the definition, once per output element.

    ``scale`` and ``shift`` are attributes, or operands with one element per row, channel or tensor.

    Shapes: x[N, C] -> y[N, C]
    """
    return Cost(layer.out.size * CHAINS[layer.op].operations, layer.read, layer.written, layer.attrs)


COMPLEX: Mapping[str, str] = {
    "complex_pairs_mul": "(a + b i) (c + d i) = (a c - b d) + (a d + b c) i",
    "complex_pairs_mul_conj": "(a + b i) (c - d i) = (a c + b d) + (b c - a d) i",
}


@pattern("map")
@covers(COMPLEX)
def calc_complex_pairs(layer: Layer) -> Cost:
    """Products of complex numbers stored as pairs: real and imaginary part adjacent along the last axis.

    A product is 4 mul and 2 add: 2 mul and 1 add for each of its two parts.

    Shapes: x0[N, C, 2], x1[N, C, 2] -> y[N, C, 2]
    """
    return Cost(layer.out.size * Operations(mul=2, add=1), layer.read, layer.written, layer.attrs)


@pattern("map")
def calc_integer_mul(layer: Layer) -> Cost:
    """Product of quantized values as integers: 1 mul per output element.

    First 1 add per element of each operand that has a zero point.

    Shapes: x0[N, C], x0_zero_point[1]?, x1[N, C], x1_zero_point[1]? -> y[N, C]
    """
    shifted = sum(layer[name].size for name in ("x0", "x1") if f"{name}_zero_point" in layer)
    return Cost(Operations(mul=layer.out.size, add=shifted), layer.read, layer.written, layer.attrs)
