"""Conversions between real and quantised values."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Layer, Operations, PerElement, covers


def calc_quantize(layer: Layer) -> Cost:
    """Linear quantisation, ``min(max(round(x / scale) + zero_point, lowest), largest)`` of every element.

    That is 1 div, 1 add, 3 cmp. Rounding is one cmp; without a zero point there is no addition.

    Shapes: x[N, C], scale[C], zero_point[C] -> y[N, C]
    """
    shift = 1 if "zero_point" in layer else 0
    operations = layer["x"].size * Operations(add=shift, div=1, cmp=3)
    return Cost(operations, layer.read, layer.written, layer.attrs)


def calc_dequantize(layer: Layer) -> Cost:
    """Real values of quantised ones, ``(x - zero_point) * scale``: 1 add, 1 mul per element; no add without zero point.

    Shapes: x[N, C], scale[C], zero_point[C] -> y[N, C]
    """
    shift = 1 if "zero_point" in layer else 0
    return Cost(layer["x"].size * Operations(add=shift, mul=1), layer.read, layer.written, layer.attrs)


def calc_fake_quantize(layer: Layer) -> Cost:
    """Quantisation and back in real numbers: ``quantize`` and ``dequantize`` of every element, with zero point.

    Shapes: x[N, C], scale[C], zero_point[C] -> y[N, C]
    """
    return Cost(layer["x"].size * Operations(mul=1, add=2, div=1, cmp=3), layer.read, layer.written, layer.attrs)


def calc_dynamic_quantize(layer: Layer) -> Cost:
    """Linear quantisation by the range of x, which is found first and made to hold 0.

    Minimum and maximum of n elements and 0 are 2n comparisons; the scale ``(largest - least) / 255`` a sub and a div;
    the zero point ``min(max(round(0 - least / scale), 0), 255)`` a div, a sub, 3 cmp; then n times 1 div, 1 add, 3 cmp.

    Shapes: x[N, C] -> y[N, C], scale[1], zero_point[1]
    """
    n = layer["x"].size
    operations = Operations(add=n + 2, div=n + 2, cmp=5 * n + 3)
    return Cost(operations, layer.read, layer.written, layer.attrs)


BLOCKS: Mapping[str, PerElement] = {
    "quantize_blocks": PerElement(
        Operations(mul=1, add=1, cmp=4), "largest = max(largest, abs(x)); min(max(round(x * power), least), most)"
    ),
    "dequantize_blocks": PerElement(Operations(mul=1), "x * power"),
}


@covers(BLOCKS)
def calc_blocks(layer: Layer) -> Cost:
    """Block floating point: the elements of a block as integers times one power of two, that of the largest of them.

    Powers of two are found from exponents' bits, and free. Made: per element 1 add and 1 cmp for the largest absolute
    value, 1 mul, 3 cmp to round and to limit; made real: 1 mul.

    Source: Darvish Rouhani et al., "Pushing the Limits of Narrow Precision Inferencing at Cloud Scale with Microsoft
    Floating Point", 2020.

    Shapes: x[N, C] -> y[N, C]
    """
    real = layer.out if layer.op == "dequantize_blocks" else layer["x"]
    return Cost(real.size * BLOCKS[layer.op].operations, layer.read, layer.written, layer.attrs)
