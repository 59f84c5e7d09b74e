"""Reductions, scans and distances; x[3, 5] in float32, reduced over its rows of 5, unless a row says otherwise."""

from __future__ import annotations

import torch
from torch.nn import functional as fn

from .modules import function
from .row import FLOAT, INT, Row

X = (3, 5)


def rows_of_5(name, call, why, written=FLOAT * 3, **kinds):
    """Return the row of a reduction to 3 values, with the operations of one row."""
    return Row(
        name,
        function(call),
        X,
        why,
        {kind: count * 3 for kind, count in kinds.items()} | {"read": FLOAT * 15, "written": written},
    )


ROWS = [
    rows_of_5("sum", lambda x: x.sum(1), "4 add a row", add=4),
    Row("sum-all", function(torch.sum), X, "14 add", {"add": 14, "read": FLOAT * 15, "written": FLOAT}),
    Row(
        "sum-expanded",
        function(lambda x: x.expand(3, 5).sum(1)),
        (3, 1),
        "4 add a row, of an expanded view of 3 stored elements",
        {"add": 12, "read": FLOAT * 3, "written": FLOAT * 3},
    ),
    rows_of_5("mean", lambda x: x.mean(1), "4 add, 1 div a row", add=4, div=1),
    rows_of_5("amax", lambda x: x.amax(1), "4 cmp a row", cmp=4),
    rows_of_5("max-rows", lambda x: x.max(1), "4 cmp a row; values and int64 indices", (FLOAT + INT) * 3, cmp=4),
    rows_of_5("argmax", lambda x: x.argmax(1), "4 cmp a row; int64 indices alone", INT * 3, cmp=4),
    rows_of_5("aminmax", lambda x: x.aminmax(dim=1), "least and greatest: 8 cmp a row; two results", FLOAT * 6, cmp=8),
    rows_of_5(
        "var",
        lambda x: x.var(1),
        "mean 4 add, 1 div; differences 5 add; squares 1 mul, 4 fma; 1 div",
        fma=4,
        mul=1,
        add=9,
        div=2,
    ),
    rows_of_5("std", lambda x: x.std(1), "var and a square root", fma=4, mul=1, add=9, div=2, special=1),
    rows_of_5(
        "var_mean", lambda x: torch.var_mean(x, 1), "as var; both are written", FLOAT * 6, fma=4, mul=1, add=9, div=2
    ),
    rows_of_5(
        "vector_norm-2",
        lambda x: torch.linalg.vector_norm(x, dim=1),
        "squares 1 mul, 4 fma; a square root",
        fma=4,
        mul=1,
        special=1,
    ),
    rows_of_5("vector_norm-1", lambda x: torch.linalg.vector_norm(x, 1, dim=1), "|x| 5 add; sum 4 add", add=9),
    rows_of_5(
        "vector_norm-inf", lambda x: torch.linalg.vector_norm(x, float("inf"), dim=1), "|x| 5 add; 4 cmp", add=5, cmp=4
    ),
    rows_of_5("prod", lambda x: x.prod(1), "4 mul a row", mul=4),
    rows_of_5("logsumexp", lambda x: x.logsumexp(1), "exp 5, sum 4 add, log 1", add=4, special=6),
    rows_of_5("cumsum", lambda x: x.cumsum(1), "4 add a row; every partial sum is written", FLOAT * 15, add=4),
    rows_of_5("cumprod", lambda x: x.cumprod(1), "4 mul a row", FLOAT * 15, mul=4),
    rows_of_5("cummax", lambda x: x.cummax(1), "4 cmp a row; values and int64 indices", (FLOAT + INT) * 15, cmp=4),
    Row(
        "normalize",
        function(fn.normalize),
        X,
        "Python in PyTorch, as executed. Norm: 1 mul, 4 fma, 1 special a row, reads 15, writes 3. Lower bound: 1 cmp, "
        "3, 3. Division by the expanded norm: 15 div, reads 15 and the 3 stored, writes 15",
        {
            "fma": 12,
            "mul": 3,
            "special": 3,
            "cmp": 3,
            "div": 15,
            "read": FLOAT * (15 + 3 + 15 + 3),
            "written": FLOAT * (3 + 3 + 15),
        },
    ),
    Row(
        "dist",
        function(torch.dist),
        (X, X),
        "differences 15 add; squares 1 mul, 14 fma; a square root",
        {"fma": 14, "mul": 1, "add": 15, "special": 1, "read": FLOAT * 30, "written": FLOAT},
    ),
    Row(
        "cdist",
        function(torch.cdist),
        ((4, 3), (5, 3)),
        "20 pairs: differences 3 add; squares 1 mul, 2 fma; a square root. No matrix product, no macs",
        {"fma": 40, "mul": 20, "add": 60, "special": 20, "read": FLOAT * 27, "written": FLOAT * 20},
    ),
    Row(
        "cosine_similarity",
        function(fn.cosine_similarity),
        (X, X),
        "x1·x2 / (max(‖x1‖, ε) max(‖x2‖, ε)), per row of 5: three dot products, 3 mul and 12 fma; 2 square roots; 2 "
        "cmp; 1 mul; 1 div",
        {"fma": 36, "mul": 12, "cmp": 6, "special": 6, "div": 3, "read": FLOAT * 30, "written": FLOAT * 3},
    ),
    Row(
        "pairwise_distance",
        function(fn.pairwise_distance),
        (X, X),
        "‖x1 − x2 + ε‖ per row of 5: 5 + 5 add; squares 1 mul, 4 fma; a square root",
        {"fma": 12, "mul": 3, "add": 30, "special": 3, "read": FLOAT * 30, "written": FLOAT * 3},
    ),
    Row(
        "trace",
        function(torch.trace),
        (4, 4),
        "3 add; the diagonal alone is read",
        {"add": 3, "read": FLOAT * 4, "written": FLOAT},
    ),
    Row(
        "cdist-1",
        function(lambda a, b: torch.cdist(a, b, p=1.0)),
        ((4, 3), (5, 3)),
        "20 pairs: differences 3 add, |…| 3 add, sum 2 add",
        {"add": 160, "read": FLOAT * 27, "written": FLOAT * 20},
    ),
    Row(
        "cdist-many",
        function(torch.cdist),
        ((30, 3), (5, 3)),
        "150 pairs as in cdist: the definition does not change where PyTorch takes a matrix product",
        {"fma": 300, "mul": 150, "add": 450, "special": 150, "read": FLOAT * 105, "written": FLOAT * 150},
    ),
    Row(
        "norm-frobenius",
        function(torch.linalg.norm),
        ((3, 5),),
        "squares 1 mul, 14 fma; a square root",
        {"fma": 14, "mul": 1, "special": 1, "read": FLOAT * 15, "written": FLOAT},
    ),
    Row("amax-all", function(torch.amax), X, "14 cmp", {"cmp": 14, "read": FLOAT * 15, "written": FLOAT}),
    Row("argmin-all", function(torch.argmin), X, "14 cmp; one index", {"cmp": 14, "read": FLOAT * 15, "written": INT}),
    Row(
        "var-biased-columns",
        function(lambda x: x.var(0, unbiased=False)),
        X,
        "5 columns of 3: mean 2 add, 1 div; differences 3 add; squares 1 mul, 2 fma; 1 div",
        {"fma": 10, "mul": 5, "add": 25, "div": 10, "read": FLOAT * 15, "written": FLOAT * 5},
    ),
]
