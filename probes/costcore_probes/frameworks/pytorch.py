"""What PyTorch probes are built of: ``torch``, ``nn``, ``F``, and short names for inputs and functions."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it
from torch import nn

__all__ = [
    *(
        "F",
        "Fn",
        "autocast",
        "freeze",
        "frozen_first",
        "ids",
        "lazy",
        "network",
        "nn",
        "repeated",
        "scaled_conv",
        "torch",
    ),
    *("unrolled", "x"),
]


class Fn(nn.Module):
    """A module with these children and parameters, whose forward pass calls ``function(self, *inputs)``."""

    def __init__(self, function: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, nn.Parameter(part) if type(part) is torch.Tensor else part)

    def forward(self, *inputs: Any) -> Any:
        """Call the function."""
        return self.function(self, *inputs)


def x(*shape: int, **options: Any) -> torch.Tensor:
    """Return ones: values do not matter."""
    return torch.ones(shape, **options)


def ids(*shape: int, below: int = 2) -> torch.Tensor:
    """Return indices that count up from 0 and start again at ``below``."""
    return (torch.arange(torch.Size(shape).numel()) % below).view(shape)


def freeze(module: nn.Module) -> nn.Module:
    """Return the module, whose parameters now need no gradient."""
    return module.requires_grad_(False)


def network(name: str) -> Any:
    """Return a module of ``costcore_probes.networks``."""
    return import_module(f"..networks.{name}", __package__)


def lazy(module: nn.Module, *shape: int) -> nn.Module:
    """Return a lazy module after it has seen an input of this shape."""
    module(x(*shape))
    return module


def scaled_conv(*arguments: int) -> nn.Module:
    """Return a convolution without bias of a class of its own, which multiplies its weight by a half."""

    class ScaledConv(nn.Conv2d):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return F.conv2d(input, 0.5 * self.weight)

    return ScaledConv(*arguments, bias=False)


def unrolled(cell: nn.Module) -> Fn:
    """Return a module that runs a cell over the steps of its first input, from the state of the second."""

    def forward(self: Fn, steps: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        for step in steps:
            state = self.cell(step, state)
        return state

    return Fn(forward, cell=cell)


def repeated(layer: nn.Module, times: int) -> Fn:
    """Return a module that applies a layer several times in a loop."""

    def forward(self: Fn, value: torch.Tensor) -> torch.Tensor:
        for _ in range(times):
            value = self.layer(value)
        return value

    return Fn(forward, layer=layer)


def frozen_first(network: nn.Sequential) -> nn.Sequential:
    """Return the network, whose first layer now needs no gradient."""
    freeze(network[0])
    return network


def autocast(layer: nn.Module) -> Fn:
    """Return a module that runs a layer under autocast of the CPU."""

    def forward(self: Fn, value: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu"):
            return self.layer(value)

    return Fn(forward, layer=layer)
