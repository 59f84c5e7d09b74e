"""Tests and readings of matched values that several patterns need."""

from __future__ import annotations

from typing import Any

from ...values.value import FLOATS, Value
from ..matcher import Match


def learned(value: Value | None, *shape: Any) -> bool:
    """Whether a value is a stored floating-point tensor of this shape."""
    return value is not None and value.stored is not None and value.dtype in FLOATS and value.shape == shape


def like_x(match: Match) -> bool:
    """Whether the group makes what it is given: the shape and the element type of ``x``."""
    y, x = match.nodes[0].call.layer.out, match.values["x"]
    return x.shape == y.shape and x.dtype == y.dtype


def number(value: Value) -> Any:
    """The element of a constant of one element."""
    return value.data.ravel()[0]
