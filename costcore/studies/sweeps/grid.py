"""Grids: every combination of the values of some arguments."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

from costcore.messages import short_repr

MOST_VARIANTS = 1_000_000
"""The most combinations of a grid."""

MOST_CHARACTERS = 10_000
"""The longest arguments of a target."""


def combinations(grid: Mapping[str, Iterable[Any]]) -> list[dict[str, Any]]:
    """Return every combination of the values, the last argument varying fastest.

    Args:
        grid: the values of every argument by its name.

    Raises:
        TypeError: if a name is not a string, or its values are not a list.
        ValueError: if an argument has no values, or if there are more than :data:`MOST_VARIANTS` combinations.
    """
    if not isinstance(grid, Mapping):
        raise TypeError(f"a grid must be a mapping of arguments to lists of values (got {short_repr(grid)})")
    values = {name: _values(name, each) for name, each in grid.items()}
    n = math.prod(map(len, values.values()))
    if n > MOST_VARIANTS:
        raise ValueError(f"the grid has {n:,} combinations (expected at most {MOST_VARIANTS:,})")
    return [dict(zip(values, combination, strict=True)) for combination in product(*values.values())]


def _values(name: Any, given: Any) -> Sequence[Any]:
    if not isinstance(name, str) or not name.isidentifier():
        raise TypeError(f"an argument of a grid must be a name (got {name!r})")
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise TypeError(f"{name} must be a list of values (got {short_repr(given)})")
    values = given if isinstance(given, (Sequence, range)) else list(given)
    if not len(values):
        raise ValueError(f"{name} has no values, so the grid has no combinations")
    return values


def split_target(text: str) -> tuple[str, dict[str, list[Any]] | None]:
    """Return the target of ``nets.py:make(width=[0.5, 1.0], depth=2)`` and the values of its arguments.

    A list holds the values of an argument; any other literal is its only value. Nothing is evaluated.

    Returns:
        The target and the values by argument, which are None if there are no parentheses.

    Raises:
        ValueError: if the parentheses contain something else than names with literals.
    """
    if not text.endswith(")") or "(" not in text:
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
