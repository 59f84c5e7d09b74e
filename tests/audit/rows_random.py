"""Random numbers, dropout and fills: random bits and index arithmetic are no operations."""

from __future__ import annotations

import torch
from torch.nn import functional as fn

from .modules import function, learned
from .row import FLOAT, INT, Row

X = (3, 5)


def made(name, call, written, why):
    """Return the row of an operator that makes a tensor of that many bytes from nothing."""
    return Row(name, function(lambda x: call(x.device)), (1,), why, {"written": written})


ROWS = [
    made("zeros", lambda d: torch.zeros(3, 5, device=d), FLOAT * 15, "a fill writes 15"),
    made("full", lambda d: torch.full((3, 5), 2.0, device=d), FLOAT * 15, "a fill writes 15"),
    made("arange", lambda d: torch.arange(10, device=d), INT * 10, "index arithmetic; int64"),
    made("eye", lambda d: torch.eye(4, device=d), FLOAT * 16, "a fill writes 16"),
    made("rand", lambda d: torch.rand(3, 5, device=d), FLOAT * 15, "random bits are 0 operations"),
    made("randint", lambda d: torch.randint(9, (3, 5), device=d), INT * 15, "random bits are 0 operations; int64"),
    Row("zeros_like", function(torch.zeros_like), X, "reads nothing, writes 15", {"written": FLOAT * 15}),
    Row(
        "bernoulli",
        function(torch.bernoulli),
        X,
        "a random number below p: 1 cmp; reads the probabilities",
        {"cmp": 15, "read": FLOAT * 15, "written": FLOAT * 15},
    ),
    Row("dropout-inference", function(lambda x: fn.dropout(x, 0.5, False)), X, "an identity", {}),
    Row(
        "dropout-training",
        function(lambda x: fn.dropout(x, 0.5, True)),
        X,
        "1 cmp, 1 mul each; the mask of bools is written",
        {"mul": 15, "cmp": 15, "read": FLOAT * 15, "written": FLOAT * 15 + 15},
    ),
    Row(
        "dropout-training-with-gradient",
        learned(lambda x: fn.dropout(x, 0.5, True), X),
        (),
        "1 cmp, 1 mul each; the mask is written in the type that the backward reads, float32",
        {"mul": 15, "cmp": 15, "read": FLOAT * 15, "written": FLOAT * 30},
        backward=True,
    ),
    Row(
        "dropout-backward",
        learned(lambda x: fn.dropout(x, 0.5, True), X),
        (),
        "PyTorch multiplies g by a mask of float32 that holds the scale: 1 mul; reads both",
        {"mul": 15, "read": FLOAT * 30, "written": FLOAT * 15},
        phase="backward",
    ),
    Row(
        "fake_quantize",
        function(lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 255)),
        lambda: (torch.ones(X),),
        "(min(b, max(a, round(x / s) + z)) − z) · s: 1 div, 1 cmp to round, 1 add, 2 cmp, 1 add, 1 mul. No gradient, "
        "so no mask is written",
        {"mul": 15, "div": 15, "add": 30, "cmp": 45, "read": FLOAT * 15, "written": FLOAT * 15},
        runs=True,
        only="fake_quantize",
    ),
    Row(
        "fake_quantize-per-channel",
        function(lambda x, s, z: torch.fake_quantize_per_channel_affine(x, s, z, 0, 0, 255)),
        lambda: (torch.ones(X), torch.ones(3), torch.zeros(3, dtype=torch.int32)),
        "(min(b, max(a, round(x / s) + z)) − z) · s: 1 div, 1 cmp to round, 1 add, 2 cmp, 1 add, 1 mul; reads x, 3 "
        "scales and 3 zero points of int32",
        {"mul": 15, "add": 30, "div": 15, "cmp": 45, "read": FLOAT * 18 + 4 * 3, "written": FLOAT * 15},
        runs=True,
        only="fake_quantize",
    ),
]
