"""Gathering, scattering, embeddings: they read what they need, with its indices of int64."""

from __future__ import annotations

import torch
from torch.nn import functional as fn

from costcore import Tensor

from .modules import function, learned
from .row import FLOAT, INT, Row


def index(*shape):
    """Return an index tensor without values."""
    return Tensor(shape, "int64")


ROWS = [
    Row(
        "embedding",
        function(fn.embedding),
        (index(3, 4), (10, 6)),
        "reads the 12 rows of 6 that are written, and 12 indices",
        {"read": FLOAT * 72 + INT * 12, "written": FLOAT * 72},
    ),
    Row(
        "embedding-backward",
        learned(lambda w, i: fn.embedding(i, w), (10, 6)),
        index(3, 4),
        "12 gradients of 6 are added to rows of zeros: 72 add; reads them and 12 indices; writes 60",
        {"add": 72, "read": FLOAT * 72 + INT * 12, "written": FLOAT * 60},
        phase="backward",
    ),
    Row(
        "embedding_bag-sum",
        function(lambda i, w, o: fn.embedding_bag(i, w, o, mode="sum")),
        (index(6), (10, 6), index(2)),
        "6 rows of 6 in 2 bags: 6·(6 − 2) add; reads 36 elements, 6 indices, 2 offsets; writes 12",
        {"add": 24, "read": FLOAT * 36 + INT * 8, "written": FLOAT * 12},
    ),
    Row(
        "embedding_bag-mean",
        function(lambda i, w, o: fn.embedding_bag(i, w, o, mode="mean")),
        (index(6), (10, 6), index(2)),
        "as sum, and 12 div",
        {"add": 24, "div": 12, "read": FLOAT * 36 + INT * 8, "written": FLOAT * 12},
    ),
    Row(
        "embedding_bag-weighted",
        function(lambda i, w, o, s: fn.embedding_bag(i, w, o, mode="sum", per_sample_weights=s)),
        (index(6), (10, 6), index(2), (6,)),
        "products that accumulate: 12 outputs start with 1 mul, the other 24 of 36 products are fma; 6 weights are "
        "read too",
        {"mul": 12, "fma": 24, "read": FLOAT * 42 + INT * 8, "written": FLOAT * 12},
    ),
    Row(
        "gather",
        function(lambda x, i: x.gather(1, i)),
        ((3, 5), index(3, 2)),
        "reads 6 elements and 6 indices",
        {"read": FLOAT * 6 + INT * 6, "written": FLOAT * 6},
    ),
    Row(
        "index_select",
        function(lambda x, i: x.index_select(0, i)),
        ((5, 4), index(3)),
        "reads 3 rows of 4 and 3 indices",
        {"read": FLOAT * 12 + INT * 3, "written": FLOAT * 12},
    ),
    Row(
        "index",
        function(lambda x, i: x[i]),
        ((5, 4), index(3)),
        "reads 3 rows of 4 and 3 indices",
        {"read": FLOAT * 12 + INT * 3, "written": FLOAT * 12},
    ),
    Row(
        "take",
        function(torch.take),
        ((3, 5), index(4)),
        "reads 4 elements and 4 indices",
        {"read": FLOAT * 4 + INT * 4, "written": FLOAT * 4},
    ),
    Row(
        "scatter",
        function(lambda x, i, s: x.scatter(1, i, s)),
        ((3, 5), index(3, 2), (3, 2)),
        "reads x 15, 6 indices, 6 sources; writes 15; which elements are replaced depends on data",
        {"read": FLOAT * 21 + INT * 6, "written": FLOAT * 15},
    ),
    Row(
        "scatter_add",
        function(lambda x, i, s: x.scatter_add(1, i, s)),
        ((3, 5), index(3, 2), (3, 2)),
        "6 sources are added",
        {"add": 6, "read": FLOAT * 21 + INT * 6, "written": FLOAT * 15},
    ),
    Row(
        "scatter_reduce-amax",
        function(lambda x, i, s: x.scatter_reduce(1, i, s, "amax")),
        ((3, 5), index(3, 2), (3, 2)),
        "6 sources are compared",
        {"cmp": 6, "read": FLOAT * 21 + INT * 6, "written": FLOAT * 15},
    ),
    Row(
        "index_add",
        function(lambda x, i, s: x.index_add(0, i, s)),
        ((5, 4), index(3), (3, 4)),
        "12 sources are added; reads x 20, 12 sources, 3 indices",
        {"add": 12, "read": FLOAT * 32 + INT * 3, "written": FLOAT * 20},
    ),
    Row(
        "index_add-alpha",
        function(lambda x, i, s: x.index_add(0, i, s, alpha=2)),
        ((5, 4), index(3), (3, 4)),
        "x + α s: the product is added, 12 fma",
        {"fma": 12, "read": FLOAT * 32 + INT * 3, "written": FLOAT * 20},
    ),
    Row(
        "index_copy",
        function(lambda x, i, s: x.index_copy(0, i, s)),
        ((5, 4), index(3), (3, 4)),
        "0 operations; reads x 20, 12 sources, 3 indices",
        {"read": FLOAT * 32 + INT * 3, "written": FLOAT * 20},
    ),
    Row(
        "index_put",
        function(lambda x, i, s: x.index_put((i,), s)),
        ((5, 4), index(3), (3, 4)),
        "0 operations; reads x 20, 12 sources, 3 indices",
        {"read": FLOAT * 32 + INT * 3, "written": FLOAT * 20},
    ),
    Row(
        "index_put-accumulate",
        function(lambda x, i, s: x.index_put((i,), s, accumulate=True)),
        ((5, 4), index(3), (3, 4)),
        "12 sources are added",
        {"add": 12, "read": FLOAT * 32 + INT * 3, "written": FLOAT * 20},
    ),
    Row(
        "masked_fill",
        function(lambda x, m: x.masked_fill(m, 0.0)),
        ((3, 5), Tensor((3, 5), "bool")),
        "1 select each; reads 15 elements and 15 bytes of mask",
        {"cmp": 15, "read": FLOAT * 15 + 15, "written": FLOAT * 15},
    ),
    Row(
        "masked_fill-broadcast",
        function(lambda x, m: x.masked_fill(m, 0.0)),
        ((2, 3, 5), Tensor((5,), "bool")),
        "30 selects; the mask has 5 bytes",
        {"cmp": 30, "read": FLOAT * 30 + 5, "written": FLOAT * 30},
    ),
    Row(
        "gather-expanded-index",
        function(lambda x, i: x.gather(1, i[:, :, None].expand(2, 3, 4))),
        ((2, 5, 4), index(2, 3)),
        "reads 24 elements and the 6 indices stored",
        {"read": FLOAT * 24 + INT * 6, "written": FLOAT * 24},
    ),
    Row(
        "scatter_add-expanded-index",
        function(lambda x, i, s: x.scatter_add(1, i[:, :, None].expand(2, 3, 4), s)),
        ((2, 5, 4), index(2, 3), (2, 3, 4)),
        "24 sources are added; reads x 40, 24 sources, the 6 indices stored",
        {"add": 24, "read": FLOAT * 64 + INT * 6, "written": FLOAT * 40},
    ),
    Row(
        "masked_fill-expanded",
        function(lambda x, m: x.masked_fill(m.expand(3, 5), 0.0)),
        ((3, 5), Tensor((3, 1), "bool")),
        "1 select each; the mask has 3 stored bytes",
        {"cmp": 15, "read": FLOAT * 15 + 3, "written": FLOAT * 15},
    ),
    Row(
        "embedding-int32",
        function(fn.embedding),
        (Tensor((3, 4), "int32"), (10, 6)),
        "12 indices of 4 bytes",
        {"read": FLOAT * 72 + 4 * 12, "written": FLOAT * 72},
    ),
    Row(
        "embedding_bag-max",
        function(lambda i, w, o: fn.embedding_bag(i, w, o, mode="max")),
        (index(6), (10, 6), index(2)),
        "6 rows of 6 in 2 bags: 6·(6 − 2) cmp",
        {"cmp": 24, "read": FLOAT * 36 + INT * 8, "written": FLOAT * 12},
    ),
    Row(
        "index-two",
        function(lambda x, i, j: x[i, j]),
        ((5, 4), index(3), index(3)),
        "reads 3 elements and 6 indices",
        {"read": FLOAT * 3 + INT * 6, "written": FLOAT * 3},
    ),
    Row(
        "embedding_bag-mean-with-gradient",
        learned(lambda w, i, o: fn.embedding_bag(i, w, o, mode="mean"), (10, 6)),
        (index(6), index(2)),
        "the backward reads which bag each of 6 indices is in and the sizes of 2 bags, in int64: these are written "
        "with y 12",
        {"written": FLOAT * 12 + INT * 8},
        backward=True,
        compare=("written",),
    ),
    Row(
        "embedding_bag-max-with-gradient",
        learned(lambda w, i, o: fn.embedding_bag(i, w, o, mode="max"), (10, 6)),
        (index(6), index(2)),
        "the backward reads which bag each of 6 indices is in and the 12 indices of the greatest: these are written "
        "with y 12",
        {"written": FLOAT * 12 + INT * 18},
        backward=True,
        compare=("written",),
    ),
    Row(
        "slice_scatter",
        function(lambda x, s: x.slice_scatter(s, 1, 0, 2)),
        ((3, 5), (3, 2)),
        "replaces the first 2 of 5 columns: needs 9 elements of x and 6 sources",
        {"read": FLOAT * 15, "written": FLOAT * 15},
    ),
]
