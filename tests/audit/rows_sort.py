"""Sorting and selection: sorts cost n·⌈log2 n⌉, selections n·⌈log2(k + 1)⌉ and at most a sort."""

from __future__ import annotations

import torch

from .modules import function
from .row import FLOAT, INT, Row

ROWS = [
    Row(
        "sort",
        function(torch.sort),
        ((2, 8),),
        "2 rows of 8: 8·3 cmp; writes values and indices of int64",
        {"cmp": 48, "read": FLOAT * 16, "written": (FLOAT + INT) * 16},
    ),
    Row(
        "sort-9",
        function(torch.sort),
        ((2, 9),),
        "2 rows of 9: ⌈log2 9⌉ = 4: 9·4 cmp",
        {"cmp": 72, "read": FLOAT * 18, "written": (FLOAT + INT) * 18},
    ),
    Row(
        "argsort",
        function(torch.argsort),
        ((2, 8),),
        "PyTorch defines it as the second result of sort, which writes values and indices",
        {"cmp": 48, "read": FLOAT * 16, "written": (FLOAT + INT) * 16},
    ),
    Row(
        "topk-2",
        function(lambda x: torch.topk(x, 2)),
        (2, 8),
        "2 rows of 8: ⌈log2 3⌉ = 2: 8·2 cmp; writes 2 values and 2 indices a row",
        {"cmp": 32, "read": FLOAT * 16, "written": (FLOAT + INT) * 4},
    ),
    Row(
        "topk-1",
        function(lambda x: torch.topk(x, 1)),
        (2, 8),
        "⌈log2 2⌉ = 1: 8 cmp a row",
        {"cmp": 16, "read": FLOAT * 16, "written": (FLOAT + INT) * 2},
    ),
    Row(
        "topk-all",
        function(lambda x: torch.topk(x, 8)),
        (2, 8),
        "⌈log2 9⌉ = 4 is more than the sort's 3: 8·3 cmp a row",
        {"cmp": 48, "read": FLOAT * 16, "written": (FLOAT + INT) * 16},
    ),
    Row(
        "kthvalue",
        function(lambda x: torch.kthvalue(x, 3)),
        (2, 8),
        "⌈log2 4⌉ = 2: 8·2 cmp a row; writes a value and an index a row",
        {"cmp": 32, "read": FLOAT * 16, "written": (FLOAT + INT) * 2},
    ),
    Row(
        "median-rows",
        function(lambda x: torch.median(x, 1)),
        (2, 9),
        "the 5th of 9: ⌈log2 6⌉ = 3: 9·3 cmp a row (a sort: 9·4)",
        {"cmp": 54, "read": FLOAT * 18, "written": (FLOAT + INT) * 2},
    ),
    Row(
        "median-all",
        function(torch.median),
        (17,),
        "the 9th of 17: ⌈log2 10⌉ = 4: 17·4 cmp (a sort: 17·5); one value, no index",
        {"cmp": 68, "read": FLOAT * 17, "written": FLOAT},
    ),
    Row(
        "topk-first-axis",
        function(lambda x: torch.topk(x, 3, 0)),
        (8, 2),
        "2 columns of 8: ⌈log2 4⌉ = 2: 8·2 cmp; writes 3 values and 3 indices a column",
        {"cmp": 32, "read": FLOAT * 16, "written": (FLOAT + INT) * 6},
    ),
    Row(
        "sort-one",
        function(torch.sort),
        ((2, 1),),
        "⌈log2 1⌉ = 0: nothing to compare",
        {"read": FLOAT * 2, "written": (FLOAT + INT) * 2},
    ),
]
