"""Grids: every combination of the values of some arguments."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

from costcore.messages import short_repr

MOST_VARIANTS = 1_000_000
"""The most combinations of a grid."""


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
