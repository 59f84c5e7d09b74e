"""Rows of operators that compute each element by itself, of activations, reductions and norms along axes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costcore.graphs.graph import XS, X, operand
from costcore.translate import Arguments, Row, Source

from .arguments import (
    JOINED,
    activation,
    axes_of,
    axis_of,
    constant,
    has_activation,
    is_quantized,
    numbers,
    quantization,
    row,
)

UNARY: Mapping[str, str] = {
    **{
        native: native.lower()
        for native in (
            *("ABS", "CEIL", "COS", "EXP", "FLOOR", "LOG", "LOGICAL_NOT", "NEG", "RELU", "RELU6", "ROUND", "RSQRT"),
            *("SIGN", "SIN", "SQRT", "SQUARE", "TANH"),
        )
    },
    "COMPLEX_ABS": "abs",
    "RELU_N1_TO_1": "hard_tanh",
    "RELU_0_TO_1": "hard_tanh",
    "ELU": "elu",
    "STABLEHLO_ABS": "abs",
    "STABLEHLO_CBRT": "cbrt",
    "STABLEHLO_COSINE": "cos",
    "STABLEHLO_EXPONENTIAL": "exp",
    "STABLEHLO_FLOOR": "floor",
    "STABLEHLO_LOG": "log",
    "STABLEHLO_LOGISTIC": "sigmoid",
    "STABLEHLO_NEGATE": "neg",
    "STABLEHLO_RSQRT": "rsqrt",
    "STABLEHLO_TANH": "tanh",
}
"""Functions of one operand."""

BINARY: Mapping[str, str] = {
    **{
        native: native.lower()
        for native in (
            *("ATAN2", "BITWISE_XOR", "EQUAL", "FLOOR_DIV", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"),
            *("LOGICAL_AND", "LOGICAL_OR", "MAXIMUM", "MINIMUM", "NOT_EQUAL", "POW", "SQUARED_DIFFERENCE"),
        )
    },
    "FLOOR_MOD": "mod",
    "RIGHT_SHIFT": "bitwise_right_shift",
    "ADD_N": "add",
    "STABLEHLO_ADD": "add",
    "STABLEHLO_AND": "logical_and",
    "STABLEHLO_DIVIDE": "div",
    "STABLEHLO_MAXIMUM": "maximum",
    "STABLEHLO_MINIMUM": "minimum",
    "STABLEHLO_MULTIPLY": "mul",
    "STABLEHLO_OR": "logical_or",
    "STABLEHLO_POWER": "pow",
    "STABLEHLO_REMAINDER": "fmod",
    "STABLEHLO_SHIFT_LEFT": "bitwise_left_shift",
    "STABLEHLO_SUBTRACT": "sub",
}
"""Functions of two operands, or of several."""

ARITHMETIC: Mapping[str, tuple[str, str]] = {
    "ADD": ("add", "quantized_add"),
    "SUB": ("sub", "quantized_add"),
    "MUL": ("mul", "quantized_mul"),
    "DIV": ("div", ""),
}
"""Functions of two operands that apply an activation, with the formula of quantized operands."""

QUANTIZED_UNARY: Mapping[str, tuple[str, str, Mapping[str, Source]]] = {
    "LOGISTIC": ("sigmoid", "quantized_sigmoid", {}),
    "HARD_SWISH": ("hard_swish", "quantized_hard_swish", {}),
    "LEAKY_RELU": ("leaky_relu", "quantized_leaky_relu", {"slope": "Alpha"}),
    "GELU": ("gelu", "quantized_gelu", {"approximate": lambda a: "tanh" if a.get("Approximate") else None}),
    "SOFTMAX": ("softmax", "quantized_softmax", {"axis": lambda a: a["inputs"][0].ndim - 1}),
}
"""Functions of one operand whose formula knows quantized values."""

REDUCTIONS: Mapping[str, str] = {
    "SUM": "sum",
    "REDUCE_ALL": "all",
    "REDUCE_ANY": "any",
    "REDUCE_MAX": "max",
    "REDUCE_MIN": "min",
    "REDUCE_PROD": "prod",
}

REDUCED: Mapping[str, str] = {
    "add": "reduce_sum",
    "mul": "reduce_prod",
    "max": "reduce_max",
    "min": "reduce_min",
}
"""Reductions by what joins two elements."""

SEGMENTS: Mapping[str, str] = {
    "SEGMENT_SUM": "sum",
    "UNSORTED_SEGMENT_MAX": "max",
    "UNSORTED_SEGMENT_MIN": "min",
    "UNSORTED_SEGMENT_PROD": "prod",
    "UNSORTED_SEGMENT_SUM": "sum",
}

AXES: Mapping[str, Source] = {"axis": lambda a: axes_of(a, 1), "keepdims": lambda a: bool(a.get("KeepDims"))}
X_SCALES = quantization({"x": 0})
PAIR_SCALES = quantization({"x0": 0, "x1": 1})


def _arithmetic(native: str, formula: str, quantized: str) -> tuple[Row, ...]:
    """Return the rows of an operator of two operands: of quantized ones, with an activation, and without."""
    name, settings = f"tflite::{native}", {"activation": activation}
    rows = (
        Row(name, f"activated_{formula}", XS, settings, has_activation),
        Row(name, formula, XS),
    )
    return (Row(name, quantized, {**XS, **PAIR_SCALES}, settings, is_quantized), *rows) if quantized else rows


def _best(a: Arguments) -> Any:
    """Return the axis of ARG_MAX and ARG_MIN, a constant operand."""
    axis = numbers(a, 1)
    return None if axis is None or len(axis) != 1 else (axis_of(a, axis[0]),)


ROWS: tuple[Row, ...] = (
    *(row(native, op, X) for native, op in UNARY.items()),
    *(row(native, op, XS) for native, op in BINARY.items()),
    *(rule for native, (op, quantized) in ARITHMETIC.items() for rule in _arithmetic(native, op, quantized)),
    *(
        rule
        for native, (op, quantized, attrs) in QUANTIZED_UNARY.items()
        for rule in (
            Row(f"tflite::{native}", quantized, {**X, **X_SCALES}, attrs, is_quantized),
            Row(f"tflite::{native}", op, X, attrs),
        )
    ),
    Row("tflite::MEAN", "quantized_reduce_mean", {**X, **X_SCALES}, AXES, is_quantized),
    Row("tflite::MEAN", "reduce_mean", X, AXES),
    *(Row(f"tflite::{native}", f"reduce_{op}", X, AXES) for native, op in REDUCTIONS.items()),
    row("ARG_MAX", "argmax", X, axis=_best),
    row("ARG_MIN", "argmin", X, axis=_best),
    row("LOG_SOFTMAX", "log_softmax", X, axis=lambda a: a["inputs"][0].ndim - 1),
    row("L2_NORMALIZATION", "l2_normalize", X, axis=lambda a: (a["inputs"][0].ndim - 1,)),
    row("PRELU", "prelu", {"x": operand(0), "w": operand(1)}),
    row("CUMSUM", "cumsum", X, axis=lambda a: axis_of(a, (numbers(a, 1) or (0,))[0])),
    Row("tflite::WHERE", "nonzero", {"x": operand(0)}, when=lambda a: len(a["inputs"]) == 1),
    *(
        row(native, "where", {"condition": operand(0), "x0": operand(1), "x1": operand(2)})
        for native in ("WHERE", "SELECT", "SELECT_V2", "STABLEHLO_SELECT")
    ),
    row("STABLEHLO_CLAMP", "clip", {"x": operand(1), "lower": operand(0), "upper": operand(2)}),
    row("FAKE_QUANT", "fake_quantize", X),
    row("QUANTIZE", "quantize", {"x": operand(0), "scale": lambda a: a["outputs"][0].scale}),
    row(
        "DEQUANTIZE",
        lambda a: "dequantize" if is_quantized(a) else "cast",
        {"x": operand(0), "scale": lambda a: a["inputs"][0].scale, "zero_point": lambda a: a["inputs"][0].zero_point},
    ),
    row("TOPK_V2", "topk", X, axis=lambda a: a["inputs"][0].ndim - 1, k=lambda a: a["outputs"][0].shape[-1]),
    row("UNIQUE", "unique", X),
    row("RFFT2D", "real_fft", X, axes=lambda a: (a["inputs"][0].ndim - 2, a["inputs"][0].ndim - 1)),
    *(
        row(native, "segment_reduce", {"x": operand(0), "lengths": operand(1)}, reduction=constant(kind))
        for native, kind in SEGMENTS.items()
    ),
    row("NON_MAX_SUPPRESSION_V4", "non_max_suppression", {"x0": operand(0), "x1": operand(1)}),
    row("NON_MAX_SUPPRESSION_V5", "non_max_suppression", {"x0": operand(0), "x1": operand(1)}),
    row("STABLEHLO_COMPARE", "less", XS),
    Row(
        "tflite::STABLEHLO_REDUCE",
        lambda a: REDUCED[JOINED[a["update"]]],
        X,
        {"axis": lambda a: tuple(map(int, a.get("Dimensions", ()))), "keepdims": lambda a: False},
        when=lambda a: JOINED.get(a.get("update", ("?",)), "none") in REDUCED,
        ops=tuple(REDUCED.values()),
    ),
    row("STABLEHLO_RNG_BIT_GENERATOR", "random", {}),
    row("RANDOM_UNIFORM", "random", {}),
    row("RANDOM_STANDARD_NORMAL", "normal", {}),
    row("MULTINOMIAL", "multinomial", X),
    row("BUCKETIZE", "search_sorted", {"x0": lambda a: None, "x1": operand(0)}),
)
