"""Steps of optimizers on 15 parameters, counted by the operators that they run; the states are made in the first "
"step."""

from __future__ import annotations

import torch

from .modules import function
from .row import FLOAT, Row

P = (3, 5)
N = 15


def step(name, make, why, expected):
    """Return the row of the first step of an optimizer of one parameter."""

    def run(values, gradient):
        parameter = torch.nn.Parameter(values)
        parameter.grad = gradient
        make([parameter]).step()

    return Row(name, function(run), (P, P), why, expected, phase="optimizer")


ROWS = [
    step(
        "sgd",
        lambda p: torch.optim.SGD(p, lr=0.1, foreach=False),
        "p − lr g: 1 fma; reads p and g",
        {"fma": N, "read": FLOAT * 2 * N, "written": FLOAT * N},
    ),
    step(
        "sgd-foreach",
        lambda p: torch.optim.SGD(p, lr=0.1, foreach=True),
        "the same in one call",
        {"fma": N, "read": FLOAT * 2 * N, "written": FLOAT * N},
    ),
    step(
        "sgd-weight-decay",
        lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.01, foreach=False),
        "g + λ p, then p − lr g: 2 fma; reads two tensors and writes one, twice",
        {"fma": 2 * N, "read": FLOAT * 4 * N, "written": FLOAT * 2 * N},
    ),
    step(
        "sgd-momentum",
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=False),
        "the first step copies g into the buffer: reads and writes 15; then p − lr buffer: 1 fma",
        {"fma": N, "read": FLOAT * 3 * N, "written": FLOAT * 2 * N},
    ),
    step(
        "adam",
        lambda p: torch.optim.Adam(p, foreach=False),
        "two states of zeros: written 30. step + 1: 1 add, 4 bytes. m.lerp_(g): 1 mul, 2 add, reads 2. v.mul_: 1 mul, "
        "1. v.addcmul_(g, g, 1 − β): 1 mul, 1 fma, 3. sqrt 1 special, 1. / constant 1 div, 1. + eps 1 add, 1. "
        "p.addcdiv_(m, …, −lr): 1 div, 1 fma, 3. Each of these seven writes 15",
        {
            "fma": 2 * N,
            "mul": 3 * N,
            "add": 3 * N + 1,
            "div": 2 * N,
            "special": N,
            "read": FLOAT * (12 * N + 1),
            "written": FLOAT * (9 * N + 1),
        },
    ),
    step(
        "adamw-foreach",
        lambda p: torch.optim.AdamW(p, foreach=True),
        "as adam, and p · (1 − lr λ): 1 mul, reads and writes 15; on CPU the steps add a tensor of one element, 4 "
        "bytes more",
        {
            "fma": 2 * N,
            "mul": 4 * N,
            "add": 3 * N + 1,
            "div": 2 * N,
            "special": N,
            "read": FLOAT * (13 * N + 2),
            "written": FLOAT * (10 * N + 1),
        },
    ),
    step(
        "rmsprop",
        lambda p: torch.optim.RMSprop(p, foreach=False),
        "a state and the step of zeros: written 15 + 1. step + 1. v.mul_ 1 mul, reads 1. v.addcmul_(g, g, 1 − α) 1 "
        "mul, 1 fma, 3. sqrt 1 special, 1. + eps 1 add, 1. p.addcdiv_(g, …, −lr) 1 div, 1 fma, 3. Each of the five "
        "writes 15",
        {
            "fma": 2 * N,
            "mul": 2 * N,
            "add": N + 1,
            "div": N,
            "special": N,
            "read": FLOAT * (9 * N + 1),
            "written": FLOAT * (6 * N + 2),
        },
    ),
    step(
        "adagrad",
        lambda p: torch.optim.Adagrad(p, foreach=False),
        "the state exists before the step. step + 1. s.addcmul_(g, g) 1 fma, reads 3. sqrt 1 special, 1. + eps 1 add, "
        "1. p.addcdiv_(g, …, −lr) 1 div, 1 fma, 3. Each of the four writes 15",
        {
            "fma": 2 * N,
            "add": N + 1,
            "div": N,
            "special": N,
            "read": FLOAT * (8 * N + 1),
            "written": FLOAT * (4 * N + 1),
        },
    ),
    Row(
        "foreach_add-alpha",
        function(lambda a, b: torch._foreach_add([a], [b], alpha=2)),
        (P, P),
        "a + 2 b: 1 fma",
        {"fma": N, "read": FLOAT * 2 * N, "written": FLOAT * N},
    ),
    Row(
        "foreach_addcmul-values",
        function(lambda x, a, b: torch._foreach_addcmul([x], [a], [b], [0.5])),
        (P, P, P),
        "x + 0.5 a b, a value per tensor: 1 mul, 1 fma",
        {"fma": N, "mul": N, "read": FLOAT * 3 * N, "written": FLOAT * N},
    ),
    Row(
        "foreach_addcdiv-values",
        function(lambda x, a, b: torch._foreach_addcdiv([x], [a], [b], [0.5])),
        (P, P, P),
        "x + 0.5 (a / b), a value per tensor: 1 div, 1 fma",
        {"fma": N, "div": N, "read": FLOAT * 3 * N, "written": FLOAT * N},
    ),
    Row(
        "foreach_addcdiv-value",
        function(lambda x, a, b: torch._foreach_addcdiv([x], [a], [b], value=0.5)),
        (P, P, P),
        "x + 0.5 (a / b): 1 div, 1 fma",
        {"fma": N, "div": N, "read": FLOAT * 3 * N, "written": FLOAT * N},
    ),
    Row(
        "foreach_lerp",
        function(lambda a, b: torch._foreach_lerp([a], [b], 0.3)),
        (P, P),
        "a + w (b − a): 2 add, 1 mul, no fma by rule",
        {"add": 2 * N, "mul": N, "read": FLOAT * 2 * N, "written": FLOAT * N},
    ),
    Row(
        "foreach_norm",
        function(lambda a, b: torch._foreach_norm([a, b])),
        (P, (4,)),
        "1 mul, 14 fma and 1 mul, 3 fma; two square roots; writes two norms",
        {"mul": 2, "fma": 17, "special": 2, "read": FLOAT * 19, "written": FLOAT * 2},
    ),
]
