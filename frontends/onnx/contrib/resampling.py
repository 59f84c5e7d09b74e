"""Resizing and sampling that ONNX Runtime adds."""

from __future__ import annotations

from collections.abc import Sequence

from costcore.translate import Arguments

from ..graph.node import Node
from ..rows.resampling import ROWS
from ..schema.constraints import GRID, Constraints
from ..shapes.resampling import RULES, grid_sample, resize
from ..values.value import Value
from .channels_last import channels_last
from .spec import NCHWC, NHWC, OperatorSpec, row


def upsampled(node: Node) -> Sequence[Value]:
    """Infer sizes multiplied by integer factors."""
    x, scales = node.value("X"), node.partial_numbers("scales") or ()
    if len(scales) != len(x.known_shape):
        raise node.error(f"has {len(scales)} scales for {len(x.known_shape)} axes")
    pairs = zip(x.known_shape, scales, strict=True)
    return [node.result(tuple(None if scale is None else d * int(scale) for d, scale in pairs), x.dtype)]


def _mode(a: Arguments) -> str:
    """Return the canonical name of the interpolation."""
    mode = str(a.get("mode", "nearest"))
    return "linear" if mode in ("bilinear", "trilinear") else mode


SPECS: tuple[OperatorSpec, ...] = (
    OperatorSpec(
        "GridSample",
        "X Grid",
        required=2,
        constraints=Constraints(choices=GRID, ranks={"X": (4, 4), "Grid": (4, 4)}),
        infer=grid_sample,
        rows=[
            row(
                "grid_sample",
                {"x": "X", "grid": "Grid"},
                {
                    "mode": lambda a: {"bilinear": "linear", "bicubic": "cubic"}.get(
                        a.get("mode", "bilinear"), a.get("mode")
                    )
                },
            )
        ],
    ),
    OperatorSpec(
        "Upsample",
        "X",
        infer=upsampled,
        rows=[row("resize", {"x": "X"}, {"mode": lambda a: a.get("mode", "nearest")})],
        domain=NCHWC,
    ),
    channels_last(
        "GridSample",
        "X grid",
        RULES,
        ROWS,
        required=2,
    ),
    OperatorSpec(
        "Resize",
        "X roi scales sizes",
        infer=resize,
        rows=[row("resize", {"x": "X"}, {"mode": _mode})],
        domain=NHWC,
    ),
)
