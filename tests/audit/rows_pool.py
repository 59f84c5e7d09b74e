"""Pooling, forward and backward, with what a forward saves for its backward."""

from __future__ import annotations

from torch.nn import functional as fn

from .modules import function, learned
from .row import FLOAT, INT, Row

ROWS = [
    Row(
        "max_pool2d",
        function(lambda x: fn.max_pool2d(x, 2)),
        (1, 3, 6, 6),
        "y 27, windows of 4: 3 cmp each; nobody needs a gradient, so no indices: reads 108, writes 27",
        {"cmp": 81, "read": FLOAT * 108, "written": FLOAT * 27},
    ),
    Row(
        "max_pool1d-overlapping",
        function(lambda x: fn.max_pool1d(x, 3, 2, 1)),
        (2, 3, 9),
        "(9 + 2 − 3)//2 + 1 = 5: y 30, windows of 3: 2 cmp; an element is read once: 54",
        {"cmp": 60, "read": FLOAT * 54, "written": FLOAT * 30},
    ),
    Row(
        "max_pool2d-indices",
        function(lambda x: fn.max_pool2d(x, 2, return_indices=True)),
        (1, 3, 6, 6),
        "indices of int64 are asked for: 27 values and 27 indices are written",
        {"cmp": 81, "read": FLOAT * 108, "written": (FLOAT + INT) * 27},
    ),
    Row(
        "max_pool2d-with-gradient",
        learned(lambda x: fn.max_pool2d(x, 2), (1, 3, 6, 6)),
        (),
        "the backward reads the indices (int64), so the forward writes them: 27 values and 27 indices",
        {"cmp": 81, "read": FLOAT * 108, "written": (FLOAT + INT) * 27},
        backward=True,
        only="max_pool2d",
    ),
    Row(
        "max_pool2d-backward",
        learned(lambda x: fn.max_pool2d(x, 2), (1, 3, 6, 6)),
        (),
        "each of 27 gradients is added at its index: 27 add; reads 27 gradients and 27 indices of int64, not x; "
        "writes 108",
        {"add": 27, "read": (FLOAT + INT) * 27, "written": FLOAT * 108},
        phase="backward",
    ),
    Row(
        "avg_pool2d",
        function(lambda x: fn.avg_pool2d(x, 3)),
        (1, 3, 6, 6),
        "y 12, windows of 9: 8 add, 1 div; reads 108",
        {"add": 96, "div": 12, "read": FLOAT * 108, "written": FLOAT * 12},
    ),
    Row(
        "avg_pool2d-backward",
        learned(lambda x: fn.avg_pool2d(x, 3), (1, 3, 6, 6)),
        (),
        "12 gradients: 1 div, then added to the 9 elements of the window: 9 add; reads g 12, not x; writes 108",
        {"add": 108, "div": 12, "read": FLOAT * 12, "written": FLOAT * 108},
        phase="backward",
    ),
    Row(
        "adaptive_avg_pool2d",
        function(lambda x: fn.adaptive_avg_pool2d(x, 2)),
        (1, 3, 6, 6),
        "y 12, windows of 3·3: 8 add, 1 div; reads 108",
        {"add": 96, "div": 12, "read": FLOAT * 108, "written": FLOAT * 12},
    ),
    Row(
        "adaptive_avg_pool1d-uneven",
        function(lambda x: fn.adaptive_avg_pool1d(x, 3)),
        (2, 4, 5),
        "windows ⌊5i/3⌋ to ⌈5(i+1)/3⌉: 2, 3 and 2 elements: 1 + 2 + 1 add, 3 div, for 8 rows; reads 40",
        {"add": 32, "div": 24, "read": FLOAT * 40, "written": FLOAT * 24},
    ),
    Row(
        "adaptive_max_pool2d",
        function(lambda x: fn.adaptive_max_pool2d(x, 2)),
        (1, 3, 6, 6),
        "y 12, windows of 9: 8 cmp; nobody asked for indices: writes 12",
        {"cmp": 96, "read": FLOAT * 108, "written": FLOAT * 12},
    ),
    Row(
        "adaptive_max_pool2d-with-gradient",
        learned(lambda x: fn.adaptive_max_pool2d(x, 2), (1, 3, 6, 6)),
        (),
        "the backward reads the indices: writes 12 values and 12 indices",
        {"cmp": 96, "read": FLOAT * 108, "written": (FLOAT + INT) * 12},
        backward=True,
    ),
    Row(
        "max_unpool2d",
        function(lambda x: fn.max_unpool2d(*fn.max_pool2d(x, 2, return_indices=True), 2)),
        (1, 3, 6, 6),
        "upsampling with indexes: 0 operations; reads 27 values and 27 indices; writes 108",
        {"read": (FLOAT + INT) * 27, "written": FLOAT * 108},
        only="max_unpool2d",
    ),
    Row(
        "mean-global-pool",
        function(lambda x: x.mean((2, 3))),
        (1, 3, 6, 6),
        "3 means of 36: 35 add, 1 div",
        {"add": 105, "div": 3, "read": FLOAT * 108, "written": FLOAT * 3},
    ),
    Row(
        "max_pool2d-ceil",
        function(lambda x: fn.max_pool2d(x, 2, ceil_mode=True)),
        (1, 3, 5, 5),
        "⌈(5 − 2)/2⌉ + 1 = 3: y 27, windows of 4, taps beyond the edge count as padding does: 3 cmp each; reads 75",
        {"cmp": 81, "read": FLOAT * 75, "written": FLOAT * 27},
    ),
    Row(
        "avg_pool1d-padded",
        function(lambda x: fn.avg_pool1d(x, 3, 1, 1)),
        (2, 3, 6),
        "y 36, windows of 3: 2 add, 1 div; reads 36",
        {"add": 72, "div": 36, "read": FLOAT * 36, "written": FLOAT * 36},
    ),
    Row(
        "adaptive_avg_pool2d-backward",
        learned(lambda x: fn.adaptive_avg_pool2d(x, 2), (1, 3, 6, 6)),
        (),
        "12 gradients: 1 div, then added to the 9 elements of the window; reads g 12; writes 108",
        {"add": 108, "div": 12, "read": FLOAT * 12, "written": FLOAT * 108},
        phase="backward",
    ),
    Row(
        "mean-backward",
        learned(lambda x: x.mean(1), (3, 5)),
        (),
        "g/5 of an expanded view of 3 stored elements: 15 div",
        {"div": 15, "read": FLOAT * 3, "written": FLOAT * 15},
        phase="backward",
    ),
]
