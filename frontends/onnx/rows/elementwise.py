"""Rows of operators that compute each element by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costcore.translate import Arguments, Row

from ..values.value import Value
from .arguments import INPUT, number, operands

NARY: Mapping[str, str] = {
    "Add": "add",
    "Sub": "sub",
    "Mul": "mul",
    "Div": "div",
    "And": "logical_and",
    "Or": "logical_or",
    "Xor": "logical_xor",
    "BitwiseAnd": "bitwise_and",
    "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
    "Equal": "equal",
    "Less": "less",
    "LessOrEqual": "less_equal",
    "Greater": "greater",
    "GreaterOrEqual": "greater_equal",
}
"""Operators of two operands A and B."""

VARIADIC: Mapping[str, str] = {"Max": "maximum", "Min": "minimum", "Sum": "add", "Mean": "elementwise_mean"}
"""Operators of any number of operands."""

LOWEST = -3.4e38
"""Bounds beyond this count as absent: opsets before 11 have them as defaults."""


def _bound(name: str) -> Any:
    """Return a source for a bound of ``Clip`` as a number; None if there is none or it is computed."""

    def read(a: Arguments) -> Any:
        bound = number(name)(a)
        return None if isinstance(bound, float) and abs(bound) >= -LOWEST else bound

    return read


def _computed(name: str) -> Any:
    """Return a source for a bound of ``Clip`` as an operand; None if it is a known number."""
    return lambda a: a.get(name) if isinstance(a.get(name), Value) and a[name].data is None else None


def _exponent(a: Arguments) -> Any:
    """Return the exponent if it is one constant number, else None."""
    y = a.get("Y")
    if not isinstance(y, Value) or y.role != "const" or y.size != 1:
        return None
    power = number("Y")(a)
    return int(power) if isinstance(power, float) and power.is_integer() else power


UNARY: Mapping[str, str] = {
    **{
        native: native.lower()
        for native in (
            *("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Erf", "Exp", "Floor"),
            *("Log", "Neg", "Reciprocal", "Round", "Sign", "Sin", "Sinh", "Sqrt", "Tan"),
        )
    },
    "BitwiseNot": "bitwise_not",
    "IsNaN": "isnan",
    "Not": "logical_not",
}
"""Functions of one input without attributes."""


ROWS: tuple[Row, ...] = (
    *(Row(f"ai.onnx::{native}", op, {"x": INPUT}) for native, op in UNARY.items()),
    *(Row(f"ai.onnx::{native}", op, {"x*": operands("A", "B")}) for native, op in NARY.items()),
    *(Row(f"ai.onnx::{native}", op, {"x*": "data_0"}) for native, op in VARIADIC.items()),
    Row("ai.onnx::Mod", lambda a: "fmod" if a.get("fmod") else "mod", {"x*": operands("A", "B")}, ops=("fmod", "mod")),
    Row("ai.onnx::Pow", "pow", {"x*": operands("X", "Y")}, {"exponent": _exponent}),
    Row(
        "ai.onnx::BitShift",
        lambda a: f"bitwise_{str(a.get('direction', 'LEFT')).lower()}_shift",
        {"x*": operands("X", "Y")},
        ops=("bitwise_left_shift", "bitwise_right_shift"),
    ),
    Row(
        "ai.onnx::IsInf",
        lambda a: (
            "isneginf" if not a.get("detect_positive", 1) else "isinf" if a.get("detect_negative", 1) else "isposinf"
        ),
        {"x": "X"},
        ops=("isinf", "isneginf", "isposinf"),
    ),
    Row("ai.onnx::Where", "where", {"condition": "condition", "x0": "X", "x1": "Y"}),
    Row(
        "ai.onnx::Clip",
        "clip",
        {"x": "input", "lower": _computed("min"), "upper": _computed("max")},
        {"lower": _bound("min"), "upper": _bound("max")},
    ),
)
