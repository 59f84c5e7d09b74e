"""The networks of ``chainer.links``, and two further ones, in PyTorch with the operators that Chainer runs."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.whole_networks.pytorch_models import Branches, Residual, conv, vgg16


def vgg() -> nn.Module:
    """VGG16, with the softmax at the end that Chainer's has."""
    return nn.Sequential(vgg16(), nn.Softmax(1))


BLOCKS = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}


def resnet(depth: int, size: int = 224) -> nn.Module:
    """He et al., arXiv:1512.03385, with the published stride in the first 1x1 convolution, for images of ``size``."""
    first = nn.Conv2d(3, 64, 7, stride=2, padding=3)
    layers = [first, nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True)]
    channels = 64
    for stage, blocks in enumerate(BLOCKS[depth]):
        width = 64 * 2**stage
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            body = (conv(channels, width, stride=stride), conv(width, width, 3), conv(width, 4 * width, act=None))
            shortcut = None if block else conv(channels, 4 * width, act=None, stride=stride)
            layers.append(Residual(nn.Sequential(*body), shortcut, nn.ReLU()))
            channels = 4 * width
    return nn.Sequential(*layers, nn.AvgPool2d(size // 32), nn.Flatten(), nn.Linear(channels, 1000), nn.Softmax(1))


def rectified(cin: int, cout: int, k: int = 1, **options: int) -> nn.Module:
    """A convolution with a bias and a ReLU."""
    return nn.Sequential(nn.Conv2d(cin, cout, k, padding=k // 2, **options), nn.ReLU())


def inception(cin: int, one: int, reduce3: int, three: int, reduce5: int, five: int, pool: int) -> nn.Module:
    """Return four branches with one ReLU after all of them."""
    branches = (
        nn.Conv2d(cin, one, 1),
        nn.Sequential(rectified(cin, reduce3), nn.Conv2d(reduce3, three, 3, padding=1)),
        nn.Sequential(rectified(cin, reduce5), nn.Conv2d(reduce5, five, 5, padding=2)),
        nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(cin, pool, 1)),
    )
    return nn.Sequential(Branches(*branches), nn.ReLU())


INCEPTIONS = (
    *((192, 64, 96, 128, 16, 32, 32), (256, 128, 128, 192, 32, 96, 64), None),
    *((480, 192, 96, 208, 16, 48, 64), (512, 160, 112, 224, 24, 64, 64), (512, 128, 128, 256, 24, 64, 64)),
    *((512, 112, 144, 288, 32, 64, 64), (528, 256, 160, 320, 32, 128, 128), None),
    *((832, 256, 160, 320, 32, 128, 128), (832, 384, 192, 384, 48, 128, 128)),
)


def halved() -> nn.Module:
    """Return the pooling between the stages."""
    return nn.MaxPool2d(3, 2, ceil_mode=True)


def googlenet() -> nn.Module:
    """Szegedy et al., arXiv:1409.4842, without the auxiliary classifiers."""
    layers = [rectified(3, 64, 7, stride=2), halved(), nn.LocalResponseNorm(5)]
    layers += [rectified(64, 64), rectified(64, 192, 3), nn.LocalResponseNorm(5), halved()]
    layers += [inception(*sizes) if sizes else halved() for sizes in INCEPTIONS]
    head = (nn.AvgPool2d(7), nn.Flatten(), nn.Dropout(0.4), nn.Linear(1024, 1000), nn.Softmax(1))
    return nn.Sequential(*layers, *head)


class Attention(nn.Module):
    """Multi-head self-attention, composed of matrix products."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.norm = heads, nn.LayerNorm(width)
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        n, t, width = x.shape
        rows = self.norm(x.reshape(n * t, width))
        q, k, v = (
            part(rows).reshape(n, t, self.heads, width // self.heads).transpose(1, 2)
            for part in (self.q, self.k, self.v)
        )
        weights = functional.softmax(torch.matmul(q, k.transpose(2, 3)) * (width // self.heads) ** -0.5, dim=3)
        y = torch.matmul(weights, v).transpose(1, 2).reshape(n * t, width)
        return x + self.out(y).reshape(n, t, width)
