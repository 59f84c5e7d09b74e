"""Networks of ``tests/data/fusion_more.csv``: norms over images, einsum, padding, gates over halves, interpolation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional


class UNet(nn.Module):
    """Group norms over a quarter of an image, instance norms, and a softmax over five interpolated classes."""

    def __init__(self) -> None:
        super().__init__()
        self.d1, self.d2, self.mid = self._block(3, 16), self._block(16, 32), self._block(32, 32)
        self.u, self.u1 = nn.ConvTranspose2d(32, 16, 3, 2, 1, 1), self._block(32, 16)
        self.head = nn.Conv2d(16, 5, 1)

    @staticmethod
    def _block(i: int, o: int) -> Any:
        first = (nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(4, o), nn.SiLU())
        second = (nn.Conv2d(o, o, 3, padding=1, groups=4), nn.InstanceNorm2d(o, affine=True), nn.LeakyReLU())
        return nn.Sequential(*first, *second)

    def forward(self, x: Any) -> Any:
        a = self.d1(x)
        c = self.d2(functional.avg_pool2d(a, 2))
        y = self.u1(torch.cat([a, self.u(c + self.mid(c))], 1))
        large = functional.interpolate(self.head(y), scale_factor=2, mode="bilinear", align_corners=False)
        return large.log_softmax(1)


class Wave(nn.Module):
    """Dilated convolutions whose inputs are padded, so that a sum is needed with padding and without."""

    def __init__(self) -> None:
        super().__init__()
        self.c = nn.ModuleList(nn.Conv1d(16, 32, 2, dilation=2**i) for i in range(4))
        self.r = nn.ModuleList(nn.Conv1d(16, 16, 1) for _ in range(4))
        self.i, self.o = nn.Conv1d(1, 16, 1), nn.Conv1d(16, 10, 1)

    def forward(self, x: Any) -> Any:
        x, skip = self.i(x), 0
        for c, r in zip(self.c, self.r, strict=True):
            f, g = c(functional.pad(x, (c.dilation[0], 0))).chunk(2, 1)
            y = r(torch.tanh(f) * torch.sigmoid(g))
            skip, x = skip + y, x + y
        return self.o(functional.relu(skip)).mean(-1)


class Moe(nn.Module):
    """Experts as batched products, which need other layouts than the equations name."""

    def __init__(self) -> None:
        super().__init__()
        self.g, self.n = nn.Linear(32, 4), nn.RMSNorm(32)
        self.w1, self.w2 = nn.Parameter(torch.empty(4, 32, 64)), nn.Parameter(torch.empty(4, 64, 32))

    def forward(self, x: Any) -> Any:
        p = self.g(x).softmax(-1)
        y = functional.gelu(torch.einsum("btd,edf->betf", self.n(x), self.w1))
        return x + torch.einsum("bte,betd->btd", p, torch.einsum("betf,efd->betd", y, self.w2))


class Vae(nn.Module):
    """An encoder and a decoder with nearest neighbors and reflected borders."""

    def __init__(self) -> None:
        super().__init__()
        first = (nn.Conv2d(3, 8, 4, 2, 1), nn.ELU(), nn.BatchNorm2d(8))
        self.e = nn.Sequential(*first, nn.Conv2d(8, 16, 4, 2, 1), nn.ReLU6(), nn.Flatten())
        self.m, self.v, self.f = nn.Linear(16 * 64, 12), nn.Linear(16 * 64, 12), nn.Linear(12, 16 * 64)
        grow = (nn.Unflatten(1, (16, 8, 8)), nn.ConvTranspose2d(16, 8, 4, 2, 1), nn.PReLU(8))
        last = (nn.Upsample(scale_factor=2, mode="nearest"), nn.ReflectionPad2d(1), nn.Conv2d(8, 3, 3), nn.Sigmoid())
        self.d = nn.Sequential(*grow, *last)

    def forward(self, x: Any) -> Any:
        h = self.e(x)
        return self.d(self.f(self.m(h) + torch.exp(0.5 * self.v(h))))


class GatedBlock(nn.Module):
    """A block of gMLP: half of the channels are normed and mixed over all positions, and scale the other half."""

    def __init__(self, width: int, hidden: int, positions: int) -> None:
        super().__init__()
        self.norm, self.gate_norm = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(hidden // 2)
        self.fc1, self.fc2 = nn.Linear(width, hidden), nn.Linear(hidden // 2, width)
        self.proj = nn.Linear(positions, positions)

    def forward(self, x: Any) -> Any:
        u, v = functional.gelu(self.fc1(self.norm(x))).chunk(2, -1)
        v = self.proj(self.gate_norm(v).transpose(-1, -2)).transpose(-1, -2)
        return x + self.fc2(u * v)


class GMlp(nn.Module):
    """gMLP Ti/16 (Liu et al., 2021), as ``gmlp_ti16_224`` of timm."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 128, 16, 16)
        self.blocks = nn.Sequential(*(GatedBlock(128, 768, 196) for _ in range(30)))
        self.norm, self.head = nn.LayerNorm(128, eps=1e-6), nn.Linear(128, 1000)

    def forward(self, x: Any) -> Any:
        x = self.stem(x).flatten(2).transpose(1, 2)
        return self.head(self.norm(self.blocks(x)).mean(1))


