"""The message for a name that is not among the expected ones."""

from __future__ import annotations

from collections.abc import Iterable


def unknown(what: str, name: object, expected: Iterable[object]) -> str:
    """Return the message for one or several unknown names, with the nearest expected one if there is any.

    For example ``unknown column 'flop' (expected name, flops, mread). Did you mean 'flops'?``

    Args:
        what: what is named, ``column``.
        name: the unknown name, or a list of them.
        expected: the names that exist.
    """
    from difflib import get_close_matches

    names = name if isinstance(name, list) else [name]
    choices = [str(choice) for choice in expected]
    near = [match for each in names if isinstance(each, str) for match in get_close_matches(each, choices, 1)]
    hint = f". Did you mean {' and '.join(map(repr, near))}?" if near else ""
    return f"unknown {what} {', '.join(map(repr, names))} (expected {', '.join(choices)}){hint}"
