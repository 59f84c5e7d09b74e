"""Element-wise arithmetic: constants, broadcasting, expanded views, complex numbers, powers."""

from __future__ import annotations

import torch

from costcore import Tensor

from .modules import function
from .row import COMPLEX, FLOAT, Row

X = (3, 5)
N = 3 * 5
Z = Tensor((3, 5), "complex64")


def row(name, call, why, inputs=X, read=N, written=N, **kinds):
    """Return the row of a function of float32 tensors, with the operations of one element of the output."""
    bytes_ = {"read": FLOAT * read, "written": FLOAT * written}
    return Row(name, function(call), inputs, why, {kind: count * N for kind, count in kinds.items()} | bytes_)


ROWS = [
    row("add", torch.add, "1 add each; reads two tensors", (X, X), read=2 * N, add=1),
    row(
        "add-broadcast",
        torch.add,
        "1 add each; reads 15 + 5: broadcasting is not materialized",
        (X, (5,)),
        read=20,
        add=1,
    ),
    row(
        "add-expanded",
        lambda a, b: a + b.expand(3, 5),
        "1 add each; the expanded view has 3 stored elements: reads 15 + 3, 72 bytes",
        (X, (3, 1)),
        read=N + 3,
        add=1,
    ),
    row(
        "mul-expanded-both",
        lambda a, b: a.expand(3, 5) * b.expand(3, 5),
        "1 mul each; two views of 5 and 3 stored elements",
        ((5,), (3, 1)),
        read=5 + 3,
        mul=1,
    ),
    row(
        "relu-expanded",
        lambda x: torch.relu(x.expand(3, 5)),
        "1 cmp for each of 15 elements, made from 3 stored ones",
        (3, 1),
        read=3,
        cmp=1,
    ),
    row(
        "add-expanded-unsqueezed",
        lambda a, b: a + b[:, None].expand(3, 5),
        "the view of a view of 3 stored elements: reads 15 + 3",
        (X, (3,)),
        read=N + 3,
        add=1,
    ),
    row(
        "add-alpha",
        lambda a, b: torch.add(a, b, alpha=2),
        "a + 2 b: the product is added: fma",
        (X, X),
        read=2 * N,
        fma=1,
    ),
    row("sub", torch.sub, "1 add", (X, X), read=2 * N, add=1),
    row("mul", torch.mul, "1 mul", (X, X), read=2 * N, mul=1),
    row("mul-scalar", lambda x: x * 2, "1 mul; the constant is not read", mul=1),
    row("div", torch.div, "1 div", (X, X), read=2 * N, div=1),
    row("neg", torch.neg, "1 add", add=1),
    row("abs", torch.abs, "1 add", add=1),
    row("exp", torch.exp, "1 special", special=1),
    row("sqrt", torch.sqrt, "1 special", special=1),
    row("rsqrt", torch.rsqrt, "square root and 1/: 1 special, 1 div", special=1, div=1),
    row("reciprocal", torch.reciprocal, "1 div", div=1),
    row("floor", torch.floor, "rounding is 1 cmp", cmp=1),
    row("pow-2", lambda x: x**2, "a constant exponent 2 is 1 mul", mul=1),
    row("pow-3", lambda x: x.pow(3), "a constant exponent 3 is 2 mul", mul=2),
    row("pow-0.7", lambda x: x**0.7, "any other power is 1 special", special=1),
    row(
        "pow-tensor", torch.pow, "the exponent is a tensor: 1 special; reads two tensors", (X, X), read=2 * N, special=1
    ),
    row("square", torch.square, "x x: 1 mul", mul=1),
    row("maximum", torch.maximum, "1 cmp", (X, X), read=2 * N, cmp=1),
    row(
        "lerp",
        lambda a, b: torch.lerp(a, b, 0.3),
        "a + w (b − a): 2 add, 1 mul, no fma by rule",
        (X, X),
        read=2 * N,
        mul=1,
        add=2,
    ),
    row("addcmul", torch.addcmul, "x + a b: 1 fma; reads three tensors", (X, X, X), read=3 * N, fma=1),
    row(
        "addcmul-value",
        lambda x, a, b: torch.addcmul(x, a, b, value=0.5),
        "x + 0.5 a b: 1 mul, and the product that is added, 1 fma",
        (X, X, X),
        read=3 * N,
        mul=1,
        fma=1,
    ),
    row("addcdiv", torch.addcdiv, "x + a / b: 1 div, 1 add", (X, X, X), read=3 * N, div=1, add=1),
    row(
        "addcdiv-value",
        lambda x, a, b: torch.addcdiv(x, a, b, value=0.5),
        "x + 0.5 (a / b): 1 div, and a product that is added, 1 fma",
        (X, X, X),
        read=3 * N,
        div=1,
        fma=1,
    ),
    Row(
        "add-in-place",
        function(lambda a, b: a.clone().add_(b)),
        (X, X),
        "in place costs what out of place costs: reads two tensors, writes one, 1 add each",
        {"add": N, "read": FLOAT * 2 * N, "written": FLOAT * N},
        only="add",
    ),
    Row(
        "gt",
        function(torch.gt),
        (X, X),
        "1 cmp each; bool outputs of 1 byte",
        {"cmp": N, "read": FLOAT * 2 * N, "written": N},
    ),
    Row(
        "where",
        function(torch.where),
        (Tensor(X, "bool"), X, X),
        "1 select each; reads 15 bools of 1 byte and two tensors",
        {"cmp": N, "read": N + FLOAT * 2 * N, "written": FLOAT * N},
    ),
    Row(
        "add-int64",
        function(torch.add),
        (Tensor(X, "int64"), Tensor(X, "int64")),
        "arithmetic counts whatever the type: 1 add each; 8 bytes per element",
        {"add": N, "read": 8 * 2 * N, "written": 8 * N},
    ),
    Row(
        "cast",
        function(lambda x: x.to(torch.float16)),
        X,
        "a cast is 0 operations; reads 4, writes 2 bytes per element",
        {"read": FLOAT * N, "written": 2 * N},
    ),
    # Complex numbers count the real operations of their definition; an element of complex64 has 8 bytes.
    Row(
        "complex-add",
        function(torch.add),
        (Z, Z),
        "a sum is 2 add",
        {"add": 2 * N, "read": COMPLEX * 2 * N, "written": COMPLEX * N},
    ),
    Row(
        "complex-mul",
        function(torch.mul),
        (Z, Z),
        "a product is 4 mul, 2 add",
        {"mul": 4 * N, "add": 2 * N, "read": COMPLEX * 2 * N, "written": COMPLEX * N},
    ),
    Row(
        "complex-square",
        function(lambda z: z * z),
        Z,
        "a product is 4 mul, 2 add; a tensor given twice is two operands",
        {"mul": 4 * N, "add": 2 * N, "read": COMPLEX * 2 * N, "written": COMPLEX * N},
    ),
    Row(
        "complex-mul-real",
        function(torch.mul),
        (Z, X),
        "(a + bi) c, c real: by its definition 2 mul",
        {"mul": 2 * N, "read": (COMPLEX + FLOAT) * N, "written": COMPLEX * N},
    ),
    Row(
        "complex-neg",
        function(torch.neg),
        Z,
        "both parts: 2 add",
        {"add": 2 * N, "read": COMPLEX * N, "written": COMPLEX * N},
    ),
    Row(
        "complex-div",
        function(torch.div),
        (Z, Z),
        "(ac + bd)/(c² + d²) + i (bc − ad)/(c² + d²): 6 mul, 3 add, 2 div",
        {"mul": 6 * N, "add": 3 * N, "div": 2 * N, "read": COMPLEX * 2 * N, "written": COMPLEX * N},
    ),
    Row(
        "complex-abs",
        function(torch.abs),
        Z,
        "√(a² + b²), element-wise, so no fma: 2 mul, 1 add, 1 special; the result is real",
        {"mul": 2 * N, "add": N, "special": N, "read": COMPLEX * N, "written": FLOAT * N},
    ),
    Row(
        "complex-exp",
        function(torch.exp),
        Z,
        "eᵃ (cos b + i sin b): 3 special, 2 mul",
        {"mul": 2 * N, "special": 3 * N, "read": COMPLEX * N, "written": COMPLEX * N},
    ),
    Row(
        "complex-rotation",
        function(lambda x, r: torch.view_as_real(torch.view_as_complex(x) * r)),
        ((2, 6, 2), Tensor((6,), "complex64")),
        "rotary embedding: 12 complex products of 4 mul and 2 add, 72 in all; views cost nothing; reads 12 + 6 complex",
        {"mul": 48, "add": 24, "read": COMPLEX * 18, "written": COMPLEX * 12},
    ),
    Row(
        "complex-sum",
        function(lambda z: z.sum(1)),
        Z,
        "3 sums of 5: 4 complex sums of 2 add each",
        {"add": 3 * 4 * 2, "read": COMPLEX * N, "written": COMPLEX * 3},
    ),
    Row(
        "complex-matmul",
        function(torch.matmul),
        (Tensor((2, 3), "complex64"), Tensor((3, 4), "complex64")),
        "8 outputs, each 3 complex products of 4 macs: 96 macs. The real and the imaginary part are dot products of "
        "length 6: "
        "1 mul, 5 fma each. 16 mul, 80 fma",
        {"mul": 16, "fma": 80, "macs": 96, "read": COMPLEX * (6 + 12), "written": COMPLEX * 8},
    ),
]
