"""Small versions of networks that people train, with inputs whose batch has a name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

import costcore
from tests.whole_networks.pytorch_models import Bert, Branches, Residual, ViT, block, conv, inverted

from .networks import Lstm, UNet


def resnet18(width: int = 16) -> nn.Module:
    """He et al., arXiv:1512.03385, table 1, with fewer channels."""
    layers, channels = [conv(3, width, 7, stride=2), nn.MaxPool2d(3, 2, 1)], width
    for stage in range(4):
        for stride in (1 + (stage > 0), 1):
            wide = width << stage
            shortcut = conv(channels, wide, act=None, stride=stride) if channels != wide else None
            body = nn.Sequential(conv(channels, wide, 3, stride=stride), conv(wide, wide, 3, act=None))
            layers.append(Residual(body, shortcut, nn.ReLU(inplace=True)))
            channels = wide
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10))


def mobilenet() -> nn.Module:
    """Three stages of Sandler et al., arXiv:1801.04381: depthwise convolutions between wide tensors."""
    blocks = [
        inverted(8, 48, 16, 3, 2, nn.ReLU6),
        inverted(16, 96, 16, 3, 1, nn.ReLU6),
        inverted(16, 96, 24, 3, 2, nn.ReLU6),
    ]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 10)]
    return nn.Sequential(conv(3, 8, 3, nn.ReLU6, stride=2), *blocks, *head)


def densenet() -> nn.Module:
    """Six layers of Huang et al., arXiv:1608.06993: each gets all results before it."""
    layers: list[nn.Module] = [nn.Conv2d(3, 16, 3, 2, 1)]
    for channels in range(16, 64, 8):
        new = nn.Sequential(nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, 8, 3, padding=1))
        layers.append(Branches(nn.Identity(), new))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


class Gpt(nn.Module):
    """Radford et al. 2019: blocks with the norm first, and a head for every position."""

    def __init__(self, words: int = 500, length: int = 64, width: int = 64, depth: int = 3) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(block(width, 4, 4 * width) for _ in range(depth)), nn.LayerNorm(width))
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        y = self.head(self.blocks(self.words(x) + self.positions.weight[: x.shape[1]]))
        return functional.cross_entropy(y.flatten(0, 1), labels.flatten())


class Decoder(nn.Module):
    """A layer of Llama (Touvron et al., arXiv:2302.13971): rotated queries and keys in groups, SwiGLU, RMS norms."""

    def __init__(self, width: int, heads: int, groups: int, hidden: int) -> None:
        super().__init__()
        self.size, size = width // heads, width // heads
        self.q, self.k, self.v = (nn.Linear(width, n * size, bias=False) for n in (heads, groups, groups))
        self.o = nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)
        self.first, self.second = nn.RMSNorm(width), nn.RMSNorm(width)

    def rotated(self, x: Tensor) -> Tensor:
        angles = torch.arange(x.shape[2], device=x.device)[:, None] * torch.ones(self.size // 2, device=x.device)
        a, b = x.chunk(2, -1)
        return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        q, k, v = (layer(y).unflatten(-1, (-1, self.size)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        k, v = (z.repeat_interleave(q.shape[1] // z.shape[1], 1) for z in (self.rotated(k), v))
        y = functional.scaled_dot_product_attention(self.rotated(q), k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        y = self.second(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


def llama(words: int = 500, width: int = 64) -> nn.Module:
    layers = (Decoder(width, 4, 2, 172) for _ in range(3))
    return nn.Sequential(nn.Embedding(words, width), *layers, nn.RMSNorm(width), nn.Linear(width, words, bias=False))


def encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


class Contrastive(nn.Module):
    """Two towers whose outputs are compared, each of one with each of the other (Radford et al., arXiv:2103.00020)."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(256, 16), nn.Linear(512, 16)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.a(x) @ self.b(y).T).log_softmax(1).diagonal().mean()


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Dropout(), nn.Linear(512, 10))


class Network(NamedTuple):
    """A network, inputs with a batch, and a limit in bytes."""

    make: Callable[[], nn.Module]
    inputs: Any
    limit: str


def ids(length: int) -> Any:
    return ("batch", length), "int64"


IMAGE = ("batch", 3, 64, 64)

NETWORKS: Mapping[str, Network] = {
    "mlp": Network(mlp, ("batch", 784), "16 MiB"),
    "resnet18": Network(resnet18, IMAGE, "64 MiB"),
    "mobilenet": Network(mobilenet, IMAGE, "32 MiB"),
    "densenet": Network(densenet, IMAGE, "48 MiB"),
    "unet": Network(lambda: UNet(8), ("batch", 3, 72, 40), "64 MiB"),
    "vit": Network(lambda: ViT(64, 8, 64, 3, 4), IMAGE, "48 MiB"),
    "bert": Network(Bert, ids(48), "40 MiB"),
    "gpt2": Network(Gpt, {"x": ids(64), "labels": ids(64)}, "48 MiB"),
    "llama": Network(llama, ids(64), "48 MiB"),
    "lstm": Network(Lstm, ids(20), "32 MiB"),
    "encoder": Network(encoder, ("batch", 33, 64), "20 MiB"),
    "contrastive": Network(Contrastive, (("batch", 256), ("batch", 512)), "3 MiB"),
}


def sized(inputs: Any, batch: int) -> Any:
    """Return inputs with so many samples."""
    if isinstance(inputs, dict):
        return {name: sized(each, batch) for name, each in inputs.items()}
    if isinstance(inputs, tuple) and inputs[1:] == ("int64",):
        return costcore.Tensor(sized(inputs[0], batch), "int64")
    if isinstance(inputs, tuple):
        return tuple(sized(each, batch) for each in inputs)
    return batch if inputs == "batch" else inputs


def bytes_of(limit: str) -> int:
    number, unit = limit.split()
    return int(number) * 2 ** (10 * ("KiB", "MiB", "GiB").index(unit) + 10)
