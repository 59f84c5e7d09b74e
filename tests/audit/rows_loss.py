"""Losses; x[3, 5] and a target of the same shape in float32 unless a row says otherwise."""

from __future__ import annotations

import torch
from torch.nn import functional as fn

from costcore import Tensor

from .modules import function, learned
from .row import FLOAT, INT, Row

X = (3, 5)
N = 3 * 5
LABELS = Tensor((4,), "int64")

ROWS = [
    Row(
        "mse_loss",
        function(fn.mse_loss),
        (X, X),
        "n = 15: differences 15 add; squares accumulated 1 mul, 14 fma; 1 div",
        {"fma": 14, "mul": 1, "add": 15, "div": 1, "read": FLOAT * 30, "written": FLOAT},
    ),
    Row(
        "mse_loss-none",
        function(lambda x, t: fn.mse_loss(x, t, reduction="none")),
        (X, X),
        "difference and square: 1 add, 1 mul each",
        {"mul": 15, "add": 15, "read": FLOAT * 30, "written": FLOAT * 15},
    ),
    Row(
        "l1_loss",
        function(fn.l1_loss),
        (X, X),
        "x − t, |…|: 2 add each; 14 add to sum; 1 div",
        {"add": 44, "div": 1, "read": FLOAT * 30, "written": FLOAT},
    ),
    Row(
        "binary_cross_entropy",
        function(fn.binary_cross_entropy),
        (X, X),
        "−(y log x + (1 − y) log(1 − x)), as documented: 2 log, 1 − x, 1 − y, sum, negate 4 add, 2 mul; 14 add; 1 div",
        {"mul": 30, "add": 74, "div": 1, "special": 30, "read": FLOAT * 30, "written": FLOAT},
    ),
    Row(
        "binary_cross_entropy_with_logits",
        function(fn.binary_cross_entropy_with_logits),
        (X, X),
        "−(y log σ(x) + (1 − y) log(1 − σ(x))), as documented: σ 2 add, 1 div, 1 special; 2 log; 1 − σ, 1 − y, sum, "
        "negate 4 add; 2 mul; then 14 add, 1 div",
        {"mul": 30, "add": 104, "div": 16, "special": 45, "read": FLOAT * 30, "written": FLOAT},
    ),
    Row(
        "cross_entropy",
        function(fn.cross_entropy),
        ((4, 5), LABELS),
        "4 rows of c = 5: log_softmax 2c − 1 add, c + 1 special; negate 1 add; mean 3 add, 1 div. Reads 20 and 4 "
        "labels",
        {"add": 4 * 10 + 3, "div": 1, "special": 24, "read": FLOAT * 20 + INT * 4, "written": FLOAT},
    ),
    Row(
        "nll_loss",
        function(fn.nll_loss),
        ((4, 5), LABELS),
        "picks 4 elements and reads these alone, with 4 labels: 4 negations, 3 add, 1 div",
        {"add": 7, "div": 1, "read": FLOAT * 4 + INT * 4, "written": FLOAT},
    ),
    Row(
        "kl_div",
        function(lambda x, t: fn.kl_div(x, t, reduction="sum")),
        (X, X),
        "Σ t (log t − x): 15 log, 15 add; the products accumulate: 1 mul, 14 fma",
        {"fma": 14, "mul": 1, "add": 15, "special": 15, "read": FLOAT * 30, "written": FLOAT},
    ),
    Row(
        "kl_div-none",
        function(lambda x, t: fn.kl_div(x, t, reduction="none")),
        (X, X),
        "t (log t − x): 1 log, 1 add, 1 mul",
        {"mul": 15, "add": 15, "special": 15, "read": FLOAT * 30, "written": FLOAT * 15},
    ),
    Row(
        "kl_div-log_target",
        function(lambda x, t: fn.kl_div(x, t, reduction="sum", log_target=True)),
        (X, X),
        "Σ exp(t) (t − x): 15 exp, 15 add; 1 mul, 14 fma",
        {"fma": 14, "mul": 1, "add": 15, "special": 15, "read": FLOAT * 30, "written": FLOAT},
    ),
    Row(
        "mse_loss-backward",
        learned(lambda x, t: fn.mse_loss(x, t), X),
        (X,),
        "the mean's derivative g/n: 1 div, once; the square's 2 (x − t), times it: 1 add, 2 mul each; reads the "
        "scalar g, x, t",
        {"mul": 30, "add": 15, "div": 1, "read": FLOAT * 31, "written": FLOAT * 15},
        phase="backward",
    ),
    Row(
        "smooth_l1_loss",
        function(fn.smooth_l1_loss),
        (X, X),
        "d = x − t; d² · ½/β where |d| < β, else |d| − ½β, both computed: 3 add, 2 mul, 1 cmp; then 14 add, 1 div",
        {"mul": 30, "add": 59, "cmp": 15, "div": 1, "read": FLOAT * 30, "written": FLOAT},
    ),
    Row(
        "huber_loss",
        function(fn.huber_loss),
        (X, X),
        "d² · ½ where |d| ≤ δ, else δ (|d| − ½δ), both computed: 3 add, 3 mul, 1 cmp; then 14 add, 1 div",
        {"mul": 45, "add": 59, "cmp": 15, "div": 1, "read": FLOAT * 30, "written": FLOAT},
    ),
    Row(
        "cross_entropy-probabilities",
        function(fn.cross_entropy),
        ((4, 5), (4, 5)),
        "−Σ t log_softmax(x): 9 add, 6 special a row; dot product 1 mul, 4 fma; negate; mean 3 add, 1 div",
        {"fma": 16, "mul": 4, "add": 43, "div": 1, "special": 24, "read": FLOAT * 40, "written": FLOAT},
    ),
    Row(
        "nll_loss-2d",
        function(fn.nll_loss),
        ((2, 3, 4), Tensor((2, 4), "int64")),
        "8 elements picked: 8 negations, 7 add, 1 div; reads 8 elements and 8 labels",
        {"add": 15, "div": 1, "read": FLOAT * 8 + INT * 8, "written": FLOAT},
    ),
    Row(
        "cross_entropy-sum",
        function(lambda x, t: fn.cross_entropy(x, t, reduction="sum")),
        ((4, 5), LABELS),
        "as the mean, without its division",
        {"add": 43, "special": 24, "read": FLOAT * 20 + INT * 4, "written": FLOAT},
    ),
    Row(
        "cross_entropy-none",
        function(lambda x, t: fn.cross_entropy(x, t, reduction="none")),
        ((4, 5), LABELS),
        "4 rows: 9 add, 6 special, negate",
        {"add": 40, "special": 24, "read": FLOAT * 20 + INT * 4, "written": FLOAT * 4},
    ),
    Row(
        "cross_entropy-weights",
        function(lambda x, t, w: fn.cross_entropy(x, t, w)),
        ((4, 5), LABELS, (5,)),
        "log_softmax 9 add, 6 special a row; negate 4; Σ w l over the rows 1 mul, 3 fma; Σ w 3 add; 1 div. Reads 20, "
        "the 4 weights picked, 4 labels",
        {"fma": 3, "mul": 1, "add": 43, "div": 1, "special": 24, "read": FLOAT * 24 + INT * 4, "written": FLOAT},
    ),
    Row(
        "kl_div-mean",
        function(lambda x, t: torch.kl_div(x, t, reduction=1)),  # fn.kl_div warns about "mean"
        (X, X),
        "as the sum, and 1 div",
        {"fma": 14, "mul": 1, "add": 15, "div": 1, "special": 15, "read": FLOAT * 30, "written": FLOAT},
    ),
    Row(
        "mse_loss-sum",
        function(lambda x, t: fn.mse_loss(x, t, reduction="sum")),
        (X, X),
        "differences 15 add; squares accumulated 1 mul, 14 fma",
        {"fma": 14, "mul": 1, "add": 15, "read": FLOAT * 30, "written": FLOAT},
    ),
    Row(
        "soft_margin_loss",
        function(fn.soft_margin_loss),
        (X, X),
        "Σ log(1 + exp(−t x)) / n: 1 mul, negate, exp, 1 +, log: 2 add, 2 special; then 14 add, 1 div",
        {"mul": 15, "add": 44, "div": 1, "special": 30, "read": FLOAT * 30, "written": FLOAT},
    ),
    Row(
        "nll_loss-weights",
        function(lambda x, t, w: fn.nll_loss(x, t, w)),
        ((4, 5), LABELS, (5,)),
        "4 negations; Σ w l 1 mul, 3 fma; Σ w 3 add; 1 div. Reads 4 elements, 4 weights, 4 labels",
        {"fma": 3, "mul": 1, "add": 7, "div": 1, "read": FLOAT * 8 + INT * 4, "written": FLOAT},
    ),
]
