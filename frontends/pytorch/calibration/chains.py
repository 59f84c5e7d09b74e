"""Calibration chains for images, volumes and signals: blocks of real networks with random shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import product
from random import Random
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

ACTIVATIONS = (
    partial(nn.ReLU, inplace=True),
    nn.ReLU,
    partial(nn.ReLU6, inplace=True),
    partial(nn.SiLU, inplace=True),
    nn.Hardswish,
    nn.GELU,
    nn.LeakyReLU,
)


def _basic(shapes: Shapes) -> Made:
    n, c, side = shapes.image(18)
    act, out = shapes.pick(ACTIVATIONS), shapes.pick((c, c, 2 * c))
    stride = 1 if out == c else 2
    first = Residual(*conv_norm(c, out, 3, act, stride), *conv_norm(out, out, 3, None), after=act())
    return nn.Sequential(first), (n, c, side, side)


def _bottleneck(shapes: Shapes) -> Made:
    n, c, side = shapes.image(17 / 8, least=64)
    inner, act = c // 4, shapes.pick(ACTIVATIONS)
    groups = shapes.pick((1, 1, 2, 8)) if inner % 8 == 0 else 1
    blocks = [
        Residual(
            *conv_norm(c, inner, 1, act),
            *conv_norm(inner, inner, 3, act, 1, groups),
            *conv_norm(inner, c, 1, None),
            after=act(),
        )
        for _ in range(2)
    ]
    return nn.Sequential(*blocks), (n, c, side, side)


def _regular(shapes: Shapes) -> Made:
    n, c, side = shapes.image(4, least=48)
    width = shapes.pick([each for each in (8, 16, 24, 32, 48) if c % each == 0])
    act = nn.ReLU
    blocks = [
        Residual(
            *conv_norm(c, c, 1, act), *conv_norm(c, c, 3, act, 1, c // width), *conv_norm(c, c, 1, None), after=act()
        )
        for _ in range(2)
    ]
    return nn.Sequential(*blocks), (n, c, side, side)


def _inverted(shapes: Shapes) -> Made:
    n, c, side = shapes.image(12 * 2)
    inner, act, kernel = c * shapes.pick((1, 3, 6)), shapes.pick(ACTIVATIONS[2:5]), shapes.pick((3, 3, 5, 7))
    stride = shapes.pick((1, 1, 2))
    gate = [SqueezeExcite(inner, act)] if shapes.pick((True, False)) else []
    first, second = (
        Residual(
            *conv_norm(c, inner, 1, act),
            *conv_norm(inner, inner, kernel, act, s, inner),
            *gate,
            *conv_norm(inner, c, 1, None),
        )
        for s in (1, stride)
    )
    return nn.Sequential(first, second), (n, c, side, side)


def _image_stem(shapes: Shapes) -> Made:
    n, side, out = (
        shapes.pick((1, 2, 4)),
        shapes.pick((96, 112, 160, 224, 227)),
        shapes.pick((16, 24, 32, 64, 96, 192, 768)),
    )
    kernel, stride = shapes.pick(((3, 2), (7, 2), (7, 4), (11, 4), (4, 4), (16, 16), (32, 32), (3, 1)))
    pool = [nn.MaxPool2d(3, 2, 1)] if stride < 4 else []
    return nn.Sequential(*conv_norm(3, out, kernel, nn.ReLU, stride), *pool), (n, 3, side, side)


def _vgg(shapes: Shapes) -> Made:
    n, c, side = shapes.image(18 * 2)
    out = 2 * c
    layers = [
        nn.Conv2d(c, out, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.Conv2d(out, out, 3, padding=1),
        nn.ReLU(inplace=True),
    ]
    pool = shapes.pick(
        (nn.MaxPool2d(2), nn.AvgPool2d(2), nn.MaxPool2d(3, 2), nn.AvgPool2d(3, 1, 1), nn.MaxPool2d(3, 1, 1))
    )
    return nn.Sequential(*layers, pool), (n, c, side, side)


def _dense(shapes: Shapes) -> Made:
    n, c, side = shapes.image(2)
    growth = shapes.pick((16, 32, 48))
    transition = [nn.BatchNorm2d(c + 2 * growth), nn.ReLU(), nn.Conv2d(c + 2 * growth, c // 2, 1), nn.AvgPool2d(2)]
    return nn.Sequential(Dense(c, growth), Dense(c + growth, growth), *transition), (n, c, side, side)


def _shuffle(shapes: Shapes) -> Made:
    n, c, side = shapes.image(2)
    return nn.Sequential(Shuffle(c), Shuffle(c)), (n, c, side, side)


def _fire(shapes: Shapes) -> Made:
    n, c, side = shapes.image(4, least=64)
    squeeze = nn.Sequential(nn.Conv2d(c, c // 8, 1), nn.ReLU(inplace=True))
    return nn.Sequential(squeeze, Fire(c // 8, c // 2)), (n, c, side, side)


def _convnext(shapes: Shapes) -> Made:
    n, c, side = shapes.image(2 * 8)
    return nn.Sequential(ConvNext(c), ConvNext(c)), (n, c, side, side)


def _large(shapes: Shapes) -> Made:
    # Square kernels as in RepLKNet or AlexNet, one-dimensional kernels as in Inception.
    kernel = shapes.pick(((5, 5), (7, 7), (9, 9), (1, 7), (7, 1), (1, 3), (3, 1), (1, 5), (5, 1), (13, 13)))
    n, c, side = shapes.image(kernel[0] * kernel[1])
    out, padding = shapes.pick((c, c, 2 * c)), (kernel[0] // 2, kernel[1] // 2)
    layers = nn.Conv2d(c, out, kernel, padding=padding, bias=False), nn.BatchNorm2d(out), nn.ReLU(inplace=True)
    return nn.Sequential(*layers), (n, c, side, side)


def _large_depthwise(shapes: Shapes) -> Made:
    # ConvMixer, RepLKNet
    n, c, side = shapes.image(2, least=32)
    kernel = shapes.pick((3, 5, 7, 7, 9, 9, 13, 21, 31))
    return nn.Sequential(Residual(*conv_norm(c, c, kernel, nn.GELU, groups=c))), (n, c, side, side)


def _dilated_image(shapes: Shapes) -> Made:
    # DeepLab, dilated residual networks
    n, c, side = shapes.image(9)
    rate, kernel = shapes.pick((2, 2, 4, 6, 12, 18)), shapes.pick((3, 3, 5, 7))
    groups = shapes.pick((1, 1, 1, c))
    padding = rate * (kernel // 2)
    layers = nn.Conv2d(c, c, kernel, 1, padding, rate, groups, bias=False), nn.BatchNorm2d(c), nn.ReLU()
    return nn.Sequential(*layers), (n, c, side, side)


def _image_head(shapes: Shapes) -> Made:
    n, c, side = shapes.pick((1, 2, 4, 8)), shapes.pick((256, 512, 1024, 1280, 2048)), shapes.pick((7, 8, 13, 14))
    classes = shapes.pick((10, 100, 1000))
    layers = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(c, classes), nn.Softmax(-1))
    return nn.Sequential(nn.ReLU(), *layers), (n, c, side, side)


def _upsample(shapes: Shapes) -> Made:
    n, c, side = shapes.image(18 * 4)
    return Upsample(c, shapes.pick(("nearest", "bilinear"))), ((n, c, side, side), (n, c, 2 * side, 2 * side))


def _transposed(shapes: Shapes) -> Made:
    n, c, side = shapes.image(4, least=32)
    half, act, kernel = c // 2, shapes.pick(ACTIVATIONS), shapes.pick((2, 2, 4))
    layers = [nn.ConvTranspose2d(c, half, kernel, 2, (kernel - 2) // 2), nn.BatchNorm2d(half), act()]
    return nn.Sequential(*layers, nn.Conv2d(half, half, 1)), (n, c, side, side)


IMAGE_CHAINS: Mapping[str, tuple[Maker, int]] = {
    "basic": (_basic, 6),
    "bottleneck": (_bottleneck, 4),
    "regular": (_regular, 3),
    "inverted": (_inverted, 6),
    "stem": (_image_stem, 5),
    "vgg": (_vgg, 4),
    "dense": (_dense, 3),
    "shuffle": (_shuffle, 2),
    "fire": (_fire, 2),
    "convnext": (_convnext, 2),
    "large": (_large, 5),
    "large depthwise": (_large_depthwise, 4),
    "dilated": (_dilated_image, 3),
    "head": (_image_head, 2),
    "upsample": (_upsample, 2),
    "transposed": (_transposed, 4),
}
"""The makers of chains, with the share of each kind."""

# Blocks of networks for images and volumes


Activation = Callable[[], nn.Module]


class Residual(nn.Module):
    """A block that adds its input to its output, if their shapes are equal."""

    layers: Any
    after: Any

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

    gate: Any

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

    layers: Any

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

    layers: Any

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
    """The second part of a block of SqueezeNet: two convolutions with joined results."""

    one: Any
    three: Any

    def __init__(self, channels: int, out: int) -> None:
        super().__init__()
        self.one, self.three = nn.Conv2d(channels, out, 1), nn.Conv2d(channels, out, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """Run the block."""
        return torch.cat([torch.relu_(self.one(x)), torch.relu_(self.three(x))], 1)


class ConvNext(nn.Module):
    """A block of ConvNeXt: depthwise convolution, then a perceptron on the last axis."""

    depthwise: Any
    norm: Any
    inner: Any
    outer: Any
    scale: Any

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

    layers: Any

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

    layers: Any

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


# Chains for volumes and videos


Triple = tuple[int, int, int]


def _conv_norm_3d(
    channels: int, out: int, kernel: Triple, stride: Triple = (1, 1, 1), groups: int = 1
) -> list[nn.Module]:
    padding = tuple(each // 2 for each in kernel)
    layers = nn.Conv3d(channels, out, kernel, stride, padding, groups=groups, bias=False), nn.BatchNorm3d(out)
    return [*layers, nn.ReLU(inplace=True)]


def _residual_volume(shapes: Shapes) -> Made:
    # ResNet 3D, and networks with such kernels in some stages
    n, c, depth, side = shapes.volume(27)
    out = shapes.pick((c, c, 2 * c))
    stride = 1 if out == c else 2
    kernel = shapes.pick(((3, 3, 3), (3, 3, 3), (3, 3, 3), (1, 3, 3), (3, 1, 1)))
    block = Residual(*_conv_norm_3d(c, out, kernel, (stride,) * 3)[:-1], after=nn.ReLU(inplace=True))
    return nn.Sequential(block), (n, c, depth, side, side)


def _factored(shapes: Shapes) -> Made:
    # R(2+1)D: a convolution over each frame, then one over time
    n, c, depth, side = shapes.volume(2 * 27)
    inner = (c * c * 27) // (c * 9 + 3 * c)
    over_both = (*_conv_norm_3d(c, inner, (1, 3, 3)), *_conv_norm_3d(inner, c, (3, 1, 1)))
    pool = shapes.pick((nn.MaxPool3d((1, 2, 2)), nn.MaxPool3d(3, 1, 1), nn.MaxPool3d((1, 3, 3), (1, 2, 2), (0, 1, 1))))
    return nn.Sequential(*over_both, pool), (n, c, depth, side, side)


def _pointwise_volume(shapes: Shapes) -> Made:
    # SlowFast or X3D: a convolution, maybe depthwise, between two pointwise ones
    n, c, depth, side = shapes.volume(6)
    inner = shapes.pick((c // 2, 2 * c))
    kernel, groups = shapes.pick((((1, 3, 3), 1), ((3, 3, 3), inner), ((3, 3, 3), inner), ((5, 5, 5), inner)))
    layers = (*_conv_norm_3d(c, inner, (1, 1, 1)), *_conv_norm_3d(inner, inner, kernel, groups=groups))
    return nn.Sequential(Residual(*layers, nn.Conv3d(inner, c, 1))), (n, c, depth, side, side)


def _volume_stem(shapes: Shapes) -> Made:
    n, depth, side = shapes.pick((1, 1, 2)), shapes.pick((4, 8, 16)), shapes.pick((32, 56, 64, 112))
    channels, out = shapes.pick((1, 3)), shapes.pick((16, 32, 45, 64))
    kernel, stride = shapes.pick(
        (
            ((3, 7, 7), (1, 2, 2)),
            ((1, 7, 7), (1, 2, 2)),
            ((7, 7, 7), (2, 2, 2)),
            ((3, 3, 3), (1, 1, 1)),
            ((2, 16, 16), (2, 16, 16)),
            ((4, 4, 4), (4, 4, 4)),
        )
    )
    pool = (
        shapes.pick(([nn.MaxPool3d((1, 3, 3), (1, 2, 2), (0, 1, 1))], [nn.MaxPool3d(2)], [])) if stride[1] < 4 else ()
    )
    return nn.Sequential(*_conv_norm_3d(channels, out, kernel, stride), *pool), (n, channels, depth, side, side)


def _segmentation(shapes: Shapes) -> Made:
    # 3-D U-Net, a level on its way down
    n, c, depth, side = shapes.volume(27 * 2)
    norm = shapes.pick((nn.InstanceNorm3d(2 * c, affine=True), nn.BatchNorm3d(2 * c), nn.GroupNorm(8, 2 * c)))
    act = shapes.pick((nn.ReLU(inplace=True), nn.LeakyReLU(0.01, inplace=True)))
    pool = shapes.pick((nn.MaxPool3d(2), nn.AvgPool3d(2)))
    return nn.Sequential(nn.Conv3d(c, 2 * c, 3, padding=1), norm, act, pool), (n, c, depth, side, side)


def _decoder(shapes: Shapes) -> Made:
    # 3-D U-Net, a level on its way up
    n, c, depth, side = shapes.volume(27 * 8 * 2)
    wanted = (n, c, 2 * depth, 2 * side, 2 * side)
    return UpsampleVolume(c, shapes.pick(("conv", "conv", "trilinear"))), ((n, 2 * c, depth, side, side), wanted)


def _volume_head(shapes: Shapes) -> Made:
    n, c, depth, side = shapes.pick((1, 2, 4)), shapes.pick((256, 512, 1024)), shapes.pick((2, 4, 8)), 7
    return nn.Sequential(nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(c, 400)), (n, c, depth, side, side)


VOLUME_CHAINS: Mapping[str, tuple[Maker, int]] = {
    "volume": (_residual_volume, 6),
    "volume factored": (_factored, 3),
    "volume pointwise": (_pointwise_volume, 4),
    "volume stem": (_volume_stem, 2),
    "volume segmentation": (_segmentation, 3),
    "volume decoder": (_decoder, 3),
    "volume head": (_volume_head, 1),
}
"""The makers of chains, with the share of each kind."""


# Chains for signals


def _dilated_signal(shapes: Shapes) -> Made:
    # WaveNet: the dilation doubles from block to block
    n, c, length = shapes.signal(2 * 5)
    first, kernel = shapes.pick((1, 4, 16, 64)), shapes.pick((2, 3))
    return nn.Sequential(Gated(c, kernel, first), Gated(c, kernel, 2 * first)), (n, c, length)


def _temporal(shapes: Shapes) -> Made:
    # Temporal convolutional network
    n, c, length = shapes.signal(2 * 5)
    kernel, dilation, act = (
        shapes.pick((3, 3, 5, 7)),
        shapes.pick((1, 1, 2, 3, 5, 8)),
        shapes.pick((nn.ReLU, nn.LeakyReLU)),
    )
    reach = (kernel - 1) * dilation
    layers = [
        module
        for _ in range(2)
        for module in (
            nn.ConstantPad1d((reach, 0), 0.0),
            nn.Conv1d(c, c, kernel, dilation=dilation),
            act(),
            nn.Dropout(0.1),
        )
    ]
    return nn.Sequential(Residual(*layers)), (n, c, length)


def _features(shapes: Shapes) -> Made:
    # Encoder of wav2vec 2.0 or an audio codec, from a wave or later
    n, c, length = shapes.signal(3, least=64)
    kernel, stride = shapes.pick(((3, 2), (2, 2), (4, 2), (8, 4), (10, 5)))
    norm = shapes.pick(([nn.GroupNorm(c, c)], [OverChannels(c)], []))
    layers = [nn.Conv1d(c, c, kernel, stride, bias=False), *norm, nn.GELU(), nn.Conv1d(c, c, 3, 2), nn.GELU()]
    return nn.Sequential(*layers), (n, c, length + kernel + 8)


def _wave(shapes: Shapes) -> Made:
    n, length = shapes.pick((1, 2, 4)), shapes.pick((4000, 16000, 32000))
    channels, out = shapes.pick((1, 1, 2, 80)), shapes.pick((16, 32, 64, 512))
    kernel, stride = shapes.pick(((10, 5), (7, 1), (3, 1), (16, 8), (80, 4)))
    layers = nn.Conv1d(channels, out, kernel, stride), nn.GroupNorm(out, out), nn.GELU()
    return nn.Sequential(*layers), (n, channels, length // (10 if channels > 2 else 1))


def _residual_signal(shapes: Shapes) -> Made:
    # ResNet or Inception for signals
    n, c, length = shapes.signal(2 * 9)
    kernel, stride = shapes.pick((3, 5, 9, 15, 39)), shapes.pick((1, 1, 2))
    layers = (nn.Conv1d(c, c, kernel, stride, kernel // 2, bias=False), nn.BatchNorm1d(c), nn.ReLU(inplace=True))
    pool = shapes.pick((nn.MaxPool1d(2), nn.AvgPool1d(2), nn.MaxPool1d(3, 2, 1)))
    return nn.Sequential(Residual(*layers, nn.Conv1d(c, c, 1)), pool), (n, c, length)


def _conformer(shapes: Shapes) -> Made:
    n, c, length = shapes.signal(4)
    return Conformer(c, shapes.pick((7, 15, 31))), (n, length, c)


def _grouped(shapes: Shapes) -> Made:
    # The convolution that embeds positions in wav2vec 2.0 and HuBERT
    n, c, length = shapes.signal(128 / 16, least=64)
    groups = shapes.pick((8, 16))
    kernel = shapes.pick((19, 128))
    return nn.Sequential(nn.Conv1d(c, c, kernel, padding=kernel // 2, groups=groups), nn.GELU()), (n, c, length)


def _vocoder(shapes: Shapes) -> Made:
    # HiFi-GAN: a transposed convolution, then a dilated one
    n, c, length = shapes.signal(4 * 4, least=32)
    stride, dilation = shapes.pick((2, 4, 8)), shapes.pick((1, 3, 5))
    layers = (
        nn.LeakyReLU(0.1),
        nn.ConvTranspose1d(c, c // 2, 2 * stride, stride, stride // 2),
        nn.LeakyReLU(0.1),
        nn.Conv1d(c // 2, c // 2, 7, padding=3 * dilation, dilation=dilation),
    )
    return nn.Sequential(*layers, nn.Tanh()), (n, c, max(4, length // stride))


SIGNAL_CHAINS: Mapping[str, tuple[Maker, int]] = {
    "signal dilated": (_dilated_signal, 3),
    "signal temporal": (_temporal, 3),
    "signal features": (_features, 3),
    "signal wave": (_wave, 2),
    "signal residual": (_residual_signal, 3),
    "signal conformer": (_conformer, 2),
    "signal grouped": (_grouped, 2),
    "signal vocoder": (_vocoder, 3),
}
"""The makers of chains, with the share of each kind."""


# Blocks of networks for signals


class Gated(nn.Module):
    """A block of WaveNet: a gated causal convolution, then a pointwise one."""

    reach: int
    conv: Any
    out: Any

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

    norm: Any

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels)

    def forward(self, x: Tensor) -> Tensor:
        """Run the block."""
        return self.norm(x.transpose(-2, -1)).transpose(-2, -1)


class Conformer(nn.Module):
    """The convolution module of a Conformer: pointwise with a gate, depthwise, pointwise."""

    norm: Any
    inner: Any
    depthwise: Any
    after: Any
    outer: Any

    def __init__(self, channels: int, kernel: int) -> None:
        super().__init__()
        self.norm, self.inner = nn.LayerNorm(channels), nn.Conv1d(channels, 2 * channels, 1)
        self.depthwise = nn.Conv1d(channels, channels, kernel, padding=kernel // 2, groups=channels)
        self.after, self.outer = nn.BatchNorm1d(channels), nn.Conv1d(channels, channels, 1)

    def forward(self, x: Tensor) -> Any:
        """Run the block."""
        y = functional.glu(self.inner(self.norm(x).transpose(1, 2)), dim=1)
        return x + self.outer(functional.silu(self.after(self.depthwise(y)))).transpose(1, 2)


# Shapes of chains


Sizes = TypeVar("Sizes", bound=tuple[int, ...])

SIDES = (7, 14, 28, 56, 112, 112, 224)

CHANNELS = (16, 24, 32, 48, 64, 96, 128, 160, 192, 256, 384, 512, 768, 1024)

BATCHES = (1, 2, 4, 8)

DEPTHS = (2, 4, 8, 16, 32)
"""Frames of a video or slices of a volume."""

SAMPLES = (25, 50, 100, 200, 400, 800, 1600, 3200, 6400, 16000)
"""Lengths of signals."""

LENGTHS = (1, 7, 16, 32, 49, 64, 100, 128, 197, 256, 384, 512)

WIDTHS = (64, 128, 192, 256, 384, 512, 768, 1024)

STEP = 5
"""The ratio between the work limits of chains."""

LARGEST_MAP = 2**23
"""Maximum elements of a map at the start of a chain; later maps may have several times as many."""

SMALLEST_SIDE_BY_CHANNELS = 256
"""Minimum product of channels and side: networks have many channels where maps are small."""


class Shapes:
    """Draws shapes with work of several magnitudes, each as often.

    Args:
        random: the source of choices.
        limit: the approximate MACs of the largest chains.
    """

    limit: float

    def __init__(self, random: Random, limit: float) -> None:
        self.pick = random.choice
        self.limit = limit / random.choice((1, STEP, STEP**2, STEP**3))

    def image(self, weight: float, *, least: int = 16) -> tuple[int, int, int]:
        """Return batch, channels and side of a map, ``weight * n * c * c * h * h`` MACs within the limit."""
        shapes = [
            (n, c, side)
            for n, c, side in product(BATCHES, CHANNELS, SIDES)
            if c >= least and n * c * side * side <= LARGEST_MAP and c * side >= SMALLEST_SIDE_BY_CHANNELS
        ]
        n, c, side = self._within(shapes, lambda n, c, side: weight * n * c * c * side * side)
        return n, c, side + self.pick((0, 0, 0, -1, 1))

    def volume(self, weight: float) -> tuple[int, int, int, int]:
        """Return batch, channels, depth and side, ``weight * n * c * c * d * h * h`` MACs within the limit."""
        shapes = [
            (n, c, depth, side)
            for n, c, depth, side in product(BATCHES[:2], CHANNELS, DEPTHS, SIDES)
            if n * c * depth * side * side <= LARGEST_MAP and c * side >= SMALLEST_SIDE_BY_CHANNELS
        ]
        return self._within(shapes, lambda n, c, depth, side: weight * n * c * c * depth * side * side)

    def signal(self, weight: float, *, least: int = 16) -> tuple[int, int, int]:
        """Return batch, channels and length of a signal, ``weight * n * c * c * length`` MACs within the limit."""
        shapes = [
            (n, c, length)
            for n, c, length in product(BATCHES, CHANNELS, SAMPLES)
            if c >= least and n * c * length <= LARGEST_MAP
        ]
        return self._within(shapes, lambda n, c, length: weight * n * c * c * length)

    def sequence(self, weight: float) -> tuple[int, int, int]:
        """Return batch, length and width of a sequence, ``weight * n * length * width**2`` MACs within the limit."""
        return self._within(product(BATCHES, LENGTHS, WIDTHS), lambda n, length, width: weight * n * length * width**2)

    def _within(self, shapes: Iterable[Sizes], work: Callable[..., float]) -> Sizes:
        shapes = list(shapes)
        within = [s for s in shapes if work(*s) <= self.limit] or [min(shapes, key=lambda s: work(*s))]
        return self.pick([s for s in within if work(*s) >= self.limit / STEP] or within)


Made = tuple[nn.Module, tuple[Any, ...]]
"""A module, and the shape of its input or the shapes of its inputs."""

Maker = Callable[[Shapes], Made]
