"""Shapes that a model declares for its values (``value_info``, graph inputs and outputs)."""

from __future__ import annotations

from typing import Any

from costcore.numbers.dims import Dim

from .dimensions import Dimensions

UNKNOWN = frozenset(("", "?", "-1", "None"))
"""Names that do not name a dimension: two axes of one such name need not be equally long."""


def declared_shape(kind: Any, dims: Dimensions) -> tuple[Dim | None, ...] | None:
    """Return the shape of a tensor type: numbers, named dimensions, None for unknown dimensions.

    A negative number is an unknown dimension, as ONNX Runtime reads it.
    """
    if kind is None or not kind.HasField("shape"):
        return None
    return tuple(_declared_dim(d, dims) for d in kind.shape.dim)


def _declared_dim(d: Any, dims: Dimensions) -> Dim | None:
    name = dimension_name(d)
    return dims(name) if name else fixed_size(d)


def fixed_size(d: Any) -> int | None:
    """Return the number that a dimension is, which some exporters write as a name; None for all others."""
    if d.HasField("dim_value"):
        return int(d.dim_value) if d.dim_value >= 0 else None
    return int(d.dim_param) if _is_number(d.dim_param) else None


def dimension_name(d: Any) -> str:
    """Return the name of a dimension; ``""`` for a number or an unknown one, which some exporters write as a name."""
    name: str = d.dim_param
    return "" if name in UNKNOWN or _is_number(name) else name


def _is_number(name: Any) -> bool:
    """Return whether a name is a positive number as it is usually written."""
    return isinstance(name, str) and name.isascii() and name.isdigit() and not name.startswith("0")
