"""ViT-B/16 and Swin-T, written as the networks are whose numbers people print."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it
from torch import Tensor, nn


class ViTBlock(nn.Module):
    """Self-attention by ``nn.MultiheadAttention`` and an MLP, each after a norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    """Dosovitskiy et al., arXiv:2010.11929, ViT-Base with patches of 16 x 16."""

    def __init__(self, width: int = 768, depth: int = 12, heads: int = 12) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.zeros(1, 197, width))
        self.blocks = nn.Sequential(*(ViTBlock(width, heads) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.positions
        return self.head(self.norm(self.blocks(x))[:, 0])


WINDOW = 7


class WindowAttention(nn.Module):
    """Attention inside windows of 7 x 7, every second time of shifted ones; its projections are called as functions."""

    def __init__(self, width: int, heads: int, shift: int) -> None:
        super().__init__()
        self.heads, self.shift = heads, shift
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.bias = nn.Parameter(torch.zeros(1, heads, WINDOW**2, WINDOW**2))

    def forward(self, x: Tensor) -> Tensor:
        n, side, _, width = x.shape
        shift, count = (self.shift if side > WINDOW else 0), side // WINDOW
        if shift:
            x = torch.roll(x, (-shift, -shift), (1, 2))
        x = x.view(n, count, WINDOW, count, WINDOW, width).permute(0, 1, 3, 2, 4, 5).reshape(-1, WINDOW**2, width)
        heads = F.linear(x, self.project.weight, self.project.bias).reshape(*x.shape[:2], 3, self.heads, -1)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        scores = (q * (width // self.heads) ** -0.5).matmul(k.transpose(-2, -1)) + self.bias
        x = F.softmax(scores, dim=-1).matmul(v).transpose(1, 2).reshape(x.shape)
        x = F.linear(x, self.out.weight, self.out.bias)
        x = x.view(n, count, count, WINDOW, WINDOW, width).permute(0, 1, 3, 2, 4, 5).reshape(n, side, side, width)
        return torch.roll(x, (shift, shift), (1, 2)) if shift else x


class SwinBlock(nn.Module):
    """Window attention and an MLP, each after a norm."""

    def __init__(self, width: int, heads: int, shift: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = WindowAttention(width, heads, shift)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Merging(nn.Module):
    """Join 2 x 2 neighbors to one of twice the width."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.reduce = nn.LayerNorm(4 * width), nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        parts = [x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)]
        return self.reduce(self.norm(torch.cat(parts, -1)))


class Swin(nn.Module):
    """Liu et al., arXiv:2103.14030, Swin-T."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.first = nn.Conv2d(3, 96, 4, 4), nn.LayerNorm(96)
        layers: list[nn.Module] = []
        for stage, (depth, heads) in enumerate(((2, 3), (2, 6), (6, 12), (2, 24))):
            width = 96 * 2**stage
            layers += [Merging(width // 2)] if stage else []
            layers += [SwinBlock(width, heads, WINDOW // 2 * (i % 2)) for i in range(depth)]
        self.layers, self.norm = nn.Sequential(*layers), nn.LayerNorm(768)
        self.pool, self.head = nn.AdaptiveAvgPool2d(1), nn.Linear(768, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.layers(self.first(self.patches(x).permute(0, 2, 3, 1))))
        return self.head(self.pool(x.permute(0, 3, 1, 2)).flatten(1))
