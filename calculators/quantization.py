"""Quantized values: conversions, operators on them, and weights packed into few bits.

*Dequantizing* a value is its conversion to a real number.
"""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Calculator, Cost, Dim, Layer, Operations, PerElement, covers, element_wise, pattern, prod

from ._shared import dot_products, operations_of, without_quantization
from .activation import calc_activation, calc_gelu, calc_log_softmax, calc_softmax
from .conv import calc_conv, calc_conv_transpose
from .elementwise import calc_clip, calc_nary, calc_pow, calc_sum_of_operands, calc_unary, calc_where
from .fused import activation_operations, calc_embed_norm
from .layout import calc_data_movement
from .matmul import calc_linear, calc_matmul
from .normalization import calc_batch_norm, calc_instance_norm, calc_layer_norm, rms_norm_operations
from .pooling import calc_pool
from .reduction import calc_reduction
from .resampling import calc_resize

# Quantization and dequantization.


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

    The largest element of the block determines the power. It is read from the exponent bits and costs nothing.

    * Quantizing: per element 1 add and 1 cmp for the largest absolute value, 1 mul, 3 cmp to round and to limit.
    * Dequantizing: 1 mul per element.

    Source: Darvish Rouhani et al., "Pushing the Limits of Narrow Precision Inferencing at Cloud Scale with Microsoft
    Floating Point", 2020.

    Shapes: x[N, C] -> y[N, C]
    """
    real = layer.out if layer.op == "dequantize_blocks" else layer["x"]
    return Cost(real.size * BLOCKS[layer.op].operations, layer.read, layer.written, layer.attrs)


# Quantization to few bits, in real numbers.


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
    """Rounding of ``v = x / scale`` to floats of fewer bits, multiples of ``2 ** (floor(log2(abs(v))) - mantissa)``.

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


# Operators on quantized values.


REQUANTIZED = Operations(mul=1, cmp=3)
"""The operations per accumulated integer: times a scale, rounded, limited at both ends."""

REAL = ("bfloat16", "float16", "float32", "float64")
"""Dtypes of outputs that are not quantized."""


def _elements_with(layer: Layer, suffix: str) -> Dim:
    names = (name.removesuffix(suffix) for name in layer.inputs if name.endswith(suffix))
    return sum(layer[name].size for name in names if name in layer)


def with_extra_operations(layer: Layer, plain: Cost, operations: Operations) -> Cost:
    """Return the cost of an operator on real numbers plus the operations of its quantization."""
    return Cost(operations_of(plain) + operations, layer.read, layer.written, layer.attrs, plain.macs)


def _integer_products(layer: Layer, calculator: Calculator, op: str) -> Cost:
    # Zero points are subtracted before the products, sums are scaled after them.
    operations, y = Operations(add=_elements_with(layer, "_zero_point")), layer.out.size
    if "y_scale" in layer:
        operations += y * REQUANTIZED + Operations(add=y if "y_zero_point" in layer else 0)
    elif any(name.endswith("_scale") for name in layer.inputs):
        operations += Operations(mul=y)
    operations += y * activation_operations(layer) + Operations(mul=1, add=1) * (y if "z" in layer else 0)
    return with_extra_operations(layer, Cost(*calculator(without_quantization(layer, op))), operations)


PRODUCTS: Mapping[str, Calculator] = {
    "quantized_conv": calc_conv,
    "quantized_conv_transpose": calc_conv_transpose,
    "quantized_linear": calc_linear,
}


@pattern("product")
@covers(*PRODUCTS)
def calc_quantized_product(layer: Layer) -> Cost:
    """Convolution or linear layer of quantized values, in integers: products, zero points and scales.

    * Zero points ``x_zero_point``, ``w_zero_point``: 1 add per element of each operand that has one.
    * The products and sums of the operator, its MACs.
    * Quantized output (``y_scale`` given), per output element: 1 mul by the joined scale, 3 cmp to round and to limit,
      1 add of ``y_zero_point``.
    * Real output (``x_scale`` or ``w_scale`` given, ``y_scale`` absent): 1 mul per output element.
    * Another quantized tensor ``z``, added to the output: 1 mul by its scale and 1 add per element.
    * An ``activation`` of the output: its own operations.

    Scales that are joined beforehand cost nothing.

    Source: Jacob et al., "Quantization and Training of Neural Networks", arXiv:1712.05877.

    Shapes of quantized_linear: x[N, F_in], w[F_out, F_in], x_zero_point[1]?, y_scale[1]? -> y[N, F_out]
    Shapes of quantized_conv: x[N, C_in, H_in, W_in], w[C_out, C_in/G, K_h, K_w], x_zero_point[1]?, y_scale[1]?
        -> y[N, C_out, H_out, W_out]
    Settings of quantized_conv: kernel=(K_h, K_w), groups=G
    Shapes of quantized_conv_transpose: x[N, C_in, H_in, W_in], w[C_in, C_out/G, K_h, K_w], x_zero_point[1]?,
        y_scale[1]? -> y[N, C_out, H_out, W_out]
    Settings of quantized_conv_transpose: kernel=(K_h, K_w), groups=G
    """
    return _integer_products(layer, PRODUCTS[layer.op], layer.op.removeprefix("quantized_"))


