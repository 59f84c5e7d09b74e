"""Operators on single elements: functions, comparisons, activations, random numbers, and quantization."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from onnx import TensorProto

from costcore.translate import Arguments, Row

from ..node import Node, Rule
from ..values import BINARY, DTYPES, FLOATS, Value, each
from . import (
    INPUT,
    X,
    axes_from,
    axis_of,
    broadcast,
    first_outputs,
    node_of,
    number,
    operands,
    present_inputs,
    same_shape,
    same_shape_in,
)
from .matrices import CONVOLUTION, conv, matmul

# Functions of elements, comparisons and choices.


def arithmetic(node: Node) -> Sequence[Value]:
    """Infer the broadcast of all inputs; before opset 7 the second one is broadcast onto the first."""
    values = present_inputs(node)
    dtype = values[0].dtype
    name = node.op
    if name == "Div" and dtype in FLOATS:
        name = "Div of floats"
    elif name == "Mod" and node.args.get("fmod"):
        name = "Mod as in C"
    known = BINARY.get(name)
    fold = (lambda *arrays: reduce(each(known), arrays)) if known else None
    shape = values[0].known_shape if "broadcast" in node.args else broadcast(node, *(v.known_shape for v in values))
    return [node.result(shape, dtype, fold)]


def comparison(node: Node) -> Sequence[Value]:
    """Infer bools in the broadcast of all inputs."""
    result = arithmetic(node)[0]
    result.dtype = "bool"
    return [result]


def where(node: Node) -> Sequence[Value]:
    """Infer the broadcast of condition and both inputs."""
    condition, x, y = node.value("condition"), node.value("X"), node.value("Y")
    shape = broadcast(node, condition.known_shape, x.known_shape, y.known_shape)
    return [node.result(shape, x.dtype, each(_chosen, takes_unknown=True))]


def _chosen(condition: Any, a: Any, b: Any) -> Any:
    return None if condition is None else a if condition else b


ELEMENTWISE_RULES: Mapping[str, Rule] = {
    **{
        f"ai.onnx::{op}": same_shape
        for op in (
            *("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot", "Ceil", "Clip", "Cos", "Cosh"),
            *("Erf", "Exp", "Floor", "Log", "Neg", "Not", "Reciprocal", "Round", "Sign", "Sin", "Sinh", "Sqrt", "Tan"),
        )
    },
    **{f"ai.onnx::{op}": same_shape_in("bool") for op in ("IsInf", "IsNaN")},
    **{
        f"ai.onnx::{op}": arithmetic
        for op in (
            *("Add", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Max", "Mean", "Min", "Mod", "Mul"),
            *("Pow", "Sub", "Sum"),
        )
    },
    **{
        f"ai.onnx::{op}": comparison
        for op in ("And", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Or", "Xor")
    },
    "ai.onnx::Where": where,
}
"""Rules by full operator name."""


NARY: Mapping[str, str] = {
    "Add": "add",
    "Sub": "sub",
    "Mul": "mul",
    "Div": "div",
    "And": "logical_and",
    "Or": "logical_or",
    "Xor": "logical_xor",
    "BitwiseAnd": "bitwise_and",
    "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
    "Equal": "equal",
    "Less": "less",
    "LessOrEqual": "less_equal",
    "Greater": "greater",
    "GreaterOrEqual": "greater_equal",
}
"""Operators of two operands A and B."""

VARIADIC: Mapping[str, str] = {"Max": "maximum", "Min": "minimum", "Sum": "add", "Mean": "elementwise_mean"}
"""Operators of any number of operands."""

LOWEST = -3.4e38
"""The default lower bound before opset 11. A bound of this magnitude or more is no bound."""


def _known_bound(name: str) -> Any:
    # None if there is no bound, or if it is not constant.
    def read(a: Arguments) -> Any:
        bound = number(name)(a)
        return None if isinstance(bound, float) and abs(bound) >= -LOWEST else bound

    return read


def _computed_bound(name: str) -> Any:
    # None if the bound is constant.
    return lambda a: a.get(name) if isinstance(a.get(name), Value) and a[name].data is None else None


def _constant_exponent(a: Arguments) -> Any:
    # None unless it is one constant number.
    y = a.get("Y")
    if not isinstance(y, Value) or y.role != "const" or y.size != 1:
        return None
    power = number("Y")(a)
    return int(power) if isinstance(power, float) and power.is_integer() else power


UNARY_FUNCTIONS: Mapping[str, str] = {
    **{
        native: native.lower()
        for native in (
            *("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Erf", "Exp", "Floor"),
            *("Log", "Neg", "Reciprocal", "Round", "Sign", "Sin", "Sinh", "Sqrt", "Tan"),
        )
    },
    "BitwiseNot": "bitwise_not",
    "IsNaN": "isnan",
    "Not": "logical_not",
}
"""Functions of one input without attributes."""

ELEMENTWISE_ROWS: tuple[Row, ...] = (
    *(Row(f"ai.onnx::{native}", op, {"x": INPUT}) for native, op in UNARY_FUNCTIONS.items()),
    *(Row(f"ai.onnx::{native}", op, {"x*": operands("A", "B")}) for native, op in NARY.items()),
    *(Row(f"ai.onnx::{native}", op, {"x*": "data_0"}) for native, op in VARIADIC.items()),
    Row("ai.onnx::Mod", lambda a: "fmod" if a.get("fmod") else "mod", {"x*": operands("A", "B")}, ops=("fmod", "mod")),
    Row("ai.onnx::Pow", "pow", {"x*": operands("X", "Y")}, {"exponent": _constant_exponent}),
    Row(
        "ai.onnx::BitShift",
        lambda a: f"bitwise_{str(a.get('direction', 'LEFT')).lower()}_shift",
        {"x*": operands("X", "Y")},
        ops=("bitwise_left_shift", "bitwise_right_shift"),
    ),
    Row(
        "ai.onnx::IsInf",
        lambda a: (
            "isneginf" if not a.get("detect_positive", 1) else "isinf" if a.get("detect_negative", 1) else "isposinf"
        ),
        {"x": "X"},
        ops=("isinf", "isneginf", "isposinf"),
    ),
    Row("ai.onnx::Where", "where", {"condition": "condition", "x0": "X", "x1": "Y"}),
    Row(
        "ai.onnx::Clip",
        "clip",
        {"x": "input", "lower": _computed_bound("min"), "upper": _computed_bound("max")},
        {"lower": _known_bound("min"), "upper": _known_bound("max")},
    ),
)


# Activations.


def gelu(node: Node) -> Sequence[Value]:
    """Infer an output like the input.

    Raises:
        CostError: for an unknown approximation.
    """
    approximation = node.args.get("approximate", "none")
    if approximation not in ("none", "tanh"):
        raise node.error(f"has the approximation {approximation!r} (expected 'none' or 'tanh')")
    return same_shape(node)


ACTIVATION_RULES: Mapping[str, Rule] = {
    **{
        f"ai.onnx::{op}": same_shape
        for op in (
            *("Celu", "Elu", "HardSigmoid", "HardSwish", "Hardmax", "LeakyRelu", "LogSoftmax", "Mish", "PRelu"),
            *("Relu", "Selu", "Shrink", "Sigmoid", "Softmax", "Softplus", "Softsign", "Swish", "Tanh"),
            "ThresholdedRelu",
        )
    },
    "ai.onnx::Gelu": gelu,
    "ai.onnx::SwiGLU": arithmetic,
}
"""Rules by full operator name."""


def softmax_axis(a: Arguments) -> Any:
    """Return the axis; before opset 13, all axes from this one on."""
    if node_of(a).version >= 13:
        return axis_of("input")(a)
    axes = axes_from("input", 1)(a)
    return axes[0] if len(axes) == 1 else axes


ACTIVATIONS: tuple[tuple[str, str, Mapping[str, Any]], ...] = (
    ("LeakyRelu", "leaky_relu", {"slope": "alpha"}),
    ("Elu", "elu", {"alpha": "alpha"}),
    ("Celu", "celu", {"alpha": "alpha"}),
    ("Selu", "selu", {}),
    ("Gelu", "gelu", {"approximate": "approximate"}),
    ("HardSigmoid", "hard_sigmoid", {"slope": "alpha", "shift": "beta"}),
    ("ThresholdedRelu", "threshold", {"threshold": "alpha"}),
    ("Shrink", "soft_shrink", {"lambd": "lambd", "bias": "bias"}),
    ("Swish", "swish", {"beta": "alpha"}),
)

UNARY_ACTIVATIONS: Mapping[str, str] = {
    **{native: native.lower() for native in ("Mish", "Relu", "Sigmoid", "Softplus", "Softsign", "Tanh")},
    "HardSwish": "hard_swish",
}
"""Functions of one input without attributes."""

ACTIVATION_ROWS: tuple[Row, ...] = (
    *(Row(f"ai.onnx::{native}", op, {"x": INPUT}) for native, op in UNARY_ACTIVATIONS.items()),
    Row("ai.onnx::Softmax", "softmax", X, {"axis": softmax_axis}),
    Row("ai.onnx::LogSoftmax", "log_softmax", X, {"axis": softmax_axis}),
    Row("ai.onnx::Swish", "silu", {"x": INPUT}, when=lambda a: a.get("alpha", 1.0) == 1),
    Row("ai.onnx::Shrink", "hard_shrink", {"x": INPUT}, {"lambd": "lambd"}, when=lambda a: not a.get("bias")),
    Row("ai.onnx::PRelu", "prelu", {"x": "X", "w": "slope"}),
    Row("ai.onnx::SwiGLU", "swiglu", {"x*": operands("A", "B")}, {"alpha": "alpha"}),
    Row("ai.onnx::Hardmax", "hardmax", {"x": "input"}, {"axis": softmax_axis}),
    *(Row(f"ai.onnx::{native}", op, {"x": INPUT}, attrs) for native, op, attrs in ACTIVATIONS),
)


# Dropout and random numbers.


def random(node: Node) -> Sequence[Value]:
    """Infer random numbers in the attribute's shape or the input's."""
    x = node.inputs[0] if node.inputs else None
    default = x.dtype if x is not None else "float32"
    shape = node.args.get("shape") if x is None else x.known_shape
    return [node.result(shape, DTYPES.get(node.args.get("dtype") or 0, default))]


def multinomial(node: Node) -> Sequence[Value]:
    """Infer ``sample_size`` class numbers for each row."""
    dtype = DTYPES[node.args.get("dtype") or TensorProto.INT32]
    return [node.result((node.value("input").known_shape[0], node.args.get("sample_size", 1)), dtype)]


def dropout(node: Node) -> Sequence[Value]:
    """Infer the output and the mask, which is of bools since opset 10."""
    x = node.value("data")
    return [node.result(x.known_shape, x.dtype), node.result(x.known_shape, "bool" if node.version >= 10 else x.dtype)]


RANDOM_RULES: Mapping[str, Rule] = {
    "ai.onnx::Dropout": dropout,
    "ai.onnx::Bernoulli": random,
    "ai.onnx::Multinomial": multinomial,
    **{f"ai.onnx::{op}": random for op in ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")},
}
"""Rules by full operator name."""


def _is_training(a: Arguments) -> bool:
    version = node_of(a).version
    return not a.get("is_test") if version < 7 else bool(number("training_mode")(a))


def _computed_outputs(a: Arguments, values: Any) -> Any:
    # No mask in inference.
    return values if _is_training(a) else values[:1]


RANDOM_ROWS: tuple[Row, ...] = (
    Row(
        "ai.onnx::Dropout",
        "dropout",
        {"x": "data"},
        {"rate": number("ratio"), "training": _is_training},
        outputs=_computed_outputs,
    ),
    Row("ai.onnx::Bernoulli", "bernoulli", {"x": "input"}),
    Row("ai.onnx::Multinomial", "multinomial", {"x": "input"}),
    *(Row(f"ai.onnx::Random{kind}", "random") for kind in ("Normal", "NormalLike", "Uniform", "UniformLike")),
)


# Quantization, dequantization and operators on integers.


def quantize(node: Node) -> Sequence[Value]:
    """Infer the input's shape in the dtype of the zero point, else of ``output_dtype``, else in uint8."""
    zero = node.get("y_zero_point")
    chosen = DTYPES.get(node.args.get("output_dtype") or 0, "uint8")
    return [node.result(node.value("x").known_shape, zero.dtype if zero is not None else chosen)]


