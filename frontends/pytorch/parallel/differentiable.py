"""Collectives with gradients, on tensors that are there when they return."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def shared(x: Tensor, group: Any) -> Tensor:
    """Return what all processes of a group read: its gradients are added."""
    return _Shared.apply(x, group)


def added(x: Tensor, group: Any) -> Tensor:
    """Return the sum of the results of all processes of a group, whose gradient each of them receives."""
    return _Added.apply(x, group)


def gathered(x: Tensor, group: Any) -> Tensor:
    """Return the parts of all processes of a group, joined along the first axis; gradients are added and divided."""
    return _Gathered.apply(x, group)


def exchanged(x: Tensor, group: Any) -> Tensor:
    """Return equal parts of the first axis from all processes of a group, to each of which one of its own is sent."""
    return _Exchanged.apply(x, group)


class _Shared(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any) -> Tensor:
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _sum(gradient, ctx.group), None


class _Added(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any) -> Tensor:
        return _sum(x, group)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


class _Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any) -> Tensor:
        ctx.group = group
        made = x.new_empty((x.shape[0] * group.size(), *x.shape[1:]))
        _collective("all_gather_single", "all_gather_into_tensor")(made, x.contiguous(), group=group)
        return made

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        made = gradient.new_empty((gradient.shape[0] // ctx.group.size(), *gradient.shape[1:]))
        _collective("reduce_scatter_single", "reduce_scatter_tensor")(made, gradient.contiguous(), group=ctx.group)
        return made, None


class _Exchanged(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any) -> Tensor:
        ctx.group = group
        return _exchange(x, group)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _exchange(gradient, ctx.group), None


def _collective(name: str, older: str) -> Any:
    """Return a collective, which had another name before PyTorch 2.13."""
    return getattr(torch.distributed, name, None) or getattr(torch.distributed, older)


def _sum(x: Tensor, group: Any) -> Tensor:
    made = x.clone(memory_format=torch.contiguous_format)
    torch.distributed.all_reduce(made, group=group)
    return made


def _exchange(x: Tensor, group: Any) -> Tensor:
    made = torch.empty_like(x, memory_format=torch.contiguous_format)
    torch.distributed.all_to_all_single(made, x.contiguous(), group=group)
    return made
