"""Small random networks of layers that exporters do not decompose, or decompose in a recognized way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

Shape: TypeAlias = "Sequence[int]"
"""Of an image: batch, channels, height, width."""


class Sum(nn.Module):
    """The sum of a branch and a skip connection."""

    def __init__(self, branch: nn.Module, skip: nn.Module) -> None:
        super().__init__()
        self.branch, self.skip = branch, skip

    def forward(self, x: Tensor) -> Tensor:
        return self.branch(x) + self.skip(x)


class Joined(nn.Module):
    """Several branches, concatenated along the channels."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


class Gated(nn.Module):
    """An image scaled by a network of its average."""

    def __init__(self, channels: int, inner: int) -> None:
        super().__init__()
        self.inner, self.outer = nn.Conv2d(channels, inner, 1), nn.Conv2d(inner, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.outer(self.inner(functional.adaptive_avg_pool2d(x, 1)).relu()).sigmoid()


class Tokens(nn.Module):
    """A module applied to the pixels of an image, ``[N, H * W, C]``."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor) -> Tensor:
        return self.module(x.flatten(2).transpose(1, 2)).transpose(1, 2).unflatten(2, x.shape[2:])


class Resized(nn.Module):
    """An image resized."""

    def __init__(self, size: tuple[int, int], mode: str) -> None:
        super().__init__()
        self.size, self.mode = size, mode

    def forward(self, x: Tensor) -> Tensor:
        return functional.interpolate(x, self.size, mode=self.mode)


def convolution(r: Random, shape: Shape) -> nn.Module:
    groups = r.choice([g for g in (1, 2, 4, shape[1]) if shape[1] % g == 0])
    kernel, dilation = r.choice([(1, 1), (3, 3), (1, 3), (2, 2)]), r.randint(1, 2)
    padding = r.choice(["same", 1, 2])
    stride = 1 if padding == "same" else r.randint(1, 2)
    settings = {"padding": padding, "dilation": dilation, "groups": groups, "bias": r.random() < 0.5}
    return nn.Conv2d(shape[1], groups * r.randint(1, 3), kernel, stride, **settings)


def transposed(r: Random, shape: Shape) -> nn.Module:
    return nn.ConvTranspose2d(shape[1], r.randint(1, 6), r.randint(2, 3), 2, output_padding=r.randint(0, 1))


def norm(r: Random, shape: Shape) -> nn.Module:
    groups = r.choice([g for g in range(1, shape[1] + 1) if shape[1] % g == 0])
    made = nn.BatchNorm2d(shape[1]), nn.GroupNorm(groups, shape[1]), Tokens(nn.LayerNorm(shape[1]))
    return r.choice(made)


def activation(r: Random, shape: Shape) -> nn.Module:
    made = nn.ReLU(), nn.ReLU6(), nn.GELU(), nn.GELU("tanh"), nn.SiLU(), nn.ELU(), nn.LeakyReLU(), nn.Sigmoid()
    return r.choice((*made, nn.Hardswish(), nn.Tanh(), nn.PReLU(), nn.PReLU(shape[1]), nn.Softmax(1)))


def pool(r: Random, shape: Shape) -> nn.Module:
    kernel, stride, padding = r.randint(2, 3), r.randint(1, 2), r.randint(0, 1)
    ceil = padding == 0 and r.random() < 0.5  # the older exporter exports windows that start in the padding incorrectly
    kind = r.choice((nn.MaxPool2d, nn.AvgPool2d))
    return kind(kernel, stride, padding, ceil_mode=ceil)


def resized(r: Random, shape: Shape) -> nn.Module:
    padded = nn.ZeroPad2d(r.randint(0, 2)), nn.ReflectionPad2d(r.randint(0, 2))
    sized = Resized((r.randint(4, 9), r.randint(4, 9)), r.choice(["nearest", "bilinear"]))
    return r.choice((*padded, sized, nn.PixelUnshuffle(1 + (shape[2] % 2 == shape[3] % 2 == 0))))


def branches(r: Random, shape: Shape) -> nn.Module:
    n, width = shape[1], r.randint(1, 4)
    body = nn.Sequential(nn.Conv2d(n, width, 1), activation(r, (0, width)), nn.Conv2d(width, n, 3, padding=1))
    return r.choice((Sum(body, nn.Identity()), Joined(nn.Conv2d(n, 2, 1), nn.Identity()), Gated(n, width)))


def tokens(r: Random, shape: Shape) -> nn.Module:
    width = shape[1]
    layer = nn.TransformerEncoderLayer(width, 1 + (width % 2 == 0), 6, batch_first=True, norm_first=r.random() < 0.5)
    perceptron = nn.Sequential(nn.Linear(width, 5), nn.GELU(), nn.Linear(5, width, bias=False))
    return Tokens(r.choice((layer, perceptron)))


STEPS: tuple[Callable[[Random, Shape], nn.Module], ...] = (
    *(convolution, transposed, norm, activation, pool, resized, branches, tokens),
)


def network(seed: int, size: int = 12) -> tuple[nn.Module, Tensor]:
    """Return a chain of ``size`` random layers, and an image for it."""
    r, x = Random(seed), torch.ones(2, 4, 9, 8)
    layers: list[nn.Module] = []
    shape: Shape = x.shape
    while len(layers) < size:
        step = STEPS[r.randrange(len(STEPS))](r, shape).eval()
        with torch.no_grad():
            made = step(torch.ones(shape)).shape if min(shape[2:]) > 3 else shape
        if min(made[2:]) > 3 and made.numel() < 4000:
            layers.append(step)
            shape = made
    return nn.Sequential(*layers), x
