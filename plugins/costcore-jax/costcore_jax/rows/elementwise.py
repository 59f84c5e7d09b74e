"""Rows of primitives that compute each element by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from costcore.translate import Arguments, Row

from .arguments import XS, X, is_bool, operand, row

UNARY: Mapping[str, str] = {
    **{
        name: name
        for name in (
            *("abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "ceil", "conj", "cos", "cosh"),
            *("digamma", "erf", "erfc", "exp", "exp2", "expm1", "floor", "lgamma", "log", "log1p", "neg", "round"),
            *("rsqrt", "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh"),
        )
    },
    "bessel_i0e": "i0e",
    "bessel_i1e": "i1e",
    "erf_inv": "erfinv",
    "is_finite": "isfinite",
    "logistic": "sigmoid",
}

NARY: Mapping[str, str] = {
    "add": "add",
    "add_any": "add",
    "atan2": "atan2",
    "complex": "complex",
    "div": "div",
    "eq": "equal",
    "eq_to": "equal",
    "ge": "greater_equal",
    "gt": "greater",
    "igamma": "igamma",
    "igammac": "igammac",
    "le": "less_equal",
    "le_to": "less_equal",
    "lt": "less",
    "lt_to": "less",
    "max": "maximum",
    "min": "minimum",
    "mul": "mul",
    "ne": "not_equal",
    "nextafter": "nextafter",
    "polygamma": "polygamma",
    "rem": "fmod",
    "shift_left": "bitwise_left_shift",
    "shift_right_arithmetic": "bitwise_right_shift",
    "shift_right_logical": "bitwise_right_shift",
    "sub": "sub",
    "zeta": "zeta",
}

LOGIC: Mapping[str, tuple[str, str]] = {
    "and": ("logical_and", "bitwise_and"),
    "not": ("logical_not", "bitwise_not"),
    "or": ("logical_or", "bitwise_or"),
    "xor": ("logical_xor", "bitwise_xor"),
}
"""Operators on bool, and on integers."""


def _logic(of_bool: str, of_integers: str) -> Callable[[Arguments], str]:
    return lambda a: of_bool if is_bool(a) else of_integers


def _literal(index: int) -> Callable[[Arguments], Any]:
    """Return a source for the number of a literal; None if the input is computed."""

    def read(a: Arguments) -> Any:
        number = a["inputs"][index].number
        return int(number) if isinstance(number, float) and number.is_integer() else number

    return read


def _computed(index: int) -> Callable[[Arguments], Any]:
    """Return a source for an input that is not a literal."""
    return lambda a: None if a["inputs"][index].number is not None else a["inputs"][index]


def _selected(a: Arguments) -> Any:
    """Return the case that a literal selects everywhere; None if the choice is computed."""
    choice = a["inputs"][0].number
    return a["inputs"][1 + int(choice)] if isinstance(choice, (bool, int)) else None


ROWS: tuple[Row, ...] = (
    *(row(name, op) for name, op in UNARY.items()),
    *(row(name, op, XS) for name, op in NARY.items()),
    *(Row(f"jax::{name}", _logic(*ops), X if name == "not" else XS, ops=ops) for name, ops in LOGIC.items()),
    Row("jax::integer_pow", "square", X, when=lambda a: a["y"] == 2),
    row("integer_pow", "pow", {"x0": operand(0)}, exponent=lambda a: int(a["y"])),
    row("pow", "pow", {"x0": operand(0), "x1": _computed(1)}, exponent=_literal(1)),
    row(
        "clamp",
        "clip",
        {"x": operand(1), "lower": _computed(0), "upper": _computed(2)},
        lower=_literal(0),
        upper=_literal(2),
    ),
    Row("jax::select_n", "identity", {"x": _selected}, when=lambda a: _selected(a) is not None),
    row("select_n", "where", {"condition": operand(0), "x*": lambda a: a["inputs"][1:]}),
    *(row(name, f"jax::{name}", XS) for name in ("clz", "mulhi", "population_count", "random_gamma_grad")),
    *(row(name, f"jax::{name}", XS) for name in ("igamma_grad_a", "regularized_incomplete_beta")),
)
