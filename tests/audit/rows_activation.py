"""Activation functions, forward and backward; x[3, 5] in float32 unless a row says otherwise."""

from __future__ import annotations

import torch
from torch.nn import functional as fn

from .modules import function, learned
from .row import FLOAT, Row

X = (3, 5)
N = 3 * 5
ONCE = {"read": FLOAT * N, "written": FLOAT * N}  # x read, y written


def forward(name, call, why, **kinds):
    """Return the row of a function of one tensor, with the operations of one element."""
    return Row(name, function(call), X, why, {kind: count * N for kind, count in kinds.items()} | ONCE)


def backward(name, call, why, **kinds):
    """Return the row of a derivative: the gradient and one saved tensor are read, the gradient of x is written."""
    cost = {kind: count * N for kind, count in kinds.items()}
    bytes_ = {"read": FLOAT * 2 * N, "written": FLOAT * N}
    return Row(name, learned(call, X), (), why, cost | bytes_, phase="backward")


ROWS = [
    forward("relu", fn.relu, "max(0, x): 1 cmp", cmp=1),
    forward("leaky_relu", fn.leaky_relu, "a x, max: 1 mul, 1 cmp", mul=1, cmp=1),
    Row(
        "prelu",
        function(fn.prelu),
        ((2, 3, 4), (3,)),
        "x 24 elements, one slope for each of 3 channels: 1 mul, 1 cmp each; reads 24 + 3 elements",
        {"mul": 24, "cmp": 24, "read": FLOAT * (24 + 3), "written": FLOAT * 24},
    ),
    forward("sigmoid", fn.sigmoid, "-x, exp, 1 +, 1 /", add=2, div=1, special=1),
    forward("tanh", torch.tanh, "1 special", special=1),
    forward("silu", fn.silu, "sigmoid (2 add, 1 div, 1 special), times x", mul=1, add=2, div=1, special=1),
    forward("gelu", fn.gelu, "x/2 (1 + erf(x/√2)): 3 mul, 1 add, 1 erf", mul=3, add=1, special=1),
    forward(
        "gelu-tanh",
        lambda x: fn.gelu(x, approximate="tanh"),
        "x³ 2 mul, ·0.044715, + x, ·√(2/π), tanh, 1 +, ·x, ·½: 6 mul, 2 add, 1 tanh",
        mul=6,
        add=2,
        special=1,
    ),
    forward("softplus", fn.softplus, "log(1 + exp x)", add=1, special=2),
    forward(
        "softplus-beta",
        lambda x: fn.softplus(x, beta=2.0),
        "log(1 + exp(βx)) · (1/β), 1/β being a constant: 2 mul, 1 add, 2 special",
        mul=2,
        add=1,
        special=2,
    ),
    forward("mish", fn.mish, "x tanh(log(1 + exp x))", mul=1, add=1, special=3),
    forward("hardsigmoid", fn.hardsigmoid, "x/6 + 1/2, two bounds", mul=1, add=1, cmp=2),
    forward("hardswish", fn.hardswish, "x hardsigmoid(x)", mul=2, add=1, cmp=2),
    forward("elu", fn.elu, "a (exp x − 1), select", mul=1, add=1, cmp=1, special=1),
    forward("selu", fn.selu, "scale · elu", mul=2, add=1, cmp=1, special=1),
    forward(
        "celu",
        lambda x: fn.celu(x, 2.0),
        "as ELU a select, x or α (exp(x / α) − 1): 1 cmp, 1 add, 1 mul, 1 div, 1 exp",
        mul=1,
        div=1,
        add=1,
        cmp=1,
        special=1,
    ),
    Row(
        "softsign",
        function(fn.softsign),
        X,
        "Python in PyTorch: abs, + 1, x / (…). Three operators: 2 add, 1 div; reads x, |x|, then x and 1 + |x|; "
        "writes three",
        {"add": 2 * N, "div": N, "read": FLOAT * 4 * N, "written": FLOAT * 3 * N},
    ),
    Row(
        "tanhshrink",
        function(fn.tanhshrink),
        X,
        "Python in PyTorch: tanh, then x − tanh x. Reads x, then two tensors; writes two",
        {"special": N, "add": N, "read": FLOAT * 3 * N, "written": FLOAT * 2 * N},
    ),
    forward("relu6", fn.relu6, "max, min", cmp=2),
    forward("hardtanh", fn.hardtanh, "max, min", cmp=2),
    forward("clamp-min", lambda x: x.clamp(min=0.5), "one bound", cmp=1),
    forward("threshold", lambda x: fn.threshold(x, 0.5, 0.0), "x if x > t else v: one select", cmp=1),
    forward("hardshrink", fn.hardshrink, "x > λ, x < −λ", cmp=2),
    forward(
        "softshrink",
        fn.softshrink,
        "x − λ where x > λ, x + λ where x < −λ: as in ELU, each branch is computed: 2 add, 2 cmp",
        add=2,
        cmp=2,
    ),
    forward(
        "logsigmoid",
        fn.logsigmoid,
        "log(1 / (1 + exp(−x))), as documented: −x, exp, 1 +, 1 /, log",
        add=2,
        div=1,
        special=2,
    ),
    Row(
        "glu",
        function(fn.glu),
        (3, 6),
        "a · sigmoid(b) of two halves, 9 outputs: 1 mul + sigmoid (2 add, 1 div, 1 special); reads both halves",
        {"mul": 9, "add": 18, "div": 9, "special": 9, "read": FLOAT * 18, "written": FLOAT * 9},
    ),
    Row(
        "softmax",
        function(lambda x: fn.softmax(x, 1)),
        X,
        "3 rows of c = 5: c exp, c − 1 add, c div",
        {"add": 3 * 4, "div": N, "special": N} | ONCE,
    ),
    Row(
        "log_softmax",
        function(lambda x: fn.log_softmax(x, 1)),
        X,
        "3 rows of c = 5: exp c, sum c − 1, log 1, subtract c: 2c − 1 add, c + 1 special",
        {"add": 3 * 9, "special": 3 * 6} | ONCE,
    ),
    Row(
        "relu-bfloat16",
        function(fn.relu),
        X,
        "1 cmp; an element has 2 bytes",
        {"cmp": N, "read": 2 * N, "written": 2 * N},
        options={"dtype": "bfloat16"},
    ),
    backward("relu-backward", fn.relu, "g where y > 0: one select; reads g and y", cmp=1),
    backward("sigmoid-backward", torch.sigmoid, "g (1 − y) y: 2 mul, 1 add; reads g and y", mul=2, add=1),
    backward(
        "tanh-backward", torch.tanh, "g (1 − y²): 2 mul, 1 add, composite, so no fma; reads g and y", mul=2, add=1
    ),
    backward("leaky_relu-backward", fn.leaky_relu, "g · (1 or a): one select, 1 mul; reads g and x", mul=1, cmp=1),
    backward(
        "silu-backward",
        fn.silu,
        "g s (1 + x (1 − s)), s the sigmoid (2 add, 1 div, 1 special): 3 mul, 2 + 2 add; reads g and x",
        mul=3,
        add=4,
        div=1,
        special=1,
    ),
    backward(
        "gelu-backward",
        fn.gelu,
        "g (Φ + x φ). Φ = ½ (1 + erf(x/√2)): 2 mul, 1 add, 1 erf. φ = exp(−x²/2)/√(2π): x², ·(−½), exp, ·const: 3 "
        "mul, 1 special. x φ, + Φ, · g: 2 mul, 1 add",
        mul=7,
        add=2,
        special=2,
    ),
    Row(
        "softmax-backward",
        learned(lambda x: fn.softmax(x, 1), X),
        (),
        "y (g − Σ g y) per row of c = 5: dot product 1 mul, c − 1 fma; c add; c mul. Three rows; reads g and y",
        {"fma": 3 * 4, "mul": 3 * 6, "add": N, "read": FLOAT * 2 * N, "written": FLOAT * N},
        phase="backward",
    ),
    Row(
        "log_softmax-backward",
        learned(lambda x: fn.log_softmax(x, 1), X),
        (),
        "g − exp(y) Σ g per row of c = 5: c − 1 add; c exp; the product added to the operand g: c fma. Reads g and y",
        {"fma": N, "add": 3 * 4, "special": N, "read": FLOAT * 2 * N, "written": FLOAT * N},
        phase="backward",
    ),
    Row(
        "softmax-one-column",
        function(lambda x: fn.softmax(x, 1)),
        (3, 1),
        "3 rows of c = 1: 1 exp, no add, 1 div",
        {"div": 3, "special": 3, "read": FLOAT * 3, "written": FLOAT * 3},
    ),
    Row("relu-empty", function(fn.relu), (0, 5), "an empty tensor costs nothing", {}),
    backward("hardtanh-backward", fn.hardtanh, "g between the bounds: 2 cmp; reads g and x", cmp=2),
    backward("elu-backward", fn.elu, "g or g α exp x: 1 cmp, 2 mul, 1 exp; reads g and x", mul=2, cmp=1, special=1),
    backward(
        "hardsigmoid-backward", fn.hardsigmoid, "g/6 between two bounds: 2 cmp, 1 mul; reads g and x", mul=1, cmp=2
    ),
    backward(
        "hardswish-backward",
        fn.hardswish,
        "0, g, or g (x/3 + 1/2) between two bounds: 2 cmp, 2 mul, 1 add; reads g and x",
        mul=2,
        add=1,
        cmp=2,
    ),
    Row(
        "mish-backward",
        learned(fn.mish, X),
        (),
        "one operator: reads g and x, writes the gradient of x; algebra leaves a choice of its operations",
        {"read": FLOAT * 2 * N, "written": FLOAT * N},
        phase="backward",
        compare=("read", "written"),
    ),
    Row(
        "prelu-one-slope",
        function(fn.prelu),
        ((2, 3, 4), (1,)),
        "1 mul, 1 cmp for each of 24; reads 24 and one slope",
        {"mul": 24, "cmp": 24, "read": FLOAT * 25, "written": FLOAT * 24},
    ),
    Row(
        "softmax-expanded",
        function(lambda x: fn.softmax(x.expand(3, 5), 1)),
        (1, 5),
        "3 rows of 5, of a view of 5 stored elements",
        {"add": 3 * 4, "div": N, "special": N, "read": FLOAT * 5, "written": FLOAT * N},
    ),
    Row(
        "rrelu-training-with-gradient",
        learned(lambda x: fn.rrelu(x, training=True), X),
        (),
        "a x with a random slope, select: 1 mul, 1 cmp; the slopes, which the backward reads, are written too",
        {"mul": N, "cmp": N, "read": FLOAT * N, "written": FLOAT * 2 * N},
        backward=True,
    ),
]
