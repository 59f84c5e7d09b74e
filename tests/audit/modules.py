"""The smallest PyTorch modules around one call: of a function, and of a function of learned tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class Function(torch.nn.Module):
    """Calls ``function`` on the inputs."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


class Learned(torch.nn.Module):
    """Calls ``function`` on parameters of the given shapes, then the inputs: these parameters get gradients."""

    def __init__(self, function: Callable[..., Any], *shapes: tuple[int, ...]) -> None:
        super().__init__()
        self.function = function
        self.learned = torch.nn.ParameterList([torch.nn.Parameter(torch.zeros(shape)) for shape in shapes])

    def forward(self, *inputs: Any) -> Any:
        return self.function(*self.learned, *inputs)


def function(call: Callable[..., Any]) -> Callable[[], torch.nn.Module]:
    """Return a maker of a module that calls a function."""
    return lambda: Function(call)


def learned(call: Callable[..., Any], *shapes: tuple[int, ...]) -> Callable[[], torch.nn.Module]:
    """Return a maker of a module that calls a function on learned tensors."""
    return lambda: Learned(call, *shapes)
