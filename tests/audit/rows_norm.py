"""Normalization: inference, training and backward."""

from __future__ import annotations

import torch
from torch.nn import functional as fn

from .modules import function, learned
from .row import FLOAT, Row

# layer_norm, per row of c elements: mean c − 1 add, 1 div; variance c add, 1 mul, c − 1 fma, 1 div;
# + eps, sqrt, 1/; c mul; scale and shift c fma. Here 6 rows of c = 8, so |x| = 48.
ROW_C8 = {"fma": 6 * (2 * 8 - 1), "mul": 6 * (8 + 1), "add": 6 * 2 * 8, "div": 6 * 3, "special": 6}

# Backward, per row of c: x̂ = (x − mean)·rstd: c add, c mul; g w: c mul; Σ g w: c − 1 add; Σ g w x̂: 1 mul, c − 1 fma;
# two divisions by c; g w − mean: c add; − x̂·mean: c fma (a norm's correction); ·rstd: c mul.
BACK_C8 = {"fma": 6 * (2 * 8 - 1), "mul": 6 * (3 * 8 + 1), "add": 6 * (3 * 8 - 1), "div": 6 * 2}


def batch_norm_module(**options):
    """Return a maker of a batch normalization of 3 channels."""
    return lambda: torch.nn.BatchNorm1d(3, **options)


def plus(cost, **more):
    """Return ``cost`` with more operations of some kinds."""
    return {kind: cost.get(kind, 0) + more.get(kind, 0) for kind in cost | more}