@pattern("product")
def calc_quantized_matmul(layer: Layer) -> Cost:
    """Matrix product of quantized values, in integers; zero points and scales as in ``quantized_linear``.

    Shapes: x0[B, M, K], x1[B, K, N], x0_zero_point[1]?, y_scale[1]? -> y[B, M, N]
    """
    return _integer_products(layer, calc_matmul, "matmul")


@pattern("product")
def calc_dynamic_quantized_matmul(layer: Layer) -> Cost:
    """Matrix product of real and quantized values: x0 is quantized by its range first.

    * x0: ``dynamic_quantize``.
    * The product: ``quantized_matmul``, 1 add per element of x0, and of x1 if it has a zero point.
    * Every output element is dequantized: 1 mul.

    Shapes: x0[B, M, K], x1[B, K, N], x1_scale[1]? -> y[B, M, N]
    """
    x0 = layer["x0"]
    quantized = calc_dynamic_quantize(Layer("dynamic_quantize", {"x": x0}, [x0]))
    operations = operations_of(quantized) + Operations(
        mul=layer.out.size, add=x0.size + _elements_with(layer, "_zero_point")
    )
    return with_extra_operations(layer, calc_matmul(without_quantization(layer, "matmul")), operations)


DYNAMIC_PRODUCTS: Mapping[str, Calculator] = {
    "dynamic_quantized_conv": calc_conv,
    "dynamic_quantized_conv_transpose": calc_conv_transpose,
    "dynamic_quantized_linear": calc_linear,
}


@pattern("product")
@covers(*DYNAMIC_PRODUCTS)
def calc_dynamic_quantized_product(layer: Layer) -> Cost:
    """Convolution or linear layer of real values with quantized weights: x is quantized by its range first.

    * x: ``dynamic_quantize``, and 1 add per element for its zero point.
    * The products and sums of the operator, its MACs; 1 add per element of w if it has a zero point.
    * Every output element is dequantized: 1 mul. An ``activation`` of the output has its own operations.

    Shapes of dynamic_quantized_linear: x[N, F_in], w[F_out, F_in], b[F_out], w_scale[1]? -> y[N, F_out]
    Shapes of dynamic_quantized_conv: x[N, C_in, H_in, W_in], w[C_out, C_in/G, K_h, K_w], w_scale[1]?
        -> y[N, C_out, H_out, W_out]
    Settings of dynamic_quantized_conv: kernel=(K_h, K_w), groups=G
    Shapes of dynamic_quantized_conv_transpose: x[N, C_in, H_in, W_in], w[C_in, C_out/G, K_h, K_w], w_scale[1]?
        -> y[N, C_out, H_out, W_out]
    Settings of dynamic_quantized_conv_transpose: kernel=(K_h, K_w), groups=G
    """
    x = layer["x"]
    operations = operations_of(calc_dynamic_quantize(Layer("dynamic_quantize", {"x": x}, [x])))
    operations += Operations(mul=layer.out.size, add=x.size + _elements_with(layer, "_zero_point"))
    operations += layer.out.size * activation_operations(layer)
    real = without_quantization(layer, layer.op.removeprefix("dynamic_quantized_"))
    return with_extra_operations(layer, Cost(*DYNAMIC_PRODUCTS[layer.op](real)), operations)


def _on_dequantized_operands(layer: Layer, calculator: Calculator) -> Cost:
    operations = Operations(mul=_elements_with(layer, "_scale"), add=_elements_with(layer, "_zero_point"))
    if layer.out.dtype not in REAL:
        operations += layer.out.size * Operations(div=1, cmp=3, add=1 if "y_zero_point" in layer else 0)
    operations += layer.out.size * activation_operations(layer)
    return with_extra_operations(
        layer, Cost(*calculator(without_quantization(layer, layer.op.removeprefix("quantized_")))), operations
    )


