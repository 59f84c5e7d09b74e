"""Attributes and other values of a report as text and as plain JSON types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from costcore.numbers.symbolic import as_text


class Shown(NamedTuple):
    """A value with the text that people see.

    Attributes:
        value: the exact value, which data formats have.
        text: the text.
    """

    value: Any
    text: str


def attribute_text(value: Any) -> str:
    """Return the value of an attribute as text; a tuple of equal values, ``(3, 3)``, as one value, ``3``."""
    is_uniform = isinstance(value, tuple) and value and all(v == value[0] for v in value)
    return as_text(value[0] if is_uniform else value)


def jsonable(value: Any) -> Any:
    """Return ``value`` in plain JSON types: tuples as lists, expressions and all other types as text."""
    if isinstance(value, Shown):
        return jsonable(value.value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        return {str(name): jsonable(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(item) for item in value]
    return as_text(value)
