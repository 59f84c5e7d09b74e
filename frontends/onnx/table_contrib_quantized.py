"""Rows of the quantised operators that ONNX Runtime adds."""

from __future__ import annotations

from typing import Any

from costcore.translate import Arguments, Row

from .contrib import with_own_inputs
from .rows.arguments import SPATIAL, flag, told
from .rows.conv import CONVOLUTION
from .shapes.reduction import reduced_axes
from .table_contrib import MATRICES, SWAPPED, channel_view, weight_view


def _scaled(neutral: str, native: str, scale: str, zero: str) -> dict[str, str]:
    """An operand with its scale and zero point."""
    return {neutral: native, f"{neutral}_scale": scale, f"{neutral}_zero_point": zero}


def _made(scale: str, zero: str) -> dict[str, str]:
    return {"y_scale": scale, "y_zero_point": zero}


def _every_third(part: int) -> Any:
    """The operands of a quantised concatenation, their scales or their zero points."""
    return lambda a: a["inputs"][part::3]


def _softmax_axes(a: Arguments) -> Any:
    """One axis; with an ``opset`` before 13 all axes from it on, as one."""
    rank = len(a["X"].known)
    found = a.get("axis", -1) % rank
    return found if a.get("opset", 13) >= 13 else tuple(range(found, rank))


UNARY_SCALES = _scaled("x", "X", "X_scale", "X_zero_point")
LOWER_SCALES = _scaled("x", "X", "x_scale", "x_zero_point")

QUANTIZED: tuple[Row, ...] = (
    Row(
        "com.microsoft::QLinearConv",
        "quantized_conv",
        {
            "x": channel_view("x"),
            "w": weight_view("w"),
            "b": "B",
            "x_scale": "x_scale",
            "x_zero_point": "x_zero_point",
            "w_scale": "w_scale",
            "w_zero_point": "w_zero_point",
            **_made("y_scale", "y_zero_point"),
        },
        CONVOLUTION,
    ),
    Row(
        "com.microsoft::QGemm",
        "quantized_matmul",
        {
            **MATRICES,
            "b": "C",
            "x0_scale": "a_scale",
            "x0_zero_point": "a_zero_point",
            "x1_scale": "b_scale",
            "x1_zero_point": "b_zero_point",
            **_made("y_scale", "y_zero_point"),
        },
        SWAPPED,
    ),
    Row(
        "com.microsoft::MatMulIntegerToFloat",
        "quantized_matmul",
        {
            "x0": "A",
            "x1": "B",
            "b": "bias",
            "x0_scale": "a_scale",
            "x0_zero_point": "a_zero_point",
            "x1_scale": "b_scale",
            "x1_zero_point": "b_zero_point",
        },
    ),
    Row(
        "com.microsoft::DynamicQuantizeMatMul",
        "dynamic_quantized_matmul",
        {"x0": "A", "x1": "B", "b": "bias", "x1_scale": "b_scale", "x1_zero_point": "b_zero_point"},
    ),
    Row("com.microsoft::MatMulInteger16", "matmul", {"x0": "A", "x1": "B"}),
    *(
        Row(
            f"com.microsoft::QLinear{native}",
            f"quantized_{op}",
            {
                **_scaled("x0", "A", "A_scale", "A_zero_point"),
                **_scaled("x1", "B", "B_scale", "B_zero_point"),
                **_made("C_scale", "C_zero_point"),
            },
        )
        for native, op in (("Add", "add"), ("Mul", "mul"))
    ),
    Row("com.microsoft::QLinearSigmoid", "quantized_sigmoid", {**UNARY_SCALES, **_made("Y_scale", "Y_zero_point")}),
    Row(
        "com.microsoft::QLinearLeakyRelu",
        "quantized_leaky_relu",
        {**UNARY_SCALES, **_made("Y_scale", "Y_zero_point")},
        {"slope": "alpha"},
    ),
    Row(
        "com.microsoft::QLinearSoftmax",
        "quantized_softmax",
        {**_scaled("x", "X", "X_scale", "x_zero_point"), **_made("y_scale", "y_zero_point")},
        {"axis": _softmax_axes},
    ),
    *(
        Row(
            f"com.microsoft::QLinear{kind}AveragePool",
            "quantized_avg_pool",
            {**LOWER_SCALES, "x": channel_view("X"), **_made("y_scale", "y_zero_point")},
            {**SPATIAL, "ceil_mode": flag("ceil_mode")},
        )
        for kind in ("", "Global")
    ),
    Row(
        "com.microsoft::QLinearReduceMean",
        "quantized_reduce_mean",
        {**_scaled("x", "data", "data_scale", "data_zero_point"), **_made("reduced_scale", "reduced_zero_point")},
        {"axis": told(reduced_axes), "keepdims": lambda a: bool(a.get("keepdims", 1))},
    ),
    Row(
        "com.microsoft::QLinearConcat",
        "quantized_concat",
        {
            "x*": _every_third(0),
            "x*_scale": _every_third(1),
            "x*_zero_point": _every_third(2),
            **_made("Y_scale", "Y_zero_point"),
        },
        {"axis": told(lambda n: n.axis(len(n.values("inputs")[0].known), "axis"))},
    ),
    Row(
        "com.microsoft::QLinearWhere",
        "quantized_where",
        {
            "condition": "condition",
            **_scaled("x0", "X", "x_scale", "x_zero_point"),
            **_scaled("x1", "Y", "y_scale", "y_zero_point"),
            **_made("z_scale", "z_zero_point"),
        },
    ),
    Row("com.microsoft::QuantizeLinear", "quantize", {"x": "x", "scale": "y_scale", "zero_point": "y_zero_point"}),
    Row("com.microsoft::DequantizeLinear", "dequantize", {"x": "x", "scale": "x_scale", "zero_point": "x_zero_point"}),
    Row(
        "com.microsoft::ReduceSumInteger",
        "reduce_sum",
        {"x": "data"},
        {"axis": told(reduced_axes), "keepdims": lambda a: bool(a.get("keepdims", 1))},
    ),
)

ROWS: tuple[Row, ...] = tuple(map(with_own_inputs, QUANTIZED))
"""The rows of this family."""
