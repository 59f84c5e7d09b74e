"""Rows of quantization, dequantization and operators on integers."""

from __future__ import annotations

from costcore.translate import Row

from .arguments import first_outputs
from .conv import CONVOLUTION

ROWS: tuple[Row, ...] = (
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
