"""Symbolic sizes of JAX (``jax.export.symbolic_shape``) as dimensions of costcore."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import jax.export

from costcore.numbers import Dim, as_dim, floor_div, maximum, minimum, symbol_of

OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Pow: operator.pow,
}

FUNCTIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "floordiv": floor_div,
    "mod": lambda a, b: a - b * floor_div(a, b),
    "max": maximum,
    "min": minimum,
}
"""What JAX prints of a size besides sums and products."""


def dim_of(size: Any) -> Dim:
    """Return a size of JAX as a Python int, or as an expression of integer symbols with the names that JAX gave."""
    return _evaluate(str(size)) if jax.export.is_symbolic_dim(size) else as_dim(size)


@lru_cache(maxsize=4096)
def _evaluate(text: str) -> Dim:
    # JAX prints powers as n^2
    return _value(ast.parse(text.replace("^", "**"), mode="eval").body)


def _value(part: ast.expr) -> Dim:
    if isinstance(part, ast.BinOp):
        return as_dim(OPERATORS[type(part.op)](_value(part.left), _value(part.right)))
    if isinstance(part, ast.UnaryOp):
        return -_value(part.operand)
    if isinstance(part, ast.Call) and isinstance(part.func, ast.Name):
        return as_dim(FUNCTIONS[part.func.id](*map(_value, part.args)))
    if isinstance(part, ast.Name):
        return symbol_of(part.id)
    return as_dim(ast.literal_eval(part))
