"""Derivations: integer arithmetic with a word after each number, such as ``2 rows * 4 outputs * 8 inputs``."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable

__all__ = ["evaluate"]

WORD = re.compile(r"[A-Za-z][A-Za-z_]*")

OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}


def evaluate(derivation: str) -> int:
    """Return the value of a derivation. Words are ignored; ``+ - * // **`` and parentheses are those of Python.

    Raises:
        ValueError: if the derivation is not integer arithmetic.
    """
    text = " ".join(WORD.sub("", derivation).split())
    try:
        return _value(ast.parse(text, mode="eval").body)
    except SyntaxError as error:
        raise ValueError(f"not arithmetic on integers: {derivation!r}") from error


def _value(node: ast.expr) -> int:
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return OPERATORS[type(node.op)](_value(node.left), _value(node.right))
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    raise ValueError(f"not arithmetic on integers: {ast.unparse(node)!r}")
