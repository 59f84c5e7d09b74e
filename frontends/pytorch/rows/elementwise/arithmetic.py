"""Rows of elementwise functions of one, two or three tensors, and of their gradients."""

from __future__ import annotations

from typing import Any

from costcore.translate import Arguments, Row, Source

from ..arguments import X, first_argument, non_default, rows_by_name, tensor_or_number

_SELF = tensor_or_number("self")
_OTHER = tensor_or_number("other")
_PAIR: dict[str, Source] = {"x0": _SELF, "x1": _OTHER}

UNARY = tuple(
    rows_by_name(
        "neg abs sign sgn=sign ceil floor trunc round frac exp exp2 expm1 log log1p log2 log10 sqrt rsqrt reciprocal "
        "square sin cos tan asin acos atan sinh cosh asinh acosh atanh sinc "
        "deg2rad rad2deg signbit logical_not bitwise_not isnan isinf isposinf isneginf isfinite nan_to_num angle "
        "logit frexp _conj_physical=conj _conj_copy=conj",
        X,
    )
)


def _number_exponent(args: Arguments) -> Any:
    value = args["exponent"]
    return value if isinstance(value, (int, float)) else None


def _rounded_div(args: Arguments) -> str:
    return {None: "div", "floor": "floor_div", "trunc": "trunc_div"}[args.get("rounding_mode")]


_ALPHA: dict[str, Source] = {"alpha": non_default("alpha", 1)}

BINARY = (
    *rows_by_name("add sub", _PAIR, _ALPHA),
    Row("aten::rsub", "sub", {"x0": _OTHER, "x1": _SELF}, _ALPHA),
    Row("aten::div", _rounded_div, _PAIR, ops=("div", "floor_div", "trunc_div")),
    *rows_by_name(
        "mul maximum minimum fmax=maximum fmin=minimum floor_divide=floor_div remainder=mod fmod atan2 hypot copysign "
        "nextafter logaddexp logaddexp2 xlogy special_xlog1py=xlog1py gcd lcm ldexp "
        "eq=equal ne=not_equal lt=less le=less_equal gt=greater ge=greater_equal "
        "logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor __lshift__=bitwise_left_shift "
        "__rshift__=bitwise_right_shift bitwise_left_shift bitwise_right_shift",
        _PAIR,
    ),
    Row("aten::heaviside", "heaviside", {"x0": "self", "x1": "values"}),
    Row("aten::polar", "polar", {"x0": "abs", "x1": "angle"}),
    Row("aten::pow", "pow", {"x0": _SELF, "x1": tensor_or_number("exponent")}, {"exponent": _number_exponent}),
    Row("aten::max.other", "maximum", _PAIR),
    Row("aten::min.other", "minimum", _PAIR),
)

_BOUNDS: dict[str, Source] = {"lower": "min", "upper": "max"}

TERNARY = (
    Row("aten::where", "where", {"condition": "condition", "x0": _SELF, "x1": _OTHER}),
    Row(
        "aten::masked_fill",
        "where",
        {"condition": "mask", "x0": "self", "x1": tensor_or_number("value")},
    ),
    *(
        Row(f"aten::{name}", name, {"x0": "self", "x1": "tensor1", "x2": "tensor2"}, {"value": non_default("value", 1)})
        for name in ("addcmul", "addcdiv")
    ),
    Row("aten::lerp", "lerp", {"x0": "self", "x1": "end", "x2": tensor_or_number("weight")}),
    *(Row(f"aten::{name}.Tensor", "clip", {"x": "self", **_BOUNDS}) for name in ("clamp", "clip")),
    *(Row(f"aten::{name}", "clip", {"x": "self"}, _BOUNDS) for name in ("clamp", "clip")),
    Row("aten::clamp_min.Tensor", "clip", {"x": "self", "lower": "min"}),
    Row("aten::clamp_max.Tensor", "clip", {"x": "self", "upper": "max"}),
    Row("aten::clamp_min", "clip", {"x": "self"}, {"lower": "min"}),
    Row("aten::clamp_max", "clip", {"x": "self"}, {"upper": "max"}),
)

GRADIENTS = (Row("aten::logit_backward", "logit_backward", {"dy": first_argument, "x": "self"}),)

ROWS = (*UNARY, *BINARY, *TERNARY, *GRADIENTS)
