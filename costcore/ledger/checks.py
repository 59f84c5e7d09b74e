"""Checks of the number of rows and levels that a table has."""

from __future__ import annotations


def check_top(top: object) -> int | None:
    """Check that ``top`` is None or a number of rows, and return it.

    Raises:
        TypeError: if it is neither.
        ValueError: if it is less than 1.
    """
    if top is None:
        return None
    if not isinstance(top, int) or isinstance(top, bool):
        raise TypeError(f"top must be a number of rows, or None for all (got {top!r})")
    if top < 1:
        raise ValueError(f"top must be at least 1 (got {top})")
    return top


def check_depth(depth: object) -> None:
    """Check that ``depth`` is None or a number of levels.

    Raises:
        TypeError: if it is neither.
        ValueError: if it is negative.
    """
    if depth is not None and (not isinstance(depth, int) or isinstance(depth, bool)):
        raise TypeError(f"depth must be a number of levels, or None for all (got {depth!r})")
    if depth is not None and depth < 0:
        raise ValueError(f"depth must be at least 0, which shows the model only (got {depth})")
