"""Quantization to few bits, in real numbers."""

from __future__ import annotations

from costcore.ir import Cost, Layer, Operations, element_wise, pattern


@element_wise
def calc_bipolar_quantize(layer: Layer) -> Cost:
    """Sign of every element times a scale, ``(1 if x >= 0 else -1) * scale``: 1 cmp and 1 mul.

    Source: QONNX operator BipolarQuant.

    Shapes: x[N, C], scale[C] -> y[N, C]
    """
    return Cost(layer["x"].size * Operations(mul=1, cmp=1), layer.read, layer.written, layer.attrs)


@element_wise
def calc_truncate_bits(layer: Layer) -> Cost:
    """Quantized values without their lowest bits.

    ``(round(round(x / scale + zero_point) / step) - zero_point) * scale``: 2 div, 2 add, 2 cmp to round and 1 mul per
    element. With ``limited`` the result is limited to the range of the bits that remain: 2 cmp more. ``step``, a power
    of two, follows from the bit widths or from the scales.

    Source: QONNX operator Trunc, versions 1 and 2 (``limited``).

    Shapes: x[N, C], scale[C], zero_point[C] -> y[N, C]
    """
    limits = 2 if layer.attrs.get("limited") else 0
    operations = layer["x"].size * Operations(mul=1, add=2, div=2, cmp=2 + limits)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@element_wise
def calc_float_quantize(layer: Layer) -> Cost:
    """Rounding to floats of fewer bits, ``v = x / scale``, to a multiple of ``2 ** (floor(log2(abs(v))) - mantissa)``.

    * The exponent: 1 div, absolute value and smallest number 2 add, 1 special, 1 cmp to round, 1 add, 1 cmp with the
      smallest exponent; its power of two is 1 special.
    * The value: 1 div, 1 cmp to round, 1 mul, 2 cmp to limit it, and 1 mul by the scale.

    Source: QONNX operator FloatQuant.

    Shapes: x[N, C], scale[C] -> y[N, C]
    """
    per_element = Operations(mul=2, add=3, div=2, cmp=5, special=2)
    return Cost(layer["x"].size * per_element, layer.read, layer.written, layer.attrs)


@pattern("map")
def calc_multi_threshold(layer: Layer) -> Cost:
    """Number of the channel's T thresholds that every element reaches: T cmp and T - 1 add.

    With ``affine`` the number is scaled and shifted by constants, 1 fma.

    Source: QONNX operator MultiThreshold; Umuroglu and Jahre, "Streamlined Deployment for Quantized Neural Networks",
    arXiv:1709.04060.

    Shapes: x[N, C], w[C, T] -> y[N, C]
    """
    count, affine = layer["w"].shape[-1], 1 if layer.attrs.get("affine") else 0
    operations = layer["x"].size * Operations(fma=affine, add=count - 1, cmp=count)
    return Cost(operations, layer.read, layer.written, layer.attrs)