class EinsumAttention(nn.Module):
    """Attention in equations: queries, keys and values are copied, since heads lie between positions and channels."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(64, 192), nn.Linear(64, 64)

    def forward(self, x: Any) -> Any:
        q, k, v = self.qkv(x).view(2, 128, 3, 4, 16).unbind(2)
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k).softmax(-1)
        return self.out(torch.einsum("bhqk,bkhd->bqhd", scores, v).flatten(2))


class HalfNorm(nn.Module):
    """A norm over half of an activation, which the other half multiplies."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.n, self.b = nn.Linear(64, 256), nn.LayerNorm(128), nn.Linear(128, 64)

    def forward(self, x: Any) -> Any:
        u, v = functional.gelu(self.a(x)).chunk(2, -1)
        return self.b(u * self.n(v))


class PadBeside(nn.Module):
    """An activation that one reader pads and another adds."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv1d(16, 16, 1), nn.Conv1d(16, 16, 3)

    def forward(self, x: Any) -> Any:
        x = functional.relu(self.a(x))
        return functional.relu(self.b(functional.pad(x, (2, 0)))) + x


class LongSoftmax(nn.Module):
    """A softmax over a vocabulary, for few rows."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(64, 50000)

    def forward(self, x: Any) -> Any:
        return self.head(x).log_softmax(-1)


