"""Shapes that a model declares for its values (``value_info``, graph inputs and outputs)."""

from __future__ import annotations

from typing import Any

from costcore.dims import Dim

from .dimensions import Dimensions


def declared_shape(kind: Any, dims: Dimensions) -> tuple[Dim | None, ...] | None:
    """Return the shape of a tensor type: numbers, named dimensions, None for unknown dimensions."""
    if kind is None or not kind.HasField("shape"):
        return None
    return tuple(_declared_dim(d, dims) for d in kind.shape.dim)


def _declared_dim(d: Any, dims: Dimensions) -> Dim | None:
    if d.HasField("dim_value"):
        return int(d.dim_value) if d.dim_value >= 0 else None
    return dims(d.dim_param) if d.dim_param else None
