"""Experts of a mixture, divided over processes: each holds some of them, or a part of the width of each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, Parameter

from costcore.errors import CostError

from ..checkpointing import wrap_forward
from .differentiable import added, exchanged, shared

DISPATCHED = "ep_dispatch_experts"
"""The style, in an attribute ``ep_plan`` of a model, of modules whose experts are divided over processes."""

SPLIT = "moe_tp_experts"
"""The style, in ``tp_plan``, of modules of experts that are each divided over processes."""

_AXES = {"packed_colwise": -2, "colwise": -2, "rowwise": -1}
"""The axis of a weight of experts, ``(experts, outputs, inputs)``, that a style of ``tp_plan`` divides."""


def experts_of(model: Module) -> dict[str, Module]:
    """Return the modules of experts of a model by name, as its attribute ``ep_plan`` states them.

    A module of experts is called with rows ``(rows, width)``, the experts of each row ``(rows, k)`` and their weights
    ``(rows, k)``, returns rows, and has an attribute ``num_experts``, the first dimension of all of its parameters.
    """
    stated = getattr(model, "ep_plan", None) or {}
    return dict(matching(model, (name for name, style in stated.items() if style == DISPATCHED)))


def divide_experts(model: Module, mesh: Any) -> None:
    """Leave each process along a dimension of a mesh its part of the experts, and exchange rows before and after them.

    Every expert is taken to receive the same number of rows.

    Args:
        model: the copy of a model.
        mesh: a mesh of one dimension.

    Raises:
        CostError: if the model states no experts, or their number is not a multiple of the number of processes.
    """
    if DISPATCHED not in (getattr(model, "ep_plan", None) or {}).values():
        raise CostError(
            f'{type(model).__name__} states no experts to divide, an attribute ep_plan with the style "{DISPATCHED}"'
        )
    n = mesh.size()
    for name, module in experts_of(model).items():
        if module.num_experts % n:
            raise CostError(f"{module.num_experts} experts of {name} cannot be divided over {n} processes")
        for key, parameter in module.named_parameters(recurse=False):
            _divide(module, key, parameter, 0, n)
        module.num_experts //= n
        wrap_forward(module, partial(_exchanged, mesh.get_group(), module.num_experts))


def split_experts(model: Module, mesh: Any) -> None:
    """Leave each process along a dimension of a mesh a part of the width of every expert, whose results are added.

    Args:
        model: the copy of a model.
        mesh: a mesh of one dimension.

    Raises:
        CostError: if a width is not a multiple of the number of processes.
    """
    stated: Mapping[str, str] = model.tp_plan
    for pattern in (name for name, style in stated.items() if style == SPLIT):
        for _, module in matching(model, [pattern]):
            for key, parameter in module.named_parameters(recurse=False):
                axis = _AXES.get(stated.get(f"{pattern}.{key}", ""))
                if axis is not None:
                    swapped = parameter.dim() > 2 and getattr(module, "is_transposed", False)
                    axis = -3 - axis if swapped else max(axis, -parameter.dim() + 1)
                    _divide(module, key, parameter, axis, mesh.size())
            wrap_forward(module, partial(_added, mesh.get_group()))


def _divide(module: Module, name: str, parameter: Parameter, axis: int, n: int) -> None:
    size = [*parameter.shape]
    if size[axis] % n:
        raise CostError(f"{name} of {type(module).__name__} of {size[axis]} cannot be divided over {n} processes")
    size[axis] //= n
    setattr(module, name, Parameter(parameter.new_empty(size), parameter.requires_grad))


def _exchanged(
    group: Any, n_experts: int, forward: Callable[..., Tensor], x: Tensor, index: Tensor, weights: Tensor
) -> Tensor:
    """Send each row to the processes of its experts with its weights, run the local experts, and add what returns."""
    k = index.shape[-1]
    rows = x.unsqueeze(1).expand(-1, k, -1).reshape(-1, x.shape[-1])
    rows, scales = (_all_to_all(value, group) for value in (rows, weights.reshape(-1, 1)))
    here = (torch.arange(rows.shape[0], device=x.device) % n_experts).unsqueeze(1)
    made = _all_to_all(forward(rows, here, scales), group)
    return made.view(-1, k, made.shape[-1]).sum(1)


def _all_to_all(rows: Tensor, group: Any) -> Tensor:
    if rows.shape[0] % group.size():
        raise CostError(f"{rows.shape[0]} rows of experts cannot be divided evenly over {group.size()} processes")
    return exchanged(rows, group)


def _added(group: Any, forward: Callable[..., Tensor], x: Tensor, index: Tensor, weights: Tensor) -> Tensor:
    """Run a part of each expert, and add the parts of all processes; the gradients of what they read are added too."""
    return added(forward(shared(x, group), index, shared(weights, group)), group)


def matching(model: Module, patterns: Iterable[str]) -> Iterator[tuple[str, Module]]:
    """Yield the modules whose whole name matches one of the patterns, in which ``*`` is one part of a name."""
    forms = [re.compile(re.escape(pattern).replace(r"\*", r"[^.]+")) for pattern in patterns]
    for name, module in model.named_modules():
        if any(form.fullmatch(name) for form in forms):
            yield name, module
