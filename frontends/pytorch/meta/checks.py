"""Conditions that only guard an error, such as ``if (x < 0).any(): raise ValueError``.

A run that ends has passed them, so that a condition without data has the value with which nothing is raised.
"""

from __future__ import annotations

import ast
import inspect
from functools import lru_cache
from textwrap import dedent
from tokenize import TokenError
from types import CodeType

from costcore.trace.source import user_frames

_BETWEEN = ("torch._tensor", "torch.overrides", "torch.utils._device")
"""Modules that pass a call on to the operator."""


def passing_value() -> bool | None:
    """Return the value, with which no error is raised, of the condition that is read from a tensor now.

    None if the line that reads it is not a check: an ``assert``, or an ``if`` with a branch that raises.
    """
    frames = ((frame, line) for frame, line in user_frames() if frame.f_globals.get("__name__") not in _BETWEEN)
    found = next(frames, None)
    return None if found is None else _passing_value(found[0].f_code, found[1])


@lru_cache(maxsize=1024)
def _passing_value(code: CodeType, line: int) -> bool | None:
    try:
        lines, first = inspect.getsourcelines(code)
        tree = ast.parse(dedent("".join(lines)))
    except (OSError, SyntaxError, TokenError):  # typed at a prompt, inside an expression, or changed since
        return None
    line -= max(first, 1) - 1
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            value = True
        elif isinstance(node, ast.If) and isinstance(node.body[-1], ast.Raise):
            value = False
        elif isinstance(node, ast.If) and node.orelse and isinstance(node.orelse[-1], ast.Raise):
            value = True
        else:
            continue
        if node.test.lineno <= line <= (node.test.end_lineno or 0):
            return _of_operands(node.test, value)
    return None


def _of_operands(test: ast.expr, value: bool) -> bool | None:
    """Return the value that all operands of a condition have if it has ``value``; None if they differ."""
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, value = test.operand, not value
    has_opposite = any(isinstance(node, ast.Not) for node in ast.walk(test))
    return None if has_opposite else value
