"""Resampling: interpolation and sampling on grids; weights and coordinates are index arithmetic."""

from __future__ import annotations

from torch.nn import functional as fn

from .modules import function, learned
from .row import FLOAT, Row


def resize(name, mode, inputs, scale, why, expected):
    """Return the row of an interpolation."""
    return Row(name, function(lambda x: fn.interpolate(x, scale_factor=scale, mode=mode)), inputs, why, expected)


ROWS = [
    resize(
        "interpolate-nearest",
        "nearest",
        (1, 2, 3, 3),
        2,
        "0 operations; reads 18, writes 72",
        {"read": FLOAT * 18, "written": FLOAT * 72},
    ),
    resize(
        "interpolate-linear",
        "linear",
        (1, 2, 4),
        2,
        "a + w (b − a): 1 mul, 2 add for each of 16; reads min(2·16, 8)",
        {"mul": 16, "add": 32, "read": FLOAT * 8, "written": FLOAT * 16},
    ),
    resize(
        "interpolate-bilinear",
        "bilinear",
        (1, 2, 3, 3),
        2,
        "three such steps: 3 mul, 6 add for each of 72; reads min(4·72, 18)",
        {"mul": 216, "add": 432, "read": FLOAT * 18, "written": FLOAT * 72},
    ),
    resize(
        "interpolate-bilinear-down",
        "bilinear",
        (1, 1, 8, 8),
        0.25,
        "4 outputs; reads min(4·4, 64) = 16",
        {"mul": 12, "add": 24, "read": FLOAT * 16, "written": FLOAT * 4},
    ),
    resize(
        "interpolate-bicubic",
        "bicubic",
        (1, 2, 3, 3),
        2,
        "20 mul, 15 add for each of 72; reads min(16·72, 18)",
        {"mul": 1440, "add": 1080, "read": FLOAT * 18, "written": FLOAT * 72},
    ),
    resize(
        "interpolate-trilinear",
        "trilinear",
        (1, 1, 2, 2, 2),
        2,
        "seven steps: 7 mul, 14 add for each of 64; reads min(8·64, 8)",
        {"mul": 448, "add": 896, "read": FLOAT * 8, "written": FLOAT * 64},
    ),
    Row(
        "grid_sample-bilinear",
        function(lambda x, g: fn.grid_sample(x, g, align_corners=False)),
        ((1, 2, 4, 4), (1, 3, 3, 2)),
        "18 outputs of 3 mul, 6 add; coordinates are index arithmetic; reads the grid 18 and min(4·18, 32) = 32",
        {"mul": 54, "add": 108, "read": FLOAT * 50, "written": FLOAT * 18},
    ),
    Row(
        "grid_sample-nearest",
        function(lambda x, g: fn.grid_sample(x, g, mode="nearest", align_corners=False)),
        ((1, 2, 4, 4), (1, 3, 3, 2)),
        "0 operations; reads the grid 18 and the 18 elements taken",
        {"read": FLOAT * 36, "written": FLOAT * 18},
    ),
    Row(
        "interpolate-nearest-backward",
        learned(lambda x: fn.interpolate(x, scale_factor=2, mode="nearest"), (1, 2, 3, 3)),
        (),
        "72 gradients are added to the elements they came from; writes 18",
        {"add": 72, "read": FLOAT * 72, "written": FLOAT * 18},
        phase="backward",
    ),
    Row(
        "interpolate-area",
        function(lambda x: fn.interpolate(x, size=(2, 2), mode="area")),
        (1, 1, 4, 4),
        "adaptive average pooling: 4 windows of 4: 3 add, 1 div; reads 16",
        {"add": 12, "div": 4, "read": FLOAT * 16, "written": FLOAT * 4},
    ),
    Row(
        "interpolate-bilinear-backward",
        learned(lambda x: fn.interpolate(x, scale_factor=2, mode="bilinear"), (1, 2, 3, 3)),
        (),
        "reads 72 gradients alone, writes 18; algebra leaves a choice of the operations",
        {"read": FLOAT * 72, "written": FLOAT * 18},
        phase="backward",
        compare=("read", "written"),
    ),
]
