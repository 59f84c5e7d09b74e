"""A training step or an inference in bfloat16: of the whole model, or of what autocast casts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, Parameter
from torch.optim import Optimizer

from costcore.messages import unknown

PRECISIONS = ("bfloat16", "autocast")
"""How a model runs in bfloat16: with its weights, and an optimizer that keeps them in float32 too, or by autocast."""


def check_precision(precision: object) -> None:
    """Check the option.

    Raises:
        ValueError: if it is not one of :data:`PRECISIONS`, nor None.
    """
    if precision is not None and precision not in PRECISIONS:
        raise ValueError(unknown("precision", precision, PRECISIONS))


def in_precision(model: Module, precision: str | None) -> None:
    """Convert the floating-point parameters and buffers of a copy of a model to bfloat16, if that is asked for."""
    if precision == "bfloat16":
        model.to(torch.bfloat16)


def half_floats(tensor: Tensor) -> Tensor:
    """Return an input of a model in bfloat16: of float32 or float64 in bfloat16, any other as it is."""
    if tensor.dtype not in (torch.float32, torch.float64):
        return tensor
    return tensor.detach().to(torch.bfloat16).requires_grad_(tensor.requires_grad)


def casts(precision: str | None) -> AbstractContextManager[Any]:
    """Return the context of a forward pass: that of autocast, if it is asked for."""
    return torch.autocast("cpu", torch.bfloat16) if precision == "autocast" else nullcontext()


class MasterWeights(Optimizer):
    """An optimizer that keeps float32 copies of weights, updates these, and rounds them to the weights.

    A step makes the float32 gradient of one weight after the other, or, for an optimizer that works on lists, of all of
    them, which are freed at its end (Micikevicius et al. 2018, arXiv:1710.03740, section 3.1).

    Args:
        parameters: the weights.
        make: makes the optimizer of the copies.
        one_by_one: whether it updates one after the other.
    """

    def __init__(
        self,
        parameters: Iterable[Parameter],
        make: Callable[[Iterable[Parameter]], Optimizer],
        one_by_one: bool = False,
    ) -> None:
        weights = [*parameters]
        super().__init__(weights, {})
        pairs = [(weight, Parameter(weight.detach().float())) for weight in weights]
        groups = [[pair] for pair in pairs] if one_by_one else [pairs]
        self._groups = [(group, make([master for _, master in group])) for group in groups]
        self._state()

    def step(self, closure: Callable[[], float] | None = None) -> None:
        """Run a step.

        Args:
            closure: not used.
        """
        with torch.no_grad():
            for pairs, optimizer in self._groups:
                for weight, master in pairs:
                    master.grad = None if weight.grad is None else weight.grad.float()
                optimizer.step()
                for weight, master in pairs:
                    master.grad = None
                    weight.copy_(master)
        self._state()

    def _state(self) -> None:
        """State the copies and the state of their optimizer as state of the weights."""
        for pairs, optimizer in self._groups:
            for weight, master in pairs:
                own: dict[str, Tensor] = optimizer.state.get(master, {})
                self.state[weight] = {"master": master.data, **own}
