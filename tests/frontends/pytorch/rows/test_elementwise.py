"""Rows of elementwise operators, with costs worked out by hand."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from costcore.ir import Operations
from tests.frontends.pytorch.rows.recorded_costs import costs
from tests.frontends.pytorch.runs import record

A, B, INDEX = torch.ones(2, 3), torch.ones(4), torch.tensor([0, 1])


@pytest.mark.parametrize(
    ("run", "native", "expected"),
    [
        (lambda: A**2, "pow", Operations(mul=6)),
        (lambda: A**3.0, "pow", Operations(mul=12)),
        (lambda: A**0.5, "pow", Operations(special=6)),
        (lambda: 2**A, "pow", Operations(special=6)),
        (lambda: torch._foreach_pow([A, B], 2), "_foreach_pow", Operations(mul=10)),
        (lambda: torch._foreach_pow([A, B], [3, 0.5]), "_foreach_pow", Operations(mul=12, special=4)),
        (lambda: torch._foreach_pow([A, B], [A, B]), "_foreach_pow", Operations(special=10)),
        (lambda: torch._foreach_pow(2.0, [A, B]), "_foreach_pow", Operations(special=10)),
        (lambda: torch.linalg.vector_norm(A, 3), "linalg_vector_norm", Operations(mul=12, add=6 + 5, special=1)),
        (lambda: torch.topk(B, 2), "topk", Operations(cmp=4 * 2)),
        (lambda: torch.kthvalue(B, 1), "kthvalue", Operations(cmp=4)),
        (lambda: torch.median(B), "median", Operations(cmp=4 * 2)),  # the 2nd of 4
        (lambda: torch.median(A, 1), "median", Operations(cmp=2 * 3 * 2)),  # the 2nd of 3
        (
            lambda: functional.kl_div(A, A, reduction="sum"),
            "kl_div",
            Operations(fma=5, mul=1, add=6, special=6),
        ),
        (lambda: torch.div(A, A, rounding_mode="floor"), "div", Operations(div=6, cmp=6)),
        (lambda: torch.div(A, A, rounding_mode="trunc"), "div", Operations(div=6, cmp=6)),
        (lambda: A // 2, "floor_divide", Operations(div=6, cmp=6)),
        (lambda: torch._foreach_addcdiv([A], [A], [A], [0.5]), "_foreach_addcdiv", Operations(fma=6, div=6)),
        (lambda: torch._foreach_addcdiv([A], [A], [A], [1.0]), "_foreach_addcdiv", Operations(add=6, div=6)),
        (lambda: torch._foreach_addcmul([A], [A], [A], torch.ones(1)), "_foreach_addcmul", Operations(fma=6, mul=6)),
        (lambda: A.index_add(0, INDEX, A), "index_add", Operations(add=6)),
        (lambda: A.index_add(0, INDEX, A, alpha=2), "index_add", Operations(fma=6)),
        # 2 rows of 3: 2 * 3 add and 3 + 1 special each, weighted 1 mul and 1 fma, 1 add for the weights, 1 div
        (
            lambda: functional.cross_entropy(A, INDEX, torch.ones(3)),
            "cross_entropy_loss",
            Operations(fma=1, mul=1, add=12 + 1, special=8, div=1),
        ),
    ],
)
def test_a_call_costs_what_its_definition_does(run, native, expected):
    ((_, cost),) = costs(record(run), native)
    assert cost.flops == expected


def rotate_complex(x, angles):
    turned = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2)) * torch.polar(torch.ones_like(angles), angles)
    return torch.view_as_real(turned).flatten(-2)


def rotate_pairs(x, angles):
    x0, x1 = x[..., ::2], x[..., 1::2]
    cos, sin = angles.cos(), angles.sin()
    return torch.stack([x0 * cos - x1 * sin, x0 * sin + x1 * cos], -1).flatten(-2)


@pytest.mark.parametrize("rotate", [rotate_complex, rotate_pairs])
def test_rotary_embeddings_cost_alike_in_complex_and_in_real_numbers(rotate):
    """12 pairs: each 4 mul and 2 add; cosines and sines are not counted here."""
    x, angles = torch.rand(4, 6), torch.rand(4, 3)
    torch.testing.assert_close(rotate_complex(x, angles), rotate_pairs(x, angles))
    recorder = record(lambda: rotate(x, angles))
    flops = [cost.flops for name in ("mul", "add", "sub") for _, cost in costs(recorder, name)]
    assert sum(flops, Operations()) == Operations(mul=12 * 4, add=12 * 2)
