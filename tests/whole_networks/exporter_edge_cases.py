"""Blocks of published networks that exporters decompose, each in a network of a few thousand parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.whole_networks.pytorch_models import Branches, Excite, Residual, conv

IMAGE = torch.zeros(2, 3, 32, 32)


def classified(features: nn.Module, channels: int) -> nn.Module:
    """Add a classifier: the average of the features over the image, and a linear layer."""
    return nn.Sequential(features, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10))


class DenseBlock(nn.Module):
    """Huang et al., arXiv:1608.06993: each layer concatenates all earlier features, the first one a single tensor."""

    def __init__(self, channels: int, growth: int, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(self.layer(channels + i * growth, growth) for i in range(depth))

    @staticmethod
    def layer(cin: int, growth: int) -> nn.Module:
        layers = nn.BatchNorm2d(cin), nn.ReLU(), nn.Conv2d(cin, growth, 3, padding=1, bias=False)
        return nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        features = [x]
        for layer in self.layers:
            features.append(layer(torch.cat(features, 1)))
        return torch.cat(features, 1)


def densenet() -> nn.Module:
    stages = conv(3, 8, 7, stride=2), DenseBlock(8, 4, 3), conv(20, 10), nn.AvgPool2d(2), DenseBlock(10, 4, 2)
    return classified(nn.Sequential(*stages), 18)


class Permuted(nn.Module):
    """A module applied to a tensor with permuted axes."""

    def __init__(self, axes: tuple[int, ...], module: nn.Module | None = None) -> None:
        super().__init__()
        self.axes, self.module = axes, module or nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.module(x.permute(self.axes))


LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)


class ConvNextBlock(nn.Module):
    """Liu et al., arXiv:2201.03545: an MLP in channels-last layout, and a learned scale."""

    def __init__(self, width: int) -> None:
        super().__init__()
        perceptron = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.body = nn.Sequential(depthwise, Permuted(LAST, nn.Sequential(*perceptron)), Permuted(FIRST))
        self.scale = nn.Parameter(torch.zeros(width, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * self.body(x) + x


def convnext() -> nn.Module:
    """Its global average pooling reads channels-last memory."""
    stem = nn.Conv2d(3, 16, 4, 4), Permuted(LAST, nn.LayerNorm(16)), Permuted(FIRST)
    blocks = *stem, ConvNextBlock(16), ConvNextBlock(16), nn.AdaptiveAvgPool2d(1)
    head = Permuted(LAST, nn.LayerNorm(16)), Permuted(FIRST), nn.Flatten(), nn.Linear(16, 10)
    return nn.Sequential(*blocks, *head)


class WindowAttention(nn.Module):
    """Liu et al., arXiv:2103.14030: attention within windows, which may be shifted, with learned relative biases.

    Args:
        width: channels.
        heads: heads.
        window: side of a window.
        shift: by how many pixels windows are shifted.
    """

    def __init__(self, width: int, heads: int, window: int, shift: int) -> None:
        super().__init__()
        self.heads, self.window, self.shift = heads, window, shift
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.biases = nn.Parameter(torch.zeros((2 * window - 1) ** 2, heads))
        places = torch.tensor(list(product(range(window), repeat=2)))
        apart = places[:, None] - places[None] + window - 1
        self.register_buffer("distances", (apart[..., 0] * (2 * window - 1) + apart[..., 1]).flatten())

    def forward(self, x: Tensor) -> Tensor:
        n, height, width, channels = x.shape
        rows, columns, size = height // self.window, width // self.window, self.window**2
        if self.shift:
            x = torch.roll(x, (-self.shift, -self.shift), (1, 2))
        x = x.view(n, rows, self.window, columns, self.window, channels).transpose(2, 3)
        x = x.reshape(n * rows * columns, size, channels)
        q, k, v = self.project(x).reshape(*x.shape[:2], 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = (q * (channels // self.heads) ** -0.5).matmul(k.transpose(-2, -1))
        y = y + self.biases[self.distances].view(size, size, -1).permute(2, 0, 1).unsqueeze(0)
        if self.shift:
            mask = self.mask(x, height, width)
            y = (y.view(n, -1, *y.shape[1:]) + mask.unsqueeze(1).unsqueeze(0)).view(y.shape)
        x = y.softmax(-1).matmul(v).transpose(1, 2).reshape(x.shape)
        x = self.out(x).view(n, rows, columns, self.window, self.window, channels).transpose(2, 3)
        x = x.reshape(n, height, width, channels)
        return torch.roll(x, (self.shift, self.shift), (1, 2)) if self.shift else x

    def mask(self, x: Tensor, height: int, width: int) -> Tensor:
        """Return the mask between pixels that a shift moved into one window from opposite ends of the image."""
        regions, size = x.new_zeros((height, width)), self.window
        slices = slice(0, -size), slice(-size, -self.shift), slice(-self.shift, None)
        for i, (rows, columns) in enumerate(product(slices, slices)):
            regions[rows, columns] = i
        regions = regions.view(height // size, size, width // size, size).permute(0, 2, 1, 3).reshape(-1, size**2)
        apart = regions.unsqueeze(1) - regions.unsqueeze(2)
        return apart.masked_fill(apart != 0, -100.0).masked_fill(apart == 0, 0.0)


def swin(shift: int = 0) -> nn.Module:
    """Return a network of 8 x 8 patches of 4 x 4 pixels, in four windows."""
    stem = nn.Conv2d(3, 16, 4, 4), Permuted(LAST, nn.LayerNorm(16))
    block = Residual(nn.Sequential(nn.LayerNorm(16), WindowAttention(16, 2, 4, shift)))
    return nn.Sequential(*stem, block, Permuted(FIRST), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))


def fire(cin: int, narrow: int, wide: int) -> nn.Module:
    """Iandola et al., arXiv:1602.07360: a squeeze layer, and two expand layers after it."""
    expand = (nn.Sequential(nn.Conv2d(narrow, wide, k, padding=k // 2), nn.ReLU()) for k in (1, 3))
    return nn.Sequential(nn.Conv2d(cin, narrow, 1), nn.ReLU(), Branches(*expand))


def inception(channels: int) -> nn.Module:
    """Szegedy et al., arXiv:1512.00567: branches, one of which has branches itself."""
    pooled = nn.Sequential(nn.MaxPool2d(3, 1, 1), conv(channels, 4))
    wide = nn.Sequential(conv(channels, 4), Branches(conv(4, 4, (1, 3)), conv(4, 4, (3, 1))))
    return Branches(conv(channels, 4), wide, pooled)


class Shuffle(nn.Module):
    """Ma et al., arXiv:1807.11164: one half of the channels passes, the other is convolved, and both are shuffled."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        half = channels // 2
        depthwise = conv(half, half, 3, None, groups=half)
        self.branch = nn.Sequential(conv(half, half), depthwise, conv(half, half))

    def forward(self, x: Tensor) -> Tensor:
        passed, changed = x.chunk(2, 1)
        x = torch.cat([passed, self.branch(changed)], 1)
        n, channels, height, width = x.shape
        return x.view(n, 2, channels // 2, height, width).transpose(1, 2).contiguous().view(n, -1, height, width)


def excited(channels: int) -> nn.Module:
    """Radosavovic et al., arXiv:2003.13678: grouped convolutions, squeeze and excitation."""
    body = conv(channels, channels, 3, groups=4), Excite(channels, 4), conv(channels, channels, act=None)
    return Residual(nn.Sequential(*body), act=nn.SiLU())


class Segmented(nn.Module):
    """Segmentation (Long et al., arXiv:1411.4038): the scores are resized to the image."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        return functional.interpolate(self.body(x), size=x.shape[-2:], mode="bilinear", align_corners=False)


def blocks() -> nn.Module:
    """Blocks of convolutional networks, and an adaptive pooling to the size that its input already has."""
    pools = nn.MaxPool2d(3, 2, ceil_mode=True), nn.AdaptiveAvgPool2d(8)
    middle = fire(8, 4, 8), inception(16), Shuffle(16), excited(16)
    head = conv(16, 8, 3, dilation=2, padding=2), nn.Dropout(), nn.Conv2d(8, 5, 1)
    return Segmented(nn.Sequential(nn.Conv2d(3, 8, 3, 2, padding=1), nn.ReLU(), *pools, *middle, *head))


def film() -> nn.Module:
    """Tran et al., arXiv:1711.11248: convolutions over space and time."""
    layers = nn.Conv3d(3, 8, (3, 7, 7), (1, 4, 4), (1, 3, 3), bias=False), nn.BatchNorm3d(8), nn.ReLU()
    return nn.Sequential(*layers, nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(8, 10))


class Small(NamedTuple):
    """A network and its input."""

    build: Callable[[], nn.Module]
    x: Tensor = IMAGE


NETWORKS: Mapping[str, Small] = {
    "densenet": Small(densenet),
    "convnext": Small(convnext),
    "swin": Small(swin),
    "shifted swin": Small(lambda: swin(2)),
    "blocks": Small(blocks),
    "film": Small(film, torch.zeros(2, 3, 4, 32, 32)),
}
