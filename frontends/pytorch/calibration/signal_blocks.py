"""Blocks of networks for signals, in which the sweep measures operators among others."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class Gated(nn.Module):
    """A block of WaveNet: a causal convolution whose result is gated, and one of a single sample."""

    def __init__(self, channels: int, kernel: int, dilation: int) -> None:
        super().__init__()
        self.reach = (kernel - 1) * dilation
        self.conv = nn.Conv1d(channels, 2 * channels, kernel, dilation=dilation)
        self.out = nn.Conv1d(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Run the block."""
        a, b = self.conv(functional.pad(x, (self.reach, 0))).chunk(2, 1)
        return x + self.out(torch.tanh(a) * torch.sigmoid(b))


class OverChannels(nn.Module):
    """Layer norm over the channels of a signal."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels)

    def forward(self, x: Tensor) -> Tensor:
        """Run the block."""
        return self.norm(x.transpose(-2, -1)).transpose(-2, -1)


class Conformer(nn.Module):
    """The convolution of a Conformer: gated, depthwise, and between two of a single sample."""

    def __init__(self, channels: int, kernel: int) -> None:
        super().__init__()
        self.norm, self.inner = nn.LayerNorm(channels), nn.Conv1d(channels, 2 * channels, 1)
        self.depthwise = nn.Conv1d(channels, channels, kernel, padding=kernel // 2, groups=channels)
        self.after, self.outer = nn.BatchNorm1d(channels), nn.Conv1d(channels, channels, 1)

    def forward(self, x: Tensor) -> Any:
        """Run the block."""
        y = functional.glu(self.inner(self.norm(x).transpose(1, 2)), dim=1)
        return x + self.outer(functional.silu(self.after(self.depthwise(y)))).transpose(1, 2)
