"""Pieces of error messages: a value in one line, a reason, the place of a function."""

from __future__ import annotations

import re
from typing import Any


def place(function: Any) -> str:
    """Where a calculator is defined: module and name."""
    return f"{function.__module__}.{getattr(function, '__qualname__', type(function).__qualname__)}"


def why(error: Exception) -> str:
    """What went wrong, without the number and the path that the system's errors carry."""
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


def shortly(value: object) -> str:
    """A value as far as a sentence takes it, on one line."""
    text = re.sub(r"\s*\n\s*", " ", repr(value))
    return text if len(text) <= 80 else text[:79] + "…"
