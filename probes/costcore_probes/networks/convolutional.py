"""Convolutional networks: AlexNet, VGG-16, ResNet, MobileNetV2 and U-Net, in evaluation mode."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it
from torch import nn

__all__ = ["UNet", "alexnet", "mobilenet_v2", "resnet", "vgg16"]


def alexnet() -> nn.Module:
    """Return AlexNet in one column (Krizhevsky, 2014, arXiv:1404.5997), for 224 × 224."""
    sizes = [(3, 64, 11, 4, 2), (64, 192, 5, 1, 2), (192, 384, 3, 1, 1), (384, 256, 3, 1, 1), (256, 256, 3, 1, 1)]
    layers: list[nn.Module] = []
    for i, size in enumerate(sizes):
        layers += [nn.Conv2d(*size), nn.ReLU()] + [nn.MaxPool2d(3, 2)] * (i in (0, 1, 4))
    head = [nn.Linear(9216, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000)]
    return nn.Sequential(*layers, nn.Flatten(), *head).eval()


def vgg16() -> nn.Module:
    """Return VGG-16, configuration D of Simonyan and Zisserman (arXiv:1409.1556), for 224 × 224."""
    layers: list[nn.Module] = []
    channels = 3
    for count, outputs in ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512)):
        for _ in range(count):
            layers += [nn.Conv2d(channels, outputs, 3, padding=1), nn.ReLU()]
            channels = outputs
        layers.append(nn.MaxPool2d(2))
    head = [nn.Linear(25088, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000)]
    return nn.Sequential(*layers, nn.Flatten(), *head).eval()


def _conv(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    padding = kernel // 2
    conv = nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(outputs)]


class _Residual(nn.Module):
    """A block of ResNet: its convolutions, and a projection of the shortcut where the shape changes."""

    def __init__(self, inputs: int, inner: int, outputs: int, stride: int, bottleneck: bool) -> None:
        super().__init__()
        layers = _conv(inputs, inner, 1 if bottleneck else 3, 1 if bottleneck else stride)
        layers += [nn.ReLU(), *_conv(inner, inner if bottleneck else outputs, 3, stride if bottleneck else 1)]
        if bottleneck:
            layers += [nn.ReLU(), *_conv(inner, outputs, 1)]
        self.body = nn.Sequential(*layers)
        same = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if same else nn.Sequential(*_conv(inputs, outputs, 1, stride))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.body(x) + self.shortcut(x))


def resnet(blocks: tuple[int, ...], bottleneck: bool) -> nn.Module:
    """Return a ResNet (He et al., arXiv:1512.03385) for 224 × 224, with the strides in the 3 × 3 convolutions."""
    layers = [*_conv(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, count in enumerate(blocks):
        inner = 64 * 2**stage
        outputs = 4 * inner if bottleneck else inner
        for i in range(count):
            layers.append(_Residual(channels, inner, outputs, 2 if stage and not i else 1, bottleneck))
            channels = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000)).eval()


class _Inverted(nn.Module):
    """An inverted residual of MobileNetV2."""

    def __init__(self, inputs: int, outputs: int, stride: int, expand: int) -> None:
        super().__init__()
        inner = inputs * expand
        layers = [*_conv(inputs, inner, 1), nn.ReLU6()] if expand > 1 else []
        layers += [*_conv(inner, inner, 3, stride, inner), nn.ReLU6(), *_conv(inner, outputs, 1)]
        self.body = nn.Sequential(*layers)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(x) if self.residual else self.body(x)


MOBILENET_V2 = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, channels, blocks and stride of each stage: table 2 of the paper."""


def mobilenet_v2() -> nn.Module:
    """Return MobileNetV2 (Sandler et al., arXiv:1801.04381) for 224 × 224."""
    layers = [*_conv(3, 32, 3, 2), nn.ReLU6()]
    channels = 32
    for expand, outputs, count, stride in MOBILENET_V2:
        for i in range(count):
            layers.append(_Inverted(channels, outputs, 1 if i else stride, expand))
            channels = outputs
    layers += [*_conv(320, 1280, 1), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000)]
    return nn.Sequential(*layers).eval()


class UNet(nn.Module):
    """U-Net (Ronneberger et al., arXiv:1505.04597) with padding, for sides that 16 divides; two classes."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        w = width
        self.down = nn.ModuleList(self._pair(1 if i == 0 else w * 2 ** (i - 1), w * 2**i) for i in range(5))
        self.up = nn.ModuleList(nn.ConvTranspose2d(w * 2 ** (i + 1), w * 2**i, 2, 2) for i in range(4))
        self.merge = nn.ModuleList(self._pair(w * 2 ** (i + 1), w * 2**i) for i in range(4))
        self.head = nn.Conv2d(w, 2, 1)

    @staticmethod
    def _pair(inputs: int, outputs: int) -> nn.Sequential:
        first = nn.Conv2d(inputs, outputs, 3, padding=1)
        return nn.Sequential(first, nn.ReLU(), nn.Conv2d(outputs, outputs, 3, padding=1), nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores of two classes for each pixel."""
        skips = []
        for i, down in enumerate(self.down):
            x = down(F.max_pool2d(x, 2) if i else x)
            skips.append(x)
        for i in (3, 2, 1, 0):
            x = self.merge[i](torch.cat([skips[i], self.up[i](x)], 1))
        return self.head(x)
