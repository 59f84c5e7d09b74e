"""Rows of fused optimizer steps."""

from __future__ import annotations

import pytest
import torch

from costcore.ir import Operations
from tests.frontends.pytorch.rows.recorded_costs import leaf
from tests.frontends.pytorch.runs import record
from tests.registered import price


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
    steps = [price(c).cost for c in record(optimizer.step).calls if c.native.startswith("aten::_fused")]
    assert [step.flops for step in steps] == [10 * flops]
    assert [(step.mread, step.mwrite) for step in steps] == [(40 * (2 + moments), 40 * (1 + moments))]


@pytest.mark.parametrize("fused", [False, True])
def test_every_operator_of_a_gradient_scaler_is_priced(fused):
    model = torch.nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, fused=fused)
    scaler = torch.amp.GradScaler("cpu")

    def step():
        scaler.scale(model(torch.ones(5, 8)).sum()).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()

    calls = record(step).calls
    assert all(price(call).cost is not None for call in calls)
    unscale, update = (
        next(price(call).cost for call in calls if call.operator == f"aten::_amp_{name}")
        for name in ("foreach_non_finite_check_and_unscale", "update_scale")
    )
    assert unscale.flops == 36 * Operations(mul=1, cmp=1)
    assert (update.flops, update.mread, update.mwrite) == (Operations(mul=1, add=1, cmp=3), 12, 8)
