"""Fragments of error messages: shortened values, reasons, names of functions, near matches."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any


def place(function: Any) -> str:
    """Return the module and qualified name of a function or callable object."""
    return f"{function.__module__}.{getattr(function, '__qualname__', type(function).__qualname__)}"


def why(error: Exception) -> str:
    """Return the message of an error; for an ``OSError``, without its number and path."""
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


def shortly(value: object) -> str:
    """Return the ``repr`` of a value on one line, shortened to 80 characters."""
    text = re.sub(r"\s*\n\s*", " ", repr(value))
    return text if len(text) <= 80 else text[:79] + "…"


def did_you_mean(names: Iterable[object], expected: Iterable[str]) -> str:
    """Return the end of a message that suggests the near matches of unknown names; empty if there are none.

    >>> did_you_mean(["flop"], ["flops", "macs"])
    "; did you mean 'flops'?"
    """
    candidates = [*expected]
    near = (get_close_matches(name, candidates, 1) for name in names if isinstance(name, str))
    suggestions = dict.fromkeys(match for matches in near for match in matches)
    return f"; did you mean {' and '.join(map(repr, suggestions))}?" if suggestions else ""


def unknown_name(kind: str, name: object, expected: Iterable[str]) -> str:
    """Return the message for an unknown name, with the expected names and the near match.

    >>> unknown_name("metric", "flop", ["flops", "macs"])
    "unknown metric 'flop' (expected one of flops, macs); did you mean 'flops'?"
    """
    names = [*expected]
    return f"unknown {kind} {name!r} (expected one of {', '.join(names)}){did_you_mean([name], names)}"
