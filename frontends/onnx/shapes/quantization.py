"""Shapes of quantization, dequantization and operators on integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..graph.node import Node, Rule
from ..values.value import DTYPES, Value
from .conv import conv
from .matmul import matmul


def quantize(node: Node) -> Sequence[Value]:
    """Infer the dtype of the zero point, or of the attribute, or uint8."""
    zero = node.get("y_zero_point")
    chosen = DTYPES.get(node.args.get("output_dtype") or 0, "uint8")
    return [node.result(node.value("x").known_shape, zero.dtype if zero is not None else chosen)]


def dequantize(node: Node) -> Sequence[Value]:
    """Infer the dtype of the attribute, or of the scale."""
    dtype = DTYPES.get(node.args.get("output_dtype") or 0, node.value("x_scale").dtype)
    return [node.result(node.value("x").known_shape, dtype)]


def dynamic_quantize(node: Node) -> Sequence[Value]:
    """Infer the output, its scale and its zero point."""
    x = node.value("x")
    return [node.result(x.known_shape, "uint8"), node.result((), "float32"), node.result((), "uint8")]


RULES: Mapping[str, Rule] = {
    "ai.onnx::QuantizeLinear": quantize,
    "ai.onnx::DequantizeLinear": dequantize,
    "ai.onnx::DynamicQuantizeLinear": dynamic_quantize,
    "ai.onnx::ConvInteger": conv,
    "ai.onnx::QLinearConv": conv,
    "ai.onnx::MatMulInteger": matmul,
    "ai.onnx::QLinearMatMul": matmul,
}
"""Rules by full operator name."""