UNARY: Mapping[str, Calculator] = {
    "quantized_sigmoid": calc_activation,
    "quantized_relu": calc_activation,
    "quantized_leaky_relu": calc_activation,
    "quantized_hard_sigmoid": calc_activation,
    "quantized_hard_swish": calc_activation,
    "quantized_silu": calc_activation,
    "quantized_tanh": calc_activation,
    "quantized_gelu": calc_gelu,
    "quantized_clip": calc_clip,
    "quantized_erf": calc_unary,
    "quantized_sqrt": calc_unary,
    "quantized_softmax": calc_softmax,
    "quantized_log_softmax": calc_log_softmax,
    "quantized_batch_norm": calc_batch_norm,
    "quantized_instance_norm": calc_instance_norm,
    "quantized_layer_norm": calc_layer_norm,
    "quantized_avg_pool": calc_pool,
    "quantized_reduce_mean": calc_reduction,
    "quantized_resize": calc_resize,
}


@pattern(
    "map",
    quantized_softmax="reduce",
    quantized_log_softmax="reduce",
    quantized_instance_norm="reduce",
    quantized_layer_norm="reduce",
    quantized_reduce_mean="reduce",
    quantized_avg_pool="window",
    quantized_resize="window",
)
@covers(*UNARY)
def calc_quantized_unary(layer: Layer) -> Cost:
    """Operators of one quantized input: dequantize, the operator on real numbers, quantize.

    * Per input element 1 mul by its scale, and 1 add with a zero point.
    * The operations of the operator.
    * Per output element 1 div, 3 cmp, and 1 add with a zero point; nothing if the output is real.

    Shapes: x[N, C], x_scale[1], x_zero_point[1], y_zero_point[1] -> y[N, C]
    Settings: axis=1, kernel=(1, 1), mode="linear"
    """
    return _on_dequantized_operands(layer, UNARY[layer.op])


NARY: Mapping[str, Calculator] = {
    "quantized_add": calc_sum_of_operands,
    "quantized_sub": calc_sum_of_operands,
    "quantized_mul": calc_nary,
    "quantized_div": calc_nary,
    "quantized_maximum": calc_nary,
    "quantized_minimum": calc_nary,
    "quantized_pow": calc_pow,
    "quantized_concat": calc_data_movement,
}


@pattern("map", quantized_concat="move")
@covers(*NARY)
def calc_quantized_nary(layer: Layer) -> Cost:
    """Operators of several quantized inputs: dequantize, the operator on real numbers, quantize.

    As for one input. Each operand has its own scale and zero point, ``x0_scale``, ``x0_zero_point``. An ``activation``
    of the output has its own operations.

    Shapes: x0[N, C], x0_scale[1], x1[N, C], x1_scale[1] -> y[N, C]
    Settings: axis=1
    """
    return _on_dequantized_operands(layer, NARY[layer.op])


@pattern("map")
def calc_quantized_where(layer: Layer) -> Cost:
    """Selection between quantized values: dequantize, ``where``, quantize; the condition is not quantized.

    Shapes: condition[N, C], x0[N, C], x0_scale[1], x1[N, C], x1_scale[1] -> y[N, C]
    """
    return _on_dequantized_operands(layer, calc_where)


