"""Attributes and other values of a report as text and as plain JSON types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costcore.symbolic import written


def attribute_text(value: Any) -> str:
    """A setting as people write it: ``(3, 3)`` is 3."""
    alike = isinstance(value, tuple) and value and all(v == value[0] for v in value)
    return written(value[0] if alike else value)


def jsonable(value: Any) -> Any:
    """``value`` as JSON has it: tuples are lists, expressions and whatever else is unknown there are text."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        return {str(name): jsonable(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(part) for part in value]
    return written(value)