def dequantize(node: Node) -> Sequence[Value]:
    """Infer the input's shape in the dtype ``output_dtype``, else in the dtype of the scale."""
    dtype = DTYPES.get(node.args.get("output_dtype") or 0, node.value("x_scale").dtype)
    return [node.result(node.value("x").known_shape, dtype)]


def dynamic_quantize(node: Node) -> Sequence[Value]:
    """Infer the output, its scale and its zero point."""
    x = node.value("x")
    return [node.result(x.known_shape, "uint8"), node.result((), "float32"), node.result((), "uint8")]


QUANTIZATION_RULES: Mapping[str, Rule] = {
    "ai.onnx::QuantizeLinear": quantize,
    "ai.onnx::DequantizeLinear": dequantize,
    "ai.onnx::DynamicQuantizeLinear": dynamic_quantize,
    "ai.onnx::ConvInteger": conv,
    "ai.onnx::QLinearConv": conv,
    "ai.onnx::MatMulInteger": matmul,
    "ai.onnx::QLinearMatMul": matmul,
}
"""Rules by full operator name."""


QUANTIZATION_ROWS: tuple[Row, ...] = (
    Row("ai.onnx::QuantizeLinear", "quantize", {"x": "x", "scale": "y_scale", "zero_point": "y_zero_point"}),
    Row("ai.onnx::DequantizeLinear", "dequantize", {"x": "x", "scale": "x_scale", "zero_point": "x_zero_point"}),
    Row("ai.onnx::DynamicQuantizeLinear", "dynamic_quantize", {"x": "x"}, outputs=first_outputs(3)),
    Row(
        "ai.onnx::QLinearConv",
        "quantized_conv",
        {
            "x": "x",
            "w": "w",
            "b": "B",
            "x_scale": "x_scale",
            "x_zero_point": "x_zero_point",
            "w_scale": "w_scale",
            "w_zero_point": "w_zero_point",
            "y_scale": "y_scale",
            "y_zero_point": "y_zero_point",
        },
        CONVOLUTION,
    ),
    Row(
        "ai.onnx::ConvInteger",
        "quantized_conv",
        {"x": "x", "w": "w", "x_zero_point": "x_zero_point", "w_zero_point": "w_zero_point"},
        CONVOLUTION,
    ),
    Row(
        "ai.onnx::QLinearMatMul",
        "quantized_matmul",
        {
            "x0": "a",
            "x1": "b",
            "x0_scale": "a_scale",
            "x0_zero_point": "a_zero_point",
            "x1_scale": "b_scale",
            "x1_zero_point": "b_zero_point",
            "y_scale": "y_scale",
            "y_zero_point": "y_zero_point",
        },
    ),
    Row(
        "ai.onnx::MatMulInteger",
        "quantized_matmul",
        {"x0": "A", "x1": "B", "x0_zero_point": "a_zero_point", "x1_zero_point": "b_zero_point"},
    ),
)


ROWS: tuple[Row, ...] = (*ACTIVATION_ROWS, *ELEMENTWISE_ROWS, *RANDOM_ROWS, *QUANTIZATION_ROWS)


RULES: Mapping[str, Rule] = {
    **ELEMENTWISE_RULES,
    **ACTIVATION_RULES,
    **RANDOM_RULES,
    **QUANTIZATION_RULES,
}
