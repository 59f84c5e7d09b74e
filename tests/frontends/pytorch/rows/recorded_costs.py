"""Costs of the recorded calls of an operator."""

from __future__ import annotations

import torch

from tests.frontends.pytorch.runs import record
from tests.registered import price


def costs(recorder, native):
    """Return the layer and the cost of every call of an ``aten`` operator."""
    return [(call.layer, price(call).cost) for call in recorder.calls if call.native == f"aten::{native}"]


def trained(run, *inputs):
    """Record a forward and a backward pass."""

    def train():
        result = run(*inputs)
        torch.autograd.backward(result, torch.ones_like(result))

    return record(train)


def leaf(*shape, **options):
    """Return a tensor that requires gradients."""
    return torch.full(shape, 0.5, requires_grad=True, **options)