ROWS = [
    Row(
        "layer_norm",
        function(lambda x, w, b: fn.layer_norm(x, (8,), w, b)),
        ((6, 8), (8,), (8,)),
        "6 rows of c = 8: fma 2c − 1 = 15, mul c + 1 = 9, add 2c = 16, div 3, special 1; reads 48 + 8 + 8",
        ROW_C8 | {"read": FLOAT * 64, "written": FLOAT * 48},
    ),
    Row(
        "layer_norm-plain",
        function(lambda x: fn.layer_norm(x, (8,))),
        (6, 8),
        "without scale and shift c fewer fma: 7 a row; nothing else is read",
        ROW_C8 | {"fma": 6 * 7, "read": FLOAT * 48, "written": FLOAT * 48},
    ),
    Row(
        "layer_norm-no-shift",
        function(lambda x, w: fn.layer_norm(x, (8,), w)),
        ((6, 8), (8,)),
        "scale alone is a product, not an fma: fma 7, mul 9 + 8 a row; reads 48 + 8",
        ROW_C8 | {"fma": 6 * 7, "mul": 6 * 17, "read": FLOAT * 56, "written": FLOAT * 48},
    ),
    Row(
        "group_norm",
        function(lambda x, w, b: fn.group_norm(x, 3, w, b)),
        ((2, 6, 4), (6,), (6,)),
        "layer_norm over groups of 2 · 4 = 8 elements, 2 · 3 = 6 of them; reads 48 + 6 + 6",
        ROW_C8 | {"read": FLOAT * 60, "written": FLOAT * 48},
    ),
    Row(
        "instance_norm",
        function(lambda x, w, b: fn.instance_norm(x, weight=w, bias=b)),
        ((2, 3, 8), (3,), (3,)),
        "layer_norm over 8 elements of 2 · 3 = 6 channels; reads 48 + 3 + 3",
        ROW_C8 | {"read": FLOAT * 54, "written": FLOAT * 48},
    ),
    Row(
        "rms_norm",
        function(lambda x, w: fn.rms_norm(x, (8,), w)),
        ((6, 8), (8,)),
        "per row: squares 1 mul, c − 1 fma; mean 1 div; + eps; sqrt; 1/; x· c mul; w· c mul: fma 7, mul 17, add 1, "
        "div 2, special 1; reads 48 + 8",
        {"fma": 42, "mul": 102, "add": 6, "div": 12, "special": 6, "read": FLOAT * 56, "written": FLOAT * 48},
    ),
    Row(
        "rms_norm-plain",
        function(lambda x: fn.rms_norm(x, (8,))),
        (6, 8),
        "without w c fewer mul: 9 a row",
        {"fma": 42, "mul": 54, "add": 6, "div": 12, "special": 6, "read": FLOAT * 48, "written": FLOAT * 48},
    ),
    Row(
        "batch_norm-inference",
        lambda: torch.nn.BatchNorm1d(3).eval(),
        (4, 3, 5),
        "the folded scale and shift: 1 fma for each of 60 elements; reads 60 + 2 · 3, as in chainer-computational-cost",
        {"fma": 60, "read": FLOAT * 66, "written": FLOAT * 60},
    ),
    Row(
        "batch_norm-training",
        function(lambda x, w, b, mean, var: fn.batch_norm(x, mean, var, w, b, training=True)),
        ((4, 3, 5), (3,), (3,), (3,), (3,)),
        "3 channels of m = 20: fma 2m + 2 = 42, mul 5, add 2m = 40, div 3, special 1. Reads x 60, w, b and the two "
        "running statistics, 3 each; writes y 60 and the running statistics 6; no gradient, so nothing is saved for "
        "one",
        {"fma": 126, "mul": 15, "add": 120, "div": 9, "special": 3, "read": FLOAT * 72, "written": FLOAT * 66},
    ),
    Row(
        "batch_norm-training-with-gradient",
        learned(lambda x, w, b, mean, var: fn.batch_norm(x, mean, var, w, b, training=True), (4, 3, 5), (3,), (3,)),
        ((3,), (3,)),
        "as without a gradient, and the saved mean and 1/σ, 3 each, which the backward reads, are written: 60 + 6 + 6",
        {"fma": 126, "mul": 15, "add": 120, "div": 9, "special": 3, "read": FLOAT * 72, "written": FLOAT * 72},
        backward=True,
    ),
    Row(
        "batch_norm-backward",
        learned(lambda x, w, b, mean, var: fn.batch_norm(x, mean, var, w, b, training=True), (4, 3, 5), (3,), (3,)),
        ((3,), (3,)),
        "per channel of m = 20: x̂ m add, m mul; gb m − 1 add; gw 1 mul, m − 1 fma; gb/m, gw/m 2 div; w/σ 1 mul; g − "
        "gb/m m add; − x̂ gw/m m fma; · m mul. fma 2m − 1 = 39, mul 2m + 2 = 42, add 3m − 1 = 59, div 2. Reads g 60, "
        "x 60, w 3, saved mean and 1/σ 6; writes gx 60, gw 3, gb 3",
        {"fma": 117, "mul": 126, "add": 177, "div": 6, "read": FLOAT * 129, "written": FLOAT * 66},
        phase="backward",
    ),
    Row(
        "layer_norm-with-gradient",
        learned(lambda x, w, b: fn.layer_norm(x, (8,), w, b), (6, 8), (8,), (8,)),
        (),
        "as without a gradient, and mean and 1/σ of 6 rows, which the backward reads, are written: 48 + 12",
        ROW_C8 | {"read": FLOAT * 64, "written": FLOAT * 60},
        backward=True,
    ),
    Row(
        "layer_norm-backward",
        learned(lambda x, w, b: fn.layer_norm(x, (8,), w, b), (6, 8), (8,), (8,)),
        (),
        "6 rows of c = 8: fma 15, mul 25, add 23, div 2 each. gw: 8 dot products over 6 rows, 1 mul, 5 fma; gb: 5 add "
        "each. Reads g 48, x 48, w 8, mean and 1/σ 12; writes 48 + 8 + 8",
        plus(BACK_C8, mul=8, fma=8 * 5, add=8 * 5) | {"read": FLOAT * 116, "written": FLOAT * 64},
        phase="backward",
    ),
    Row(
        "group_norm-with-gradient",
        learned(lambda x, w, b: fn.group_norm(x, 3, w, b), (2, 6, 4), (6,), (6,)),
        (),
        "as without a gradient, and mean and 1/σ of 6 groups, which the backward reads, are written: 48 + 12",
        ROW_C8 | {"read": FLOAT * 60, "written": FLOAT * 60},
        backward=True,
    ),
    Row(
        "group_norm-backward",
        learned(lambda x, w, b: fn.group_norm(x, 3, w, b), (2, 6, 4), (6,), (6,)),
        (),
        "6 groups of 8 as in layer_norm. gw: 6 channels, dot products of length 2 · 4 = 8, 1 mul, 7 fma; gb: 7 add. "
        "Reads g 48, x 48, w 6, mean and 1/σ of 6 groups 12; writes 48 + 6 + 6",
        plus(BACK_C8, mul=6, fma=6 * 7, add=6 * 7) | {"read": FLOAT * 114, "written": FLOAT * 60},
        phase="backward",
    ),
    Row(
        "rms_norm-backward",
        learned(lambda x, w: fn.rms_norm(x, (8,), w), (6, 8), (8,)),
        (),
        "PyTorch has no backward of its own on CPU; autograd runs the derivatives of x · r · w, r = rsqrt(mean(x²) + "
        "eps). By w: g x̂ 48 mul, 8 sums of 6 40 add; g w 48 mul. By r: (g w) x 48 mul, 6 sums of 8 42 add; −½ g r³: "
        "r³ 2 mul, and 2 mul, for 6 rows; /8 48 div, of an expanded view of 6; 2 x¹ g: x¹ 48 special, 48 + 48 mul. (g "
        "w) r 48 mul; sum of both 48 add. Reads (in elements) 96, 56, 48, 96, 54, 48, 6, 6, 12, 6, 48, 48, 96, 96; "
        "writes nine times 48, 8, 4 · 6",
        {
            "mul": 6 * 48 + 6 * 4,
            "add": 40 + 42 + 48,
            "div": 48,
            "special": 48,
            "read": FLOAT * (96 + 56 + 48 + 96 + 54 + 48 + 6 + 6 + 12 + 6 + 48 + 48 + 96 + 96),
            "written": FLOAT * (9 * 48 + 8 + 4 * 6),
        },
        phase="backward",
    ),
    Row(
        "batch_norm-inference-plain",
        lambda: torch.nn.BatchNorm1d(3, affine=False).eval(),
        (4, 3, 5),
        "(x − mean)/σ folded to a scale and a shift, too: 60 fma; reads 60 + 2 · 3",
        {"fma": 60, "read": FLOAT * 66, "written": FLOAT * 60},
    ),
    Row(
        "layer_norm-bfloat16",
        function(lambda x, w, b: fn.layer_norm(x, (8,), w, b)),
        ((6, 8), (8,), (8,)),
        "as layer_norm; 2 bytes per element",
        ROW_C8 | {"read": 2 * 64, "written": 2 * 48},
        options={"dtype": "bfloat16"},
    ),
    Row(
        "layer_norm-plain-backward",
        learned(lambda x: fn.layer_norm(x, (8,)), (6, 8)),
        (),
        "without w: c fewer mul a row, 17; no gradients of w and b. Reads g 48, x 48, mean and 1/σ 12; writes 48",
        BACK_C8 | {"mul": 6 * 17, "read": FLOAT * 108, "written": FLOAT * 48},
        phase="backward",
    ),
    Row(
        "layer_norm-two-axes",
        function(lambda x, w, b: fn.layer_norm(x, (3, 4), w, b)),
        ((2, 3, 4), (3, 4), (3, 4)),
        "2 rows of c = 12: fma 23, mul 13, add 24, div 3, special 1; reads 24 + 12 + 12",
        {"fma": 46, "mul": 26, "add": 48, "div": 6, "special": 2, "read": FLOAT * 48, "written": FLOAT * 24},
    ),
    Row(
        "layer_norm-expanded",
        function(lambda x, w, b: fn.layer_norm(x.expand(6, 8), (8,), w, b)),
        ((1, 8), (8,), (8,)),
        "6 rows of 8, of a view of 8 stored elements: reads 8 + 8 + 8",
        ROW_C8 | {"read": FLOAT * 24, "written": FLOAT * 48},
    ),
    Row(
        "batch_norm2d-inference",
        lambda: torch.nn.BatchNorm2d(3).eval(),
        (2, 3, 2, 2),
        "24 fma; reads 24 + 2 · 3",
        {"fma": 24, "read": FLOAT * 30, "written": FLOAT * 24},
    ),
    Row(
        "instance_norm-with-gradient",
        learned(lambda x, w, b: fn.instance_norm(x, weight=w, bias=b), (2, 3, 8), (3,), (3,)),
        (),
        "mean and 1/σ of 6 rows, which the backward reads, are written: 48 + 12",
        ROW_C8 | {"read": FLOAT * 54, "written": FLOAT * 60},
        backward=True,
    ),
    Row(
        "weight_norm-with-gradient",
        learned(lambda v, g: torch._weight_norm(v, g, 0), (4, 6), (4, 1)),
        (),
        "the 4 norms, which the backward reads, are written with the weight: 24 + 4",
        {"written": FLOAT * 28},
        backward=True,
        compare=("written",),
    ),
]
