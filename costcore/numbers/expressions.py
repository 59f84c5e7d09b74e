"""Sizes written as expressions, such as ``"past + new"`` or a formula of sympy."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from costcore.numbers.dims import Dim, as_dim, is_symbolic

LONGEST = 200
"""Texts of more characters are not read."""

OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}


def evaluate(text: str, size_of: Callable[[str], Dim]) -> Dim:
    """Return the size that a text of numbers, names, ``+``, ``-``, ``*``, ``//`` and parentheses describes.

    Args:
        text: the expression.
        size_of: returns the size of a name; it may raise ``KeyError``.

    Raises:
        ValueError: for any other text, a division by 0, and a name without a size.
    """
    if len(text) > LONGEST:
        raise ValueError(f"an expression of {len(text)} characters is too long (expected at most {LONGEST})")

    def value(part: ast.expr) -> Dim:
        if isinstance(part, ast.BinOp) and type(part.op) in OPERATORS:
            return as_dim(OPERATORS[type(part.op)](value(part.left), value(part.right)))
        if isinstance(part, ast.Constant) and type(part.value) is int:
            return part.value
        if isinstance(part, ast.Name):
            return size_of(part.id)
        raise ValueError(text)

    try:
        return value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, KeyError, TypeError, ZeroDivisionError, MemoryError) as error:
        raise ValueError(f"{text!r} is not a sum or product of names and integers") from error


def size_from(given: Any, size_of: Callable[[str], Dim]) -> Dim:
    """Return the size that a user gave as an integer, a text or a formula of sympy; equal names are one symbol.

    Args:
        given: the integer, text or formula.
        size_of: returns the size of a name, usually its symbol.

    Raises:
        TypeError: if it is neither an integer nor an expression of names.
    """
    if is_symbolic(given):
        as_dim(given)  # raises for a formula that is never an integer
        return as_dim(given.xreplace({symbol: _as_formula(size_of(symbol.name)) for symbol in given.free_symbols}))
    if not isinstance(given, str):
        return as_dim(given)
    names: list[str] = []

    def named(name: str) -> Dim:
        names.append(name)
        return size_of(name)

    try:
        size = evaluate(given, named)
    except ValueError:
        names.clear()
    if not names:
        raise TypeError(
            f"expected an integer or an integer symbol (got {given!r}, str). "
            "A text must be a sum or product of names, such as 'past + new'"
        )
    return size


def symbol_of(name: str) -> Dim:
    """Return the symbol for a size that has a name."""
    from sympy import Symbol

    return Symbol(name, integer=True, positive=True)


def _as_formula(size: Dim) -> Any:
    from sympy import sympify

    return sympify(size)
