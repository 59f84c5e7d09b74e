"""Rows of quantization, dequantization and fake quantization."""

from __future__ import annotations

from costcore.translate import Row, Source

from ..tensors import Number
from .arguments import X, constant, first, value_or_number

_SCALED: dict[str, Source] = {
    "x": first,
    "scale": value_or_number("scale"),
    "zero_point": value_or_number("zero_point"),
}
_CHANNELS: dict[str, Source] = {"x": first, "scale": "scales", "zero_point": "zero_points"}

ROWS = (
    Row("aten::quantize_per_tensor", "quantize", _SCALED),
    Row("aten::quantize_per_channel", "quantize", _CHANNELS, {"axis": "axis"}),
    Row("aten::quantize_per_tensor_dynamic", "dynamic_quantize", X),
    Row("aten::dequantize", "dequantize", {"x": first, "zero_point": constant(Number(0))}),
    *(
        Row(f"aten::{name}", "fake_quantize", _SCALED)
        for name in (
            "fake_quantize_per_tensor_affine_cachemask",
            "fake_quantize_per_channel_affine_cachemask",
            "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
            "_fake_quantize_learnable_per_tensor_affine",
            "_fake_quantize_learnable_per_channel_affine",
        )
    ),
)
