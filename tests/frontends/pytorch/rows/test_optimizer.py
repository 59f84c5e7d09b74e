"""Rows of fused optimizer steps."""

from __future__ import annotations

import pytest
import torch

from costcore.counting.pricing import Pricer
from costcore.ir import Operations
from costcore.registry.calculators import calculators
from tests.frontends.pytorch.rows.recorded_costs import leaf
from tests.frontends.pytorch.runs import record


@pytest.mark.parametrize(
    ("make", "flops", "moments"),
    [
        (lambda p: torch.optim.SGD(p, 0.1, fused=True), Operations(fma=1), 0),
        (lambda p: torch.optim.SGD(p, 0.1, 0.9, fused=True), Operations(fma=2), 1),
        (lambda p: torch.optim.SGD(p, 0.1, 0.9, nesterov=True, fused=True), Operations(fma=3), 1),
        (lambda p: torch.optim.Adam(p, fused=True), Operations(fma=2, mul=4, add=2, div=1, special=1), 2),
        (lambda p: torch.optim.AdamW(p, fused=True), Operations(fma=2, mul=5, add=2, div=1, special=1), 2),
        (
            lambda p: torch.optim.Adam(p, amsgrad=True, fused=True),
            Operations(fma=2, mul=4, add=2, div=1, cmp=1, special=1),
            3,
        ),
        (lambda p: torch.optim.Adagrad(p, fused=True), Operations(fma=1, mul=1, add=2, div=1, special=1), 1),
    ],
)
def test_fused_steps(make, flops, moments):
    parameters = [leaf(2, 3), leaf(4)]
    optimizer = make(parameters)
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    pricer = Pricer(calculators())
    steps = [pricer(c).cost for c in record(optimizer.step).calls if c.native.startswith("aten::_fused")]
    assert [step.flops for step in steps] == [10 * flops]
    assert [(step.mread, step.mwrite) for step in steps] == [(40 * (2 + moments), 40 * (1 + moments))]