class ReducedAttention(nn.Module):
    """A block of PVT v2: convolutions over tokens reduce the keys, and lie between the layers of the perceptron."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(32) for _ in range(4))
        self.q, self.kv, self.proj = nn.Linear(32, 32), nn.Linear(32, 64), nn.Linear(32, 32)
        self.reduce = nn.Conv2d(32, 32, 4, 4)
        self.fc1, self.fc2 = nn.Linear(32, 128), nn.Linear(128, 32)
        self.near = nn.Conv2d(128, 128, 3, padding=1, groups=128)

    def forward(self, x: Any) -> Any:
        batch, _, height, width = x.shape
        x = self.norms[0](x.flatten(2).transpose(1, 2))
        y = self.norms[1](x)
        q = self.q(y).view(batch, -1, 2, 16).transpose(1, 2)
        y = self.reduce(y.transpose(1, 2).reshape(batch, 32, height, width)).flatten(2).transpose(1, 2)
        k, v = self.kv(self.norms[2](y)).view(batch, -1, 2, 2, 16).permute(2, 0, 3, 1, 4).unbind(0)
        y = ((q * 0.25) @ k.transpose(-2, -1)).softmax(-1) @ v
        x = x + self.proj(y.transpose(1, 2).reshape(batch, -1, 32))
        y = self.fc1(self.norms[3](x)).transpose(1, 2).view(batch, 128, height, width)
        return x + self.fc2(functional.gelu(self.near(y).flatten(2).transpose(1, 2)))


class TalkingHeads(nn.Module):
    """Attention of CaiT, whose heads are mixed by linear layers over a permuted axis."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(64, 192), nn.Linear(64, 64)
        self.before, self.after = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).reshape(batch, length, 3, 4, 16).permute(2, 0, 3, 1, 4).unbind(0)
        scores = self.before(((q * 0.25) @ k.transpose(-2, -1)).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        scores = self.after(scores.softmax(-1).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return self.out((scores @ v).transpose(1, 2).reshape(batch, length, 64))


class NormedImage(nn.Module):
    """A norm whose tokens a convolution reads as an image: it reads its rows again, to write them in that layout."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.out = nn.LayerNorm(32), nn.Linear(32, 32)
        self.conv = nn.Conv2d(32, 32, 3, padding=1, groups=32)

    def forward(self, x: Any) -> Any:
        y = self.norm(x).transpose(1, 2).unflatten(2, (16, 16))
        return self.out(self.conv(y).flatten(2).transpose(1, 2)) + x


class ChannelsLast(nn.Module):
    """Blocks of ConvNeXt: the norm and the linear layers between convolutions have channels last."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(16, 16, 7, padding=3, groups=16), nn.LayerNorm(16)
        self.a, self.b = nn.Linear(16, 64), nn.Linear(64, 16)

    def forward(self, x: Any) -> Any:
        for _ in range(2):
            y = self.b(functional.relu(self.a(self.norm(self.conv(x).permute(0, 2, 3, 1)))))
            x = x + y.permute(0, 3, 1, 2)
        return x


class TwoConvs(nn.Module):
    """A convolution whose bias no loop can add, since another one reads its result."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 8, 1)

    def forward(self, x: Any) -> Any:
        return functional.relu(self.b(self.a(x)))


class ThreeBranches(nn.Module):
    """Blocks of RepVGG: the batch norm of the input is added to those of two convolutions of it."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.BatchNorm2d(16) for _ in range(6))
        self.wide = nn.ModuleList(nn.Conv2d(16, 16, 3, padding=1, bias=False) for _ in range(2))
        self.near = nn.ModuleList(nn.Conv2d(16, 16, 1, bias=False) for _ in range(2))

    def forward(self, x: Any) -> Any:
        for i in range(2):
            a, b, c = self.norms[3 * i : 3 * i + 3]
            x = functional.relu(a(x) + b(self.wide[i](x)) + c(self.near[i](x)))
        return x


def two_group_norms() -> Any:
    return nn.Sequential(nn.GroupNorm(1, 64), nn.GroupNorm(1, 64))


def group_norms() -> Any:
    first = (nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.GroupNorm(1, 64), nn.ReLU(), nn.GroupNorm(1, 64))
    return nn.Sequential(*first, nn.Conv2d(64, 64, 1, bias=False), nn.GroupNorm(8, 64))


NETWORKS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "unet": (UNet, (2, 3, 64, 64)),
    "vae": (Vae, (2, 3, 32, 32)),
    "moe": (Moe, (2, 64, 32)),
    "wave": (Wave, (2, 1, 512)),
    "gmlp": (GMlp, (1, 3, 224, 224)),
    "two_group_norms": (two_group_norms, (1, 64, 56, 56)),
    "group_norms": (group_norms, (1, 3, 64, 64)),
    "einsum_attention": (EinsumAttention, (2, 128, 64)),
    "half_norm": (HalfNorm, (2, 128, 64)),
    "pad_beside": (PadBeside, (2, 16, 512)),
    "long_softmax": (LongSoftmax, (32, 64)),
    "reduced_attention": (ReducedAttention, (2, 32, 16, 16)),
    "talking_heads": (TalkingHeads, (2, 128, 64)),
    "normed_image": (NormedImage, (2, 256, 32)),
    "channels_last": (ChannelsLast, (2, 16, 16, 16)),
    "two_convs": (TwoConvs, (2, 3, 32, 32)),
    "three_branches": (ThreeBranches, (2, 16, 32, 32)),
}
"""Builder and shape of the input, by the name in the table."""
