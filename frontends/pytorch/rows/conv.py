"""Rows of convolutions and their gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from costcore.translate import Arguments, Row, Source

from .arguments import needed_gradients, rows_by_name, to_ntuple

_INPUT: dict[str, Source] = {"x": "input", "w": "weight", "b": "bias"}
_SELF: dict[str, Source] = {"x": "self", "w": "weight", "b": "bias"}


def _rank(args: Arguments) -> int:
    return int(args["weight"].dim()) - 2


def _kernel(args: Arguments) -> tuple[int, ...]:
    return tuple(args["weight"].shape[2:])


def _spatial(name: str) -> Callable[[Arguments], Any]:
    return lambda args: to_ntuple(args[name], _rank(args))


def _padding(args: Arguments) -> tuple[Any, ...]:
    padding = args["padding"]
    if not isinstance(padding, str):
        return to_ntuple(padding, _rank(args))
    if padding == "valid":
        return (0,) * _rank(args)
    dilation = to_ntuple(args["dilation"], _rank(args))
    totals = [d * (k - 1) for d, k in zip(dilation, _kernel(args), strict=True)]
    return tuple(t // 2 if t % 2 == 0 else (t // 2, t - t // 2) for t in totals)


_ATTRIBUTES: dict[str, Source] = {
    "kernel": _kernel,
    "stride": _spatial("stride"),
    "padding": _padding,
    "dilation": _spatial("dilation"),
    "groups": "groups",
}


def _conv_or_transpose(args: Arguments) -> str:
    return "conv_transpose" if args["transposed"] else "conv"


CONVOLUTIONS = (
    *(Row(f"aten::conv{rank}d", "conv", _INPUT, _ATTRIBUTES) for rank in (1, 2, 3)),
    *(
        Row(
            f"aten::conv_transpose{rank}d",
            "conv_transpose",
            _INPUT,
            {**_ATTRIBUTES, "output_padding": _spatial("output_padding")},
        )
        for rank in (1, 2, 3)
    ),
    *(
        Row(f"aten::{name}", _conv_or_transpose, _INPUT, _ATTRIBUTES, ops=("conv", "conv_transpose"))
        for name in ("convolution", "_convolution", "convolution_overrideable")
    ),
)

_WITHOUT_ATTRIBUTES = """
_slow_conv2d_forward slow_conv3d_forward slow_conv_dilated2d slow_conv_dilated3d _conv_depthwise2d conv_depthwise3d
miopen_depthwise_convolution
"""

BACKEND_SPECIFIC = (
    *rows_by_name("mkldnn_convolution miopen_convolution", _SELF, _ATTRIBUTES, op="conv"),
    Row("aten::cudnn_convolution", "conv", {"x": "self", "w": "weight"}, _ATTRIBUTES),
    Row("aten::cudnn_convolution_transpose", "conv_transpose", {"x": "self", "w": "weight"}),
    Row("aten::miopen_convolution_transpose", "conv_transpose", _SELF),
    *rows_by_name(_WITHOUT_ATTRIBUTES, _SELF, op="conv"),
    *rows_by_name("slow_conv_transpose2d slow_conv_transpose3d", _SELF, op="conv_transpose"),
)

GRADIENTS = tuple(
    Row(
        f"aten::{name}",
        lambda args: "conv_transpose_backward" if args["transposed"] else "conv_backward",
        {"dy": "grad_output", "x": "input", "w": "weight"},
        {**_ATTRIBUTES, "padding": _spatial("padding"), "needs": needed_gradients("x", "w", "b")},
        ops=("conv_backward", "conv_transpose_backward"),
    )
    for name in ("convolution_backward", "convolution_backward_overrideable")
)


def _along_axes(name: str) -> Callable[[Arguments], tuple[int, int]]:
    return lambda args: (args[f"{name}_h"], args[f"{name}_w"])


def _mask(args: Arguments) -> Any:
    """Return the mask; without one, torchvision passes a tensor that it does not use."""
    return args["mask"] if args["use_mask"] else None


_DEFORMED: dict[str, Source] = {"x": "input", "w": "weight", "offset": "offset", "mask": _mask}
_DEFORMED_ATTRIBUTES: dict[str, Source] = {
    "kernel": _kernel,
    **{
        name: _along_axes(short) for name, short in (("stride", "stride"), ("padding", "pad"), ("dilation", "dilation"))
    },
    "groups": "groups",
    "offset_groups": "offset_groups",
}


def _deformed_gradients(args: Arguments, outputs: Sequence[Any]) -> Sequence[Any]:
    """Keep the gradients of what the forward pass used: those of x, w, offsets, mask and bias are computed at once."""
    return [value for i, value in enumerate(outputs) if i != 3 or args["use_mask"]]


DEFORMABLE = (
    Row("torchvision::deform_conv2d", "deform_conv", {**_DEFORMED, "b": "bias"}, _DEFORMED_ATTRIBUTES),
    Row(
        "torchvision::_deform_conv2d_backward",
        "deform_conv_backward",
        {"dy": "grad", **_DEFORMED},
        {
            **_DEFORMED_ATTRIBUTES,
            "needs": lambda args: ("x", "w", "offset", *(("mask",) if args["use_mask"] else ()), "b"),
        },
        outputs=_deformed_gradients,
    ),
)

ROWS = (*CONVOLUTIONS, *BACKEND_SPECIFIC, *GRADIENTS, *DEFORMABLE)