@pattern("reduce")
def calc_quantized_embed_norm(layer: Layer) -> Cost:
    """``embed_norm`` of quantized tables, weight and bias: the elements that are read are dequantized.

    Per element read of words and segments, of positions (once for all samples), of weight and bias: 1 mul by its scale,
    and 1 add with a zero point.

    Shapes: x[N, T], w0[V, D], w1[P, D], w2[S, D]?, w[D], b[D], w0_scale[1], w1_scale[1] -> y[N, T, D]
    """
    extra = {name: x for name, x in layer.inputs.items() if name.endswith(("_scale", "_zero_point"))}
    operands = {name: x for name, x in layer.inputs.items() if name not in extra}
    plain = calc_embed_norm(Layer("embed_norm", operands, layer.outputs, layer.attrs))
    y = layer.out
    taken = {"w0": y.size, "w1": y.size // y.shape[0], "w2": y.size}
    operations = operations_of(plain)
    for name in ("w0", "w1", "w2", "w", "b"):
        if name in layer:
            count = taken.get(name, layer[name].size)
            operations += Operations(mul=count if f"{name}_scale" in layer else 0)
            operations += Operations(add=count if f"{name}_zero_point" in layer else 0)
    read = plain.mread + sum(x.nbytes for x in extra.values())
    return Cost(operations, read, layer.written, layer.attrs)


# Weights packed into blocks of few bits.


@pattern("product")
def calc_packed_linear(layer: Layer) -> Cost:
    """Linear layer with a packed weight, which is dequantized, then multiplied.

    Every weight takes 1 mul by the scale of its block once, and 1 add with zero points or with one ``zero_point`` for
    all; the rest is ``linear``. ``w`` has its logical shape [F_out, F_in] and its packed dtype, so its bytes are the
    packed ones.

    Source: Frantar et al., GPTQ, arXiv:2210.17323.

    Shapes: x[N, F_in], w[F_out, F_in], b[F_out]? -> y[N, F_out]
    """
    inputs = {name: layer[name] for name in ("x", "w", "b") if name in layer}
    weights = layer["x"].shape[-1] * layer.out.shape[-1]  # w may be stored in any shape
    real = Operations(mul=weights, add=weights if "w_zero_point" in layer or "zero_point" in layer.attrs else 0)
    return with_extra_operations(layer, calc_linear(Layer("linear", inputs, layer.outputs, layer.attrs)), real)


@pattern("move")
def calc_packed_embedding(layer: Layer) -> Cost:
    """Rows of a packed matrix by index, dequantized.

    Per output element 1 mul by the scale of its block, and 1 add with zero points or with one ``zero_point`` for all.
    The indices are read, one element of w per output element, and the same share of its scales and zero points.

    Shapes: x[N, T], w[V, D], w_scale[V, D] -> y[N, T, D]
    """
    w, y = layer["w"], layer.out
    read = layer["x"].nbytes + w.bytes_of(y.size)
    for name in ("w_scale", "w_zero_point"):
        if name in layer:
            read += layer[name].bytes_of(y.size * layer[name].size // w.size)
    is_shifted = "w_zero_point" in layer or "zero_point" in layer.attrs
    operations = y.size * Operations(mul=1, add=1 if is_shifted else 0)
    return Cost(operations, read, layer.written, layer.attrs)


WEIGHTS = ("w0", "w1", "w2")


@pattern("product")
def calc_packed_projections(layer: Layer) -> Cost:
    """Several linear layers of one input with packed weights, with a sum and a norm before them.

    * The sum of x and ``skip``, if given: 1 add per element.
    * ``rms_norm`` with the weight ``w``, if given.
    * Every weight ``w0``, ``w1``, ``w2`` is dequantized and multiplied, as in ``packed_linear``.
    * ``activation``: the second result times the activation of the first, 1 mul per element; only this is written.

    Source: Frantar et al., GPTQ, arXiv:2210.17323; Shazeer, GLU Variants Improve Transformer, arXiv:2002.05202.

    Shapes: x[N, F], skip[N, F]?, w[F]?, w0[G, F], w1[G, F], b0[G]?, w0_scale[G]?, w1_scale[G]? -> y[N, G]
    Settings: activation="silu"
    """
    x = layer["x"]
    width = x.shape[-1]
    rows = prod(x.shape[:-1])
    operations = Operations(add=x.size if "skip" in layer else 0)
    operations += rms_norm_operations(x.size, rows) if "w" in layer else Operations()
    macs = 0
    for name in WEIGHTS:
        if name not in layer:
            continue
        size = layer[name].size
        products = rows * size
        operations += dot_products(products // width, products, f"b{name[1]}" in layer)
        is_shifted = f"{name}_zero_point" in layer or "zero_point" in layer.attrs
        operations += size * Operations(mul=1, add=1 if is_shifted else 0)
        macs += products
    if "activation" in layer.attrs:
        operations += layer.out.size * (activation_operations(layer) + Operations(mul=1))
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)


@pattern("product")
def calc_packed_matmul(layer: Layer) -> Cost:
    """Matrix product with a weight of few bits, which is dequantized as it is used.

    Dequantization takes 1 mul per element of the weight, and 1 add with zero points. The weight may have any packed
    layout; N is the last axis of y.

    Source: Frantar et al., GPTQ, arXiv:2210.17323.

    Shapes: x[M, K], w[N, K], w_scale[N] -> y[M, N]
    """
    y, length = layer.out.size, layer["x"].shape[-1]
    weights, macs = layer.out.shape[-1] * length, y * length
    operations = dot_products(y, macs) + weights * Operations(mul=1, add=1 if layer.attrs.get("zero_points") else 0)
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)
