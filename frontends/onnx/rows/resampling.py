"""Rows of resizing and of sampling at the points of a grid."""

from __future__ import annotations

from typing import Any

from costcore.translate import Arguments, Row, Source

from ..values.dimensions import may_be_equal
from .arguments import node_of


def _scaled_axes(a: Arguments) -> Any:
    """Return the axes that a resize changes; None if they are spatial axes of ``[N, C, ...]``.

    Of samples and channels, a symbol and a number are assumed to be equal.
    """
    x, y = a["X"].known_shape, node_of(a).outputs[0]
    pairs = tuple(zip(x, y.known_shape, strict=True)) if y else ()
    changed = tuple(i for i, sizes in enumerate(pairs) if sizes[0] != sizes[1] and (i > 1 or not may_be_equal(*sizes)))
    return changed if any(i < 2 for i in changed) else None


_INTERPOLATIONS = {"bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}


def _mode(usual: str) -> Source:
    """Return a source for the canonical name of the interpolation; ``usual`` if the attribute is omitted."""
    return lambda a: _INTERPOLATIONS.get(a.get("mode", usual), a.get("mode", usual))


ROWS: tuple[Row, ...] = (
    *(
        Row(
            f"ai.onnx::{op}",
            "resize",
            {"x": "X"},
            {"mode": _mode("nearest"), "axes": _scaled_axes},
        )
        for op in ("Resize", "Upsample")
    ),
    Row("ai.onnx::GridSample", "grid_sample", {"x": "X", "grid": "grid"}, {"mode": _mode("linear")}),
    Row("ai.onnx::AffineGrid", "affine_grid", {"theta": "theta"}),
)
