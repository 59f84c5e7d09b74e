"""Rows of quantization, dequantization, fake quantization, and products with packed weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from costcore.translate import Arguments, Row, Source

from ..operators.saved_for_backward import is_differentiated
from ..tensors import Number
from .arguments import (
    PACKED,
    X,
    axis,
    constant,
    first_argument,
    is_unpacked,
    normalized_axes,
    packed_weight,
    tensor_or_number,
)

_PER_TENSOR: dict[str, Source] = {
    "x": first_argument,
    "scale": tensor_or_number("scale"),
    "zero_point": tensor_or_number("zero_point"),
}
_PER_CHANNEL: dict[str, Source] = {"x": first_argument, "scale": "scales", "zero_point": "zero_points"}

_SCALE = constant(Number(1.0))
_ZERO = constant(Number(0))
"""Scale and zero point, which every quantized tensor of PyTorch has as two numbers of its own."""


def _weight_scale(args: Arguments) -> Any:
    scales = packed_weight(args).scales
    return Number(1.0) if scales is None else scales


_WEIGHT: dict[str, Source] = {
    **PACKED,
    "w_scale": _weight_scale,
    "w_zero_point": lambda args: Number(0) if packed_weight(args).has_zero_point else None,
}
_TO_QUANTIZED: dict[str, Source] = {"y_scale": _SCALE, "y_zero_point": _ZERO}
_PRODUCT: dict[str, Source] = {"x": first_argument, "x_zero_point": _ZERO, **_WEIGHT, **_TO_QUANTIZED}
_ADDED: dict[str, Source] = {"z": "qaccum", "z_zero_point": _ZERO}


def _setting(name: str) -> Callable[[Arguments], Any]:
    return lambda args: packed_weight(args).settings.get(name)


_CONVOLUTION: dict[str, Source] = {
    "kernel": lambda args: tuple(packed_weight(args).w.shape[2:]),
    **{name: _setting(name) for name in ("stride", "padding", "dilation", "groups")},
}
_TRANSPOSED: dict[str, Source] = {**_CONVOLUTION, "output_padding": _setting("output_padding")}


def _activation(name: str) -> dict[str, Source]:
    return {"activation": constant(name)} if name else {}


LINEAR = (
    *(
        Row(f"quantized::linear{suffix}", "quantized_linear", _PRODUCT, _activation(name), is_unpacked)
        for suffix, name in (("", ""), ("_relu", "relu"), ("_leaky_relu", "leaky_relu"), ("_tanh", "tanh"))
    ),
    *(
        Row(
            f"quantized::linear{suffix}_dynamic",
            "dynamic_quantized_linear",
            {"x": first_argument, **_WEIGHT},
            _activation(name),
            is_unpacked,
        )
        for suffix, name in (("", ""), ("_relu", "relu"))
    ),
)

CONVOLUTIONS = (
    *(
        Row(
            f"quantized::conv{rank}d{suffix}",
            "quantized_conv",
            _PRODUCT,
            {**_CONVOLUTION, **_activation(name)},
            is_unpacked,
        )
        for rank in (1, 2, 3)
        for suffix, name in (("", ""), ("_relu", "relu"))
    ),
    *(
        Row(
            f"quantized::conv2d_add{suffix}",
            "quantized_conv",
            {**_PRODUCT, **_ADDED},
            {**_CONVOLUTION, **_activation(name)},
            is_unpacked,
        )
        for suffix, name in (("", ""), ("_relu", "relu"))
    ),
    *(
        Row(f"quantized::conv_transpose{rank}d", "quantized_conv_transpose", _PRODUCT, _TRANSPOSED, is_unpacked)
        for rank in (1, 2, 3)
    ),
    *(
        Row(
            f"quantized::{name}{rank}d_dynamic",
            f"dynamic_quantized_{name}",
            {"x": first_argument, **_WEIGHT},
            attributes,
            is_unpacked,
        )
        for name, attributes in (("conv", _CONVOLUTION), ("conv_transpose", _TRANSPOSED))
        for rank in (1, 2, 3)
    ),
)


def _each(args: Arguments, value: Number) -> list[Number]:
    return [value for _ in args["qx"]]


_PAIR: dict[str, Source] = {
    **{f"x{i}": name for i, name in enumerate(("qa", "qb"))},
    **{f"x{i}_scale": _SCALE for i in range(2)},
    **{f"x{i}_zero_point": _ZERO for i in range(2)},
    **_TO_QUANTIZED,
}
_ONE: dict[str, Source] = {
    "x": first_argument,
    "x_scale": constant(Number(1.0)),
    "x_zero_point": _ZERO,
    **_TO_QUANTIZED,
}


def _both_are_tensors(args: Arguments) -> bool:
    return isinstance(args.get("qa"), Tensor) and isinstance(args.get("qb"), Tensor)


ELEMENTWISE = (
    *(
        Row(f"quantized::{name}{suffix}", f"quantized_{name}", _PAIR, _activation(activation), _both_are_tensors)
        for name in ("add", "mul")
        for suffix, activation in (("", ""), ("_relu", "relu"))
    ),
    *(
        Row(
            f"quantized::cat{suffix}",
            "quantized_concat",
            {
                "x*": "qx",
                "x*_scale": lambda args: _each(args, Number(1.0)),
                "x*_zero_point": lambda args: _each(args, Number(0)),
                **_TO_QUANTIZED,
            },
            {"axis": axis(), **_activation(activation)},
        )
        for suffix, activation in (("", ""), ("_relu", "relu"))
    ),
    Row("quantized::matmul", "quantized_matmul", _PAIR),
    Row("quantized::sigmoid", "quantized_sigmoid", _ONE),
    Row("quantized::leaky_relu", "quantized_leaky_relu", _ONE),
    Row("quantized::hardswish", "quantized_hard_swish", _ONE),
    Row("quantized::softmax", "quantized_softmax", _ONE, {"axis": axis()}),
    Row(
        "quantized::layer_norm",
        "quantized_layer_norm",
        {**_ONE, "w": "weight", "b": "bias"},
        {"axis": normalized_axes},
    ),
)

EMBEDDINGS = tuple(
    Row(f"quantized::embedding_{bits}", "packed_embedding", {"x": "indices", **_WEIGHT}, {}, is_unpacked)
    for bits in ("byte", "4bit")
)


def _with_needed_mask(args: Arguments, outputs: Sequence[Any]) -> Sequence[Any]:
    """Keep the mask of the clipped elements, the second output, if a backward pass can follow."""
    return outputs if is_differentiated(first_argument(args)) else outputs[:1]


CONVERSIONS = (
    Row("aten::quantize_per_tensor", "quantize", _PER_TENSOR),
    Row("aten::quantize_per_channel", "quantize", _PER_CHANNEL, {"axis": "axis"}),
    Row("aten::quantize_per_tensor_dynamic", "dynamic_quantize", X),
    Row("aten::dequantize", "dequantize", {"x": first_argument, "zero_point": constant(Number(0))}),
    *(
        Row(f"aten::{name}", "fake_quantize", _PER_TENSOR, outputs=_with_needed_mask)
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

ROWS = (*CONVERSIONS, *LINEAR, *CONVOLUTIONS, *ELEMENTWISE, *EMBEDDINGS)
