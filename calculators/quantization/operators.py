"""Operators on quantized values."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Calculator, Cost, Dim, Layer, Operations, covers, pattern

from .._shared import operations_of, without_quantization
from ..activation.activations import calc_activation, calc_gelu
from ..activation.softmax import calc_log_softmax, calc_softmax
from ..conv.conv import calc_conv, calc_conv_transpose
from ..elementwise.arithmetic import calc_clip, calc_nary, calc_pow, calc_sum_of_operands, calc_unary, calc_where
from ..fused.epilogues import activation_operations, calc_embed_norm
from ..layout import calc_data_movement
from ..matmul.dense import calc_linear, calc_matmul
from ..normalization.norms import calc_batch_norm, calc_instance_norm, calc_layer_norm
from ..pooling.pooling import calc_pool
from ..reduction.reduce import calc_reduction
from ..resampling.interpolation import calc_resize
from .conversions import calc_dynamic_quantize

REQUANTIZED = Operations(mul=1, cmp=3)
"""The operations per accumulated integer: times a scale, rounded, limited at both ends."""

REAL = ("bfloat16", "float16", "float32", "float64")
"""Dtypes of outputs that are not quantized."""


def _elements_with(layer: Layer, suffix: str) -> Dim:
    """Return the elements of the operands that have their own ``suffix``, a scale or a zero point."""
    names = (name.removesuffix(suffix) for name in layer.inputs if name.endswith(suffix))
    return sum(layer[name].size for name in names if name in layer)


def with_extra_operations(layer: Layer, plain: Cost, operations: Operations) -> Cost:
    """Return the cost of an operator on real numbers plus the operations of its quantization."""
    return Cost(operations_of(plain) + operations, layer.read, layer.written, layer.attrs, plain.macs)


def _integer_products(layer: Layer, calculator: Calculator, op: str) -> Cost:
    """Return the cost of ``op`` on integers: zero points are subtracted before, sums are scaled after."""
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
    """Return the cost of an operator on real numbers, with dequantized operands; the output is quantized or real."""
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
    """``embed_norm`` of quantized tables, weight and bias: the elements read of them are dequantized.

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
