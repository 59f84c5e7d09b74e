"""Transforms and linear algebra beyond single products."""

from __future__ import annotations

import torch

from costcore import Tensor

from .modules import function
from .row import COMPLEX, FLOAT, Row

ROWS = [
    Row(
        "fft",
        function(torch.fft.fft),
        Tensor((2, 8), "complex64"),
        "radix 2, n = 8: 4·3 butterflies, a complex product (4 mul, 2 add) and two sums (4 add) each: 48 mul, 72 add; "
        "twice",
        {"mul": 96, "add": 144, "read": COMPLEX * 16, "written": COMPLEX * 16},
    ),
    Row(
        "fft2",
        function(torch.fft.fft2),
        Tensor((4, 4), "complex64"),
        "4 + 4 transforms of 4: 2·2 butterflies of 4 mul, 6 add",
        {"mul": 128, "add": 192, "read": COMPLEX * 16, "written": COMPLEX * 16},
    ),
    Row(
        "rfft",
        function(torch.fft.rfft),
        (2, 8),
        "half the operations of a complex transform: 24 mul, 36 add; twice. Reads 8 real, writes 5 complex",
        {"mul": 48, "add": 72, "read": FLOAT * 16, "written": COMPLEX * 10},
    ),
    Row(
        "cholesky",
        function(torch.linalg.cholesky),
        (4, 4),
        "l_ij = (a_ij − Σ_k<j l_ik l_jk) / l_jj: Σ_i Σ_j≤i j = 0 + 1 + 3 + 6 = 10 fma, 6 div, 4 square roots. One "
        "triangle is needed, 10; writes 16",
        {"fma": 10, "div": 6, "special": 4, "read": FLOAT * 10, "written": FLOAT * 16},
    ),
    Row(
        "solve_triangular",
        function(lambda a, b: torch.linalg.solve_triangular(a, b, upper=False)),
        ((4, 4), (4, 2)),
        "per right-hand side 0 + 1 + 2 + 3 fma and 4 div; one triangle is needed, 10, and 8; writes 8",
        {"fma": 12, "div": 8, "read": FLOAT * 18, "written": FLOAT * 8},
    ),
    Row(
        "matrix_power-3",
        function(lambda a: torch.linalg.matrix_power(a, 3)),
        (4, 4),
        "two products of 4 by 4: 16 outputs, 1 mul, 3 fma each; a tensor given as both operands is two operands",
        {"mul": 32, "fma": 96, "macs": 128, "read": FLOAT * 64, "written": FLOAT * 32},
    ),
    Row(
        "multi_dot",
        function(lambda a, b, c: torch.linalg.multi_dot([a, b, c])),
        ((2, 3), (3, 4), (4, 2)),
        "the cheaper order, a (b c): 24 + 12 macs; b c: 6 outputs of 4 (1 mul, 3 fma); then 4 of 3 (1 mul, 2 fma). As "
        "executed: reads 12 + 8, then 6 + 6; writes 6, then 4",
        {"mul": 10, "fma": 26, "macs": 36, "read": FLOAT * 32, "written": FLOAT * 10},
    ),
    Row(
        "kron",
        function(torch.kron),
        ((2, 2), (3, 3)),
        "36 products, no index is contracted: no macs",
        {"mul": 36, "read": FLOAT * 13, "written": FLOAT * 36},
    ),
    Row(
        "tensordot",
        function(lambda a, b: torch.tensordot(a, b, 2)),
        ((2, 3, 4), (3, 4, 5)),
        "10 outputs, contraction of 12: 1 mul, 11 fma; reads 24 + 60",
        {"mul": 10, "fma": 110, "macs": 120, "read": FLOAT * 84, "written": FLOAT * 10},
    ),
    Row(
        "inner",
        function(torch.inner),
        ((3, 4), (5, 4)),
        "15 dot products of 4",
        {"mul": 15, "fma": 45, "macs": 60, "read": FLOAT * 32, "written": FLOAT * 15},
    ),
    Row(
        "ifft",
        function(torch.fft.ifft),
        Tensor((2, 8), "complex64"),
        "as fft, and each of 16 numbers times 1/n: 2 mul",
        {"mul": 96 + 32, "add": 144, "read": COMPLEX * 16, "written": COMPLEX * 16},
    ),
]
