"""Rows of quantization, dequantization, fake quantization, and products with packed weights."""

from __future__ import annotations

from costcore.translate import Row, Source

from ..tensors import Number
from .arguments import X, constant, first_argument, tensor_or_number

_PER_TENSOR: dict[str, Source] = {
    "x": first_argument,
    "scale": tensor_or_number("scale"),
    "zero_point": tensor_or_number("zero_point"),
}
_PER_CHANNEL: dict[str, Source] = {"x": first_argument, "scale": "scales", "zero_point": "zero_points"}

ROWS = (
    Row("aten::quantize_per_tensor", "quantize", _PER_TENSOR),
    Row("aten::quantize_per_channel", "quantize", _PER_CHANNEL, {"axis": "axis"}),
    Row("aten::quantize_per_tensor_dynamic", "dynamic_quantize", X),
    Row("aten::dequantize", "dequantize", {"x": first_argument, "zero_point": constant(Number(0))}),
    *(
        Row(f"aten::{name}", "fake_quantize", _PER_TENSOR)
        for name in (
            "fake_quantize_per_tensor_affine_cachemask",
            "fake_quantize_per_channel_affine_cachemask",
            "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
            "_fake_quantize_learnable_per_tensor_affine",
            "_fake_quantize_learnable_per_channel_affine",
        )
    ),
    Row("aten::_weight_int8pack_mm", "packed_matmul", {"x": "self", "w": "mat2", "w_scale": "scales"}),
    *(
        Row(
            f"aten::{name}",
            "packed_matmul",
            {"x": "self", "w": "mat2", "w_scale": "qScaleAndZeros"},
            {"zero_points": constant(True), "block": "qGroupSize"},
        )
        for name in ("_weight_int4pack_mm", "_weight_int4pack_mm_for_cpu")
    ),
)
