"""Arguments of a target: ``nets.py:make(width=0.5, depth=2)``."""

from __future__ import annotations

import ast
from typing import Any

from costcore.messages import short_repr
from costcore.registry.frontends import reader_of

MOST_CHARACTERS = 10_000
"""The longest arguments of a target."""


def split_target(text: str) -> tuple[str, dict[str, list[Any]] | None]:
    """Return the target of ``nets.py:make(width=[0.5, 1.0], depth=2)`` and the values of its arguments.

    A list holds the values of an argument; any other literal is its only value. Nothing is evaluated.

    Returns:
        The target and the values by argument, which are None if there are no parentheses.

    Raises:
        ValueError: if the parentheses contain something else than names with literals.
    """
    if not text.endswith(")") or "(" not in text or reader_of(text):
        return text, None
    target, _, inside = text[:-1].partition("(")
    problem = f"{short_repr(text)}: expected arguments with literals, such as {target}(width=[0.5, 1.0], depth=2)"
    try:
        if len(inside) > MOST_CHARACTERS:
            raise ValueError(f"{len(inside):,} characters are too many")
        call = ast.parse(f"f({inside})", mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            raise ValueError("one pair of parentheses is expected")
        names = [each.arg for each in call.keywords]
        if call.args or None in names or len(set(names)) < len(names):
            raise ValueError("every argument needs a name of its own")
        given = {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError) as error:
        raise ValueError(f"{problem} ({str(error).partition(': <')[0]})") from error
    return target, {name: value if isinstance(value, list) else [value] for name, value in given.items()}


def arguments_of(text: str) -> tuple[str, dict[str, Any] | None]:
    """Return the target and the arguments of one model, which are None if there are no parentheses.

    Raises:
        ValueError: as :func:`split_target`, or if an argument has several values, which are several models.
    """
    target, values = split_target(text)
    if several := [name for name, each in (values or {}).items() if len(each) != 1]:
        raise ValueError(
            f"{text}: {', '.join(several)} must have one value (costcore table counts a model for each of a list; a "
            "list that is one value is in another one, as in sizes=[[1, 2]])"
        )
    return target, None if values is None else {name: each[0] for name, each in values.items()}
