"""Linear layers, matrix products, einsum, bilinear, and their backward."""

from __future__ import annotations

import torch
from torch.nn import functional as fn

from .modules import function, learned
from .row import FLOAT, Row

ROWS = [
    Row(
        "linear",
        function(fn.linear),
        ((5, 7), (3, 7), (3,)),
        "y 15, dot products of 7 onto the bias: 7 fma; reads 35 + 21 + 3",
        {"fma": 105, "macs": 105, "read": FLOAT * 59, "written": FLOAT * 15},
    ),
    Row(
        "linear-no-bias",
        function(fn.linear),
        ((5, 7), (3, 7)),
        "1 mul, 6 fma each; reads 35 + 21",
        {"mul": 15, "fma": 90, "macs": 105, "read": FLOAT * 56, "written": FLOAT * 15},
    ),
    Row(
        "linear-3d",
        function(fn.linear),
        ((2, 5, 7), (3, 7), (3,)),
        "y 30; reads 70 + 21 + 3",
        {"fma": 210, "macs": 210, "read": FLOAT * 94, "written": FLOAT * 30},
    ),
    Row(
        "matmul-batched",
        function(torch.matmul),
        ((2, 3, 4), (2, 4, 5)),
        "y 30, n = 4: 1 mul, 3 fma; reads 24 + 40",
        {"mul": 30, "fma": 90, "macs": 120, "read": FLOAT * 64, "written": FLOAT * 30},
    ),
    Row(
        "matmul-broadcast",
        function(torch.matmul),
        ((2, 1, 3, 4), (6, 4, 5)),
        "y 2·6·3·5 = 180, n = 4; broadcasting is not materialized: reads 24 + 120",
        {"mul": 180, "fma": 540, "macs": 720, "read": FLOAT * 144, "written": FLOAT * 180},
    ),
    Row(
        "matmul-expanded",
        function(lambda a, b: torch.matmul(a, b.expand(2, 4, 5))),
        ((2, 3, 4), (1, 4, 5)),
        "y 30, n = 4; the expanded operand has 20 stored elements: reads 24 + 20",
        {"mul": 30, "fma": 90, "macs": 120, "read": FLOAT * 44, "written": FLOAT * 30},
    ),
    Row(
        "bmm",
        function(torch.bmm),
        ((2, 3, 4), (2, 4, 5)),
        "as the batched product",
        {"mul": 30, "fma": 90, "macs": 120, "read": FLOAT * 64, "written": FLOAT * 30},
    ),
    Row(
        "addmm",
        function(torch.addmm),
        ((5,), (3, 4), (4, 5)),
        "y 15, dot products of 4 onto the operand: 4 fma; reads 5 + 12 + 20",
        {"fma": 60, "macs": 60, "read": FLOAT * 37, "written": FLOAT * 15},
    ),
    Row(
        "addmm-beta-alpha",
        function(lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2)),
        ((3, 5), (3, 4), (4, 5)),
        "β c + α (a b), 15 elements: β c 1 mul; dot product of 4, 1 mul and 3 fma; α (…) added to it 1 fma; reads 15 "
        "+ 12 + 20",
        {"mul": 30, "fma": 60, "macs": 60, "read": FLOAT * 47, "written": FLOAT * 15},
    ),
    Row(
        "baddbmm",
        function(torch.baddbmm),
        ((2, 3, 5), (2, 3, 4), (2, 4, 5)),
        "y 30, dot products of 4 onto the operand; reads 30 + 24 + 40",
        {"fma": 120, "macs": 120, "read": FLOAT * 94, "written": FLOAT * 30},
    ),
    Row(
        "dot",
        function(torch.dot),
        ((8,), (8,)),
        "1 mul, 7 fma",
        {"mul": 1, "fma": 7, "macs": 8, "read": FLOAT * 16, "written": FLOAT},
    ),
    Row(
        "mv",
        function(torch.mv),
        ((3, 4), (4,)),
        "3 dot products of 4",
        {"mul": 3, "fma": 9, "macs": 12, "read": FLOAT * 16, "written": FLOAT * 3},
    ),
    Row(
        "outer",
        function(torch.outer),
        ((3,), (4,)),
        "12 products; a contraction over no index has no macs",
        {"mul": 12, "read": FLOAT * 7, "written": FLOAT * 12},
    ),
    Row(
        "einsum-batched",
        function(lambda a, b: torch.einsum("bhid,bhjd->bhij", a, b)),
        ((1, 2, 3, 4), (1, 2, 5, 4)),
        "y 30, contraction of length 4; reads 24 + 40",
        {"mul": 30, "fma": 90, "macs": 120, "read": FLOAT * 64, "written": FLOAT * 30},
    ),
    Row(
        "einsum-hadamard",
        function(lambda a, b: torch.einsum("ij,ij->ij", a, b)),
        ((3, 5), (3, 5)),
        "15 products; no index is contracted: no macs",
        {"mul": 15, "read": FLOAT * 30, "written": FLOAT * 15},
    ),
    Row(
        "einsum-sum",
        function(lambda a: torch.einsum("ij->i", a)),
        ((3, 5),),
        "3 sums of 5: 4 add; no product, no macs",
        {"add": 12, "read": FLOAT * 15, "written": FLOAT * 3},
    ),
    Row(
        "bilinear",
        function(fn.bilinear),
        ((4, 3), (4, 5), (2, 3, 5), (2,)),
        "x1ᵀ A x2 + b for 4 rows and 2 outputs: x1ᵀ A 5 dot products of 3, 1 mul and 2 fma; by x2 onto the bias 5 "
        "fma: 5 mul, 15 fma, 20 macs each. Reads 12 + 20 + 30 + 2",
        {"mul": 40, "fma": 120, "macs": 160, "read": FLOAT * 64, "written": FLOAT * 8},
    ),
    Row(
        "matmul-backward",
        learned(torch.matmul, (3, 4), (4, 5)),
        (),
        "ga = g bᵀ: 12 dot products of 5, 1 mul, 4 fma. gb = aᵀ g: 20 of 3, 1 mul, 2 fma. Reads g 15, b 20; a 12, g "
        "15; writes 12 + 20; transposed views are free",
        {"mul": 32, "fma": 88, "macs": 120, "read": FLOAT * 62, "written": FLOAT * 32},
        phase="backward",
    ),
    Row(
        "linear-backward",
        learned(fn.linear, (5, 7), (3, 7), (3,)),
        (),
        "gx: 35 dot products of 3; gw: 21 of 5; gb: 3 sums of 5, 4 add. Reads g 15, w 21; g 15, x 35; g 15; writes 35 "
        "+ 21 + 3",
        {"mul": 56, "fma": 70 + 84, "add": 12, "macs": 210, "read": FLOAT * 101, "written": FLOAT * 59},
        phase="backward",
    ),
    Row(
        "matmul-vector-matrix",
        function(torch.matmul),
        ((4,), (4, 5)),
        "5 dot products of 4; reads 4 + 20",
        {"mul": 5, "fma": 15, "macs": 20, "read": FLOAT * 24, "written": FLOAT * 5},
    ),
    Row(
        "matmul-vectors",
        function(torch.matmul),
        ((4,), (4,)),
        "one dot product of 4",
        {"mul": 1, "fma": 3, "macs": 4, "read": FLOAT * 8, "written": FLOAT},
    ),
    Row(
        "matmul-empty-contraction",
        function(torch.matmul),
        ((3, 0), (0, 5)),
        "an empty input: 0 operations; 15 zeros are written",
        {"written": FLOAT * 15},
    ),
    Row(
        "linear-vector",
        function(fn.linear),
        ((7,), (3, 7), (3,)),
        "3 dot products of 7 onto the bias; reads 7 + 21 + 3",
        {"fma": 21, "macs": 21, "read": FLOAT * 31, "written": FLOAT * 3},
    ),
    Row(
        "linear-expanded",
        function(lambda x, w: fn.linear(x.expand(5, 7), w)),
        ((1, 7), (3, 7)),
        "15 outputs of 7; the view has 7 stored elements: reads 7 + 21",
        {"mul": 15, "fma": 90, "macs": 105, "read": FLOAT * 28, "written": FLOAT * 15},
    ),
    Row(
        "addmm-beta-0",
        function(lambda c, a, b: torch.addmm(c, a, b, beta=0)),
        ((3, 5), (3, 4), (4, 5)),
        "with β = 0 the operand is ignored, as documented: a plain product that reads 12 + 20",
        {"mul": 15, "fma": 45, "macs": 60, "read": FLOAT * 32, "written": FLOAT * 15},
    ),
    Row(
        "addmv",
        function(torch.addmv),
        ((3,), (3, 4), (4,)),
        "3 dot products of 4 onto the operand; reads 3 + 12 + 4",
        {"fma": 12, "macs": 12, "read": FLOAT * 19, "written": FLOAT * 3},
    ),
    Row(
        "addr",
        function(torch.addr),
        ((3, 4), (3,), (4,)),
        "x + a bᵀ: 12 products added to an operand, 12 fma; no index is contracted: no macs",
        {"fma": 12, "read": FLOAT * 19, "written": FLOAT * 12},
    ),
    Row(
        "bmm-backward",
        learned(torch.bmm, (2, 3, 4), (2, 4, 5)),
        (),
        "ga: 24 dot products of 5, 1 mul, 4 fma. gb: 40 of 3, 1 mul, 2 fma. Reads g 30, b 40; a 24, g 30; writes 24 + "
        "40",
        {"mul": 64, "fma": 176, "macs": 240, "read": FLOAT * 124, "written": FLOAT * 64},
        phase="backward",
    ),
    Row(
        "mul-backward",
        learned(torch.mul, (3, 5), (3, 5)),
        (),
        "g b and g a: 1 mul each; reads four tensors, writes two",
        {"mul": 30, "read": FLOAT * 60, "written": FLOAT * 30},
        phase="backward",
    ),
]
