"""Quantization and dequantization."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Layer, Operations, PerElement, covers, element_wise, pattern


@element_wise
def calc_quantize(layer: Layer) -> Cost:
    """Linear quantization, ``min(max(round(x / scale) + zero_point, lowest), largest)`` of every element.

    1 div, 1 add, 3 cmp. Rounding is one cmp; without a zero point there is no add.

    Shapes: x[N, C], scale[C], zero_point[C] -> y[N, C]
    """
    shift = 1 if "zero_point" in layer else 0
    operations = layer["x"].size * Operations(add=shift, div=1, cmp=3)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@element_wise
def calc_dequantize(layer: Layer) -> Cost:
    """Real values of quantized ones, ``(x - zero_point) * scale``: 1 add and 1 mul per element.

    Without a zero point there is no add.

    Shapes: x[N, C], scale[C], zero_point[C] -> y[N, C]
    """
    shift = 1 if "zero_point" in layer else 0
    return Cost(layer["x"].size * Operations(add=shift, mul=1), layer.read, layer.written, layer.attrs)


@element_wise
def calc_fake_quantize(layer: Layer) -> Cost:
    """Quantization and dequantization in real numbers: ``quantize`` and ``dequantize`` with zero point.

    Shapes: x[N, C], scale[C], zero_point[C] -> y[N, C]
    """
    return Cost(layer["x"].size * Operations(mul=1, add=2, div=1, cmp=3), layer.read, layer.written, layer.attrs)


@pattern("reduce")
def calc_dynamic_quantize(layer: Layer) -> Cost:
    """Linear quantization by the range of x, which is determined first and includes 0.

    * Minimum and maximum of n elements and 0: 2n cmp.
    * The scale ``(largest - least) / 255``: 1 add and 1 div.
    * The zero point ``min(max(round(0 - least / scale), 0), 255)``: 1 div, 1 add, 3 cmp.
    * The elements: n times 1 div, 1 add, 3 cmp.

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


@pattern("reduce", dequantize_blocks="map")
@covers(BLOCKS)
def calc_blocks(layer: Layer) -> Cost:
    """Block floating point: the elements of a block as integers times one power of two.

    The power is that of the largest element. Powers of two are taken from the bits of exponents and cost nothing.

    * Quantizing: per element 1 add and 1 cmp for the largest absolute value, 1 mul, 3 cmp to round and to limit.
    * Dequantizing: 1 mul per element.

    Source: Darvish Rouhani et al., "Pushing the Limits of Narrow Precision Inferencing at Cloud Scale with Microsoft
    Floating Point", 2020.

    Shapes: x[N, C] -> y[N, C]
    """
    real = layer.out if layer.op == "dequantize_blocks" else layer["x"]
    return Cost(real.size * BLOCKS[layer.op].operations, layer.read, layer.written, layer.attrs)
