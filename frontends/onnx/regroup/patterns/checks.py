"""Checks of matched values that several patterns share."""

from __future__ import annotations

from typing import Any

from ...values.value import FLOATS, Value
from ..matcher import Match


def is_learned(value: Value | None, *shape: Any) -> bool:
    """Return True for a stored floating-point tensor of this shape."""
    return value is not None and value.stored is not None and value.dtype in FLOATS and value.shape == shape


def preserves_x(match: Match) -> bool:
    """Return True if the output of the group has the shape and dtype of ``x``."""
    y, x = match.nodes[0].call.layer.out, match.values["x"]
    return x.shape == y.shape and x.dtype == y.dtype


def scalar(value: Value) -> Any:
    """Return the element of a constant of one element."""
    return value.data.ravel()[0]
