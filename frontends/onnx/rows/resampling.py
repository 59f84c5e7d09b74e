"""Rows of resizing and of sampling at the points of a grid."""

from __future__ import annotations

from typing import Any

from costcore.translate import Arguments, Row, Source

from ..values.dimensions import may_be_equal
from ..values.value import Value
from .arguments import determined, node_of


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


_COORDINATES = {"pytorch_half_pixel": "half_pixel", "align_corners": None, "half_pixel": None}
"""Where samples are taken, by the names of the standard; None for the default and for aligned corners."""


def _transformation(a: Arguments) -> str:
    """Return where samples are taken; before version 11 of Resize, at the first corner of elements."""
    is_old = node_of(a).op == "Upsample" or node_of(a).version < 11
    found: str = "asymmetric" if is_old else a.get("coordinate_transformation_mode", "half_pixel")
    return found


def _coordinates(a: Arguments) -> str | None:
    found = _COORDINATES.get(_transformation(a), _transformation(a))
    return None if found == "half_pixel" else found


def _rounding(a: Arguments) -> str | None:
    """Return how a sample of the mode nearest is rounded; None for the default, down."""
    is_old = node_of(a).op == "Upsample" or node_of(a).version < 11
    if is_old or a.get("mode", "nearest") != "nearest":
        return None
    found = a.get("nearest_mode", "round_prefer_floor")
    return None if found == "floor" else found


def _inexact_scale(a: Arguments) -> Any:
    """Return the factors that samples are taken at, if the sizes are not exactly these multiples."""
    node, y = node_of(a), node_of(a).outputs[0]
    scales = a.get("scales")
    if y is None or not isinstance(scales, Value) or scales.shape == (0,) or scales.data is None:
        return None
    x, new = node.value("X").known_shape, y.known_shape
    axes = node.axes(len(x), "axes") or tuple(range(len(x)))
    given = dict(zip(axes, scales.data.ravel().tolist(), strict=False))
    used = _scaled_axes(a) or tuple(range(2, len(x)))
    exact = all(float(given.get(i, 1)).is_integer() or x[i] * given[i] == new[i] for i in used)
    return None if exact else tuple(float(given.get(i, 1)) for i in used)


ROWS: tuple[Row, ...] = (
    *(
        Row(
            f"ai.onnx::{op}",
            "resize",
            {"x": "X"},
            {
                "mode": _mode("nearest"),
                "axes": _scaled_axes,
                "coordinates": _coordinates,
                "rounding": _rounding,
                "align_corners": lambda a: True if _transformation(a) == "align_corners" else None,
                "antialias": lambda a: True if a.get("antialias") else None,
                "scale": determined(lambda node: _inexact_scale(node.args)),
            },
        )
        for op in ("Resize", "Upsample")
    ),
    Row("ai.onnx::GridSample", "grid_sample", {"x": "X", "grid": "grid"}, {"mode": _mode("linear")}),
    Row("ai.onnx::AffineGrid", "affine_grid", {"theta": "theta"}),
)
