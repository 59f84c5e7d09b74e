"""Rows of quantisation, and of operators that other devices run in place of the usual ones."""

from __future__ import annotations

from costcore.translate import Row, Source

from .rules import axes, axis, constant, first, only_first, same, spread, value_or_number
from .tensors import Number

_X: dict[str, Source] = {"x": first}
_SCALED: dict[str, Source] = {
    "x": first,
    "scale": value_or_number("scale"),
    "zero_point": value_or_number("zero_point"),
}
_CHANNELS: dict[str, Source] = {"x": first, "scale": "scales", "zero_point": "zero_points"}

QUANTIZATION = (
    Row("aten::quantize_per_tensor", "quantize", _SCALED),
    Row("aten::quantize_per_channel", "quantize", _CHANNELS, {"axis": "axis"}),
    Row("aten::quantize_per_tensor_dynamic", "dynamic_quantize", _X),
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
    *same("int_repr=copy _make_per_tensor_quantized_tensor=copy", _X),
    Row(
        "aten::_make_per_channel_quantized_tensor",
        "copy",
        {"x": "self", "scale": "scale", "zero_point": "zero_point"},
    ),
    *(
        Row(f"aten::quantized_max_pool{rank}d", "max_pool", _X, {"kernel": spread("kernel_size", rank)})
        for rank in (1, 2, 3)
    ),
)

ELSEWHERE = (
    *(Row(f"aten::mkldnn_max_pool{rank}d", "max_pool", _X, {"kernel": spread("kernel_size", rank)}) for rank in (2, 3)),
    *same("to_mkldnn=copy _copy_from=copy _conj_copy=conj", _X),
    *same("_logcumsumexp=logcumsumexp", _X, {"axis": axis()}),
    Row("aten::_aminmax", "min_max", _X, {"axis": axes()}),
    Row("aten::_stack", "stack", {"x*": "tensors"}),
    Row("aten::_fused_dropout", "dropout", _X, {"rate": "p", "training": constant(True)}),
    Row("aten::cudnn_grid_sampler", "grid_sample", {"x": "self", "grid": "grid"}, {"mode": constant("linear")}),
    Row(
        "aten::cudnn_grid_sampler_backward",
        "grid_sample_backward",
        {"dy": "grad_output", "x": "self", "grid": "grid"},
        {"mode": constant("linear"), "needs": constant(("x", "grid"))},
    ),
    Row("aten::cudnn_affine_grid_generator", "affine_grid", {"theta": "theta"}),
    Row("aten::cudnn_convolution_transpose", "conv_transpose", {"x": "self", "w": "weight"}),
    Row("aten::miopen_convolution_transpose", "conv_transpose", {"x": "self", "w": "weight", "b": "bias"}),
    *(
        Row(f"aten::{name}", "conv", {"x": "self", "w": "weight", "b": "bias"})
        for name in (
            *("_slow_conv2d_forward", "slow_conv3d_forward", "slow_conv_dilated2d", "slow_conv_dilated3d"),
            *("_conv_depthwise2d", "conv_depthwise3d", "miopen_depthwise_convolution"),
        )
    ),
    *(
        Row(f"aten::slow_conv_transpose{rank}d", "conv_transpose", {"x": "self", "w": "weight", "b": "bias"})
        for rank in (2, 3)
    ),
    Row(
        "aten::cudnn_convolution_relu",
        "fused_conv",
        {"x": "self", "w": "weight", "b": "bias"},
        {"activation": constant("relu"), "groups": "groups"},
    ),
    Row(
        "aten::cudnn_convolution_add_relu",
        "fused_conv",
        {"x": "self", "w": "weight", "b": "bias", "z": "z"},
        {"activation": constant("relu"), "groups": "groups"},
    ),
    *(
        Row(
            f"aten::{name}",
            "batch_norm",
            {"x": "input", "w": "weight", "b": "bias", "mean": "running_mean", "var": "running_var"},
            {"training": constant(True), "eps": "eps"},
            outputs=only_first,
        )
        for name in ("_batch_norm_with_update_functional", "_native_batch_norm_legit_functional")
    ),
)

ROWS = (*QUANTIZATION, *ELSEWHERE)
