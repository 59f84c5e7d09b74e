"""Gradients that PyTorch computes by other formulas inside a dispatch mode: peaks are those of a run without one.

The judge is the allocator of the CPU in a run without a capture, to within 128 bytes.
"""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional

from costcore import ComputationalCostHook, estimate
from tests.frontends.pytorch.memory.profiler import Run, profiled_peaks

SIZE = 64

CAN_LEAVE_THE_MODE = hasattr(torch.library.Library, "fallback")
"""PyTorch 2.4 cannot run a node of autograd without the mode; the report of such a run says so."""


def indices(like, *shape):
    return torch.arange(torch.Size(shape).numel(), device=like.device).reshape(shape) % SIZE


OPERATORS = {
    "prod": lambda x: x.prod(),
    "prod of an axis": lambda x: x.prod(1),
    "prod of a kept axis": lambda x: x.prod(-1, keepdim=True),
    "cumprod": lambda x: x.cumprod(1),
    "max": lambda x: x.max(),
    "max of an axis": lambda x: x.max(1).values,
    "min": lambda x: x.min(),
    "min of an axis": lambda x: x.min(0).values,
    "median": lambda x: x.median(),
    "median of an axis": lambda x: x.median(1).values,
    "nanmedian": lambda x: x.nanmedian(),
    "kthvalue": lambda x: x.kthvalue(3, 1).values,
    "mode": lambda x: x.mode(1).values,
    "topk": lambda x: x.topk(5).values,
    "sort": lambda x: x.sort(1).values,
    "stable sort": lambda x: x.sort(dim=1, stable=True).values,
    "quantile": lambda x: x.quantile(0.5, 1),
    "cummax": lambda x: x.cummax(1).values,
    "cummin": lambda x: x.cummin(0).values,
    "index": lambda x: x[indices(x, 40)],
    "index by a list": lambda x: x[:, [0, 1, 5]],
    "index_select": lambda x: x.index_select(0, indices(x, 40)),
    "gather": lambda x: x.gather(0, indices(x, 20, SIZE)),
    "take": lambda x: x.take(indices(x, 20, SIZE)),
    "atan2": lambda x: torch.atan2(x, x + 1),
    "trace": lambda x: x.trace(),
    "clamp between tensors": lambda x: x.clamp(x - 1, x + 1),
    "binary cross entropy": lambda x: functional.binary_cross_entropy(x.sigmoid(), torch.ones_like(x)),
    "with logits": lambda x: functional.binary_cross_entropy_with_logits(x, torch.ones_like(x)),
    "repeat_interleave": lambda x: x.repeat_interleave(2, 0),
    "amax": lambda x: x.amax(1),
    "norm": lambda x: x.norm(dim=1),
    "logsumexp": lambda x: x.logsumexp(1),
}


class Scaled(nn.Module):
    """The operator, behind a product whose gradient everything else needs."""

    def __init__(self, function) -> None:
        super().__init__()
        self.function, self.weight = function, nn.Parameter(torch.rand(SIZE, SIZE) + 0.1)

    def forward(self, x):
        return self.function(self.weight * x)


def training_pass(model, x):
    """Run a training pass; its caller holds the result and the loss."""
    result = model(x)
    loss = result.sum()
    loss.backward()
    return result, loss


def measured(model, x):
    """Return the peak of a training pass, the model and its input included."""
    run = partial(training_pass, model, x)
    peak = profiled_peaks({"pass": Run(run, lambda: model.zero_grad(set_to_none=True))})["pass"]
    return peak + model.weight.nbytes + x.nbytes


@pytest.mark.skipif(not CAN_LEAVE_THE_MODE, reason="PyTorch 2.4 computes them by the other formulas")
@pytest.mark.parametrize("name", OPERATORS)
def test_peaks_are_those_of_a_run_without_a_capture(name):
    model, x = Scaled(OPERATORS[name]), torch.rand(SIZE, SIZE)
    peak = measured(model, x)
    model.zero_grad(set_to_none=True)
    with ComputationalCostHook(memory=True) as cch:
        training_pass(model, x)
    assert abs(cch.report.memory.peak - peak) <= 128
    assert abs(estimate(model, (SIZE, SIZE), backward=True, memory=True).memory.peak - peak) <= 128
    report = estimate(model, (SIZE, SIZE), loss=torch.sum)
    totals = [{key: each.total_report[key] for key in ("flops", "mread", "mwrite")} for each in (cch.report, report)]
    assert totals[0] == totals[1]


@pytest.mark.skipif(not CAN_LEAVE_THE_MODE, reason="PyTorch 2.4 computes them by the other formulas")
def test_gradients_are_those_of_a_run_without_a_capture():
    for function in OPERATORS.values():
        model, x = Scaled(function), torch.rand(SIZE, SIZE)
        model(x).sum().backward()
        expected, model.weight.grad = model.weight.grad, None
        with ComputationalCostHook():
            model(x).sum().backward()
        assert torch.equal(model.weight.grad, expected)


def test_a_formula_that_stays_another_is_stated():
    report = estimate(Scaled(torch.linalg.matrix_exp), (SIZE, SIZE), loss=torch.sum, memory=True)
    assert not report.memory.is_exact
