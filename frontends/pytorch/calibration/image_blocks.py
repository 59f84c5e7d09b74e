"""Blocks of networks for images, in which the sweep measures operators among others, as they run in a network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

Activation = Callable[[], nn.Module]


class Residual(nn.Module):
    """A block whose input is added to its output, if their shapes are equal."""

    def __init__(self, *layers: nn.Module, after: nn.Module | None = None) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)
        self.after = nn.Identity() if after is None else after

    def forward(self, x: Tensor) -> Any:
        """Run the block."""
        y = self.layers(x)
        return self.after(x + y if x.shape == y.shape else y)


class SqueezeExcite(nn.Module):
    """Scale channels by a gate of their means."""

    def __init__(self, channels: int, act: Activation) -> None:
        super().__init__()
        inner = max(8, channels // 4)
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, inner, 1), act(), nn.Conv2d(inner, channels, 1), nn.Sigmoid()
        )

    def forward(self, x: Tensor) -> Tensor:
        """Run the block."""
        return x * self.gate(x)


class Dense(nn.Module):
    """A block of DenseNet: its output is appended to its input."""

    def __init__(self, channels: int, growth: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.BatchNorm2d(channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(channels, 4 * growth, 1, bias=False),
            nn.BatchNorm2d(4 * growth),
            nn.ReLU(inplace=True),
            nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Run the block."""
        return torch.cat([x, self.layers(x)], 1)


class Shuffle(nn.Module):
    """A block of ShuffleNet: half of the channels pass, then channels are shuffled."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        half = channels // 2
        self.layers = nn.Sequential(
            *conv_norm(half, half, 1, nn.ReLU),
            nn.Conv2d(half, half, 3, padding=1, groups=half, bias=False),
            nn.BatchNorm2d(half),
            *conv_norm(half, half, 1, nn.ReLU),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Run the block."""
        a, b = x.chunk(2, dim=1)
        y = torch.cat([a, self.layers(b)], 1)
        n, c, h, w = y.shape
        return y.view(n, 2, c // 2, h, w).transpose(1, 2).contiguous().view(n, c, h, w)


class Fire(nn.Module):
    """The second part of a block of SqueezeNet: two convolutions whose results are joined."""

    def __init__(self, channels: int, out: int) -> None:
        super().__init__()
        self.one, self.three = nn.Conv2d(channels, out, 1), nn.Conv2d(channels, out, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """Run the block."""
        return torch.cat([torch.relu_(self.one(x)), torch.relu_(self.three(x))], 1)


class ConvNext(nn.Module):
    """A block of ConvNeXt: depthwise convolution, then a perceptron on the last axis."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels)
        self.inner, self.outer = nn.Linear(channels, 4 * channels), nn.Linear(4 * channels, channels)
        self.scale = nn.Parameter(torch.ones(channels, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Run the block."""
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.outer(functional.gelu(self.inner(y))).permute(0, 3, 1, 2)
        return x + self.scale * y


class Upsample(nn.Module):
    """A step of a decoder: the map is interpolated, joined with an earlier one, and convolved."""

    def __init__(self, channels: int, mode: str) -> None:
        super().__init__()
        self.mode = mode
        groups = 8 if channels % 8 == 0 else 1
        self.layers = nn.Sequential(
            nn.Conv2d(2 * channels, channels, 3, padding=1), nn.GroupNorm(groups, channels), nn.SiLU()
        )

    def forward(self, x: Tensor, earlier: Tensor) -> Any:
        """Run the block."""
        y = functional.interpolate(x, scale_factor=2.0, mode=self.mode)
        return self.layers(torch.cat([y, earlier], 1))


class UpsampleVolume(nn.Module):
    """A step of a decoder for volumes: the map is enlarged, joined with an earlier one, and convolved."""

    def __init__(self, channels: int, mode: str) -> None:
        super().__init__()
        self.enlarge: nn.Module = nn.ConvTranspose3d(2 * channels, channels, 2, 2)
        if mode != "conv":
            self.enlarge = nn.Sequential(nn.Conv3d(2 * channels, channels, 1), nn.Upsample(scale_factor=2.0, mode=mode))
        self.layers = nn.Sequential(
            nn.Conv3d(2 * channels, channels, 3, padding=1),
            nn.InstanceNorm3d(channels, affine=True),
            nn.LeakyReLU(0.01),
        )

    def forward(self, x: Tensor, earlier: Tensor) -> Any:
        """Run the block."""
        return self.layers(torch.cat([self.enlarge(x), earlier], 1))


def conv_norm(
    channels: int, out: int, kernel: int, act: Activation | None, stride: int = 1, groups: int = 1
) -> list[nn.Module]:
    """Return a convolution with batch norm and an activation."""
    layers = [
        nn.Conv2d(channels, out, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(out),
    ]
    return [*layers, act()] if act is not None else layers
