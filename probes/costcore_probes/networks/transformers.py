"""Transformers: ViT-B/16, the encoder of BERT-base, a block of GPT-2 and one of LLaMA, in evaluation mode."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it
from torch import nn

__all__ = ["Block", "Encoder", "Llama", "ViT"]


class Block(nn.Module):
    """Attention and a perceptron, each around a shortcut, with norms before them (GPT-2, ViT) or behind (BERT)."""

    def __init__(self, size: int, heads: int, inner: int, causal: bool = False, before: bool = True) -> None:
        super().__init__()
        self.heads, self.causal, self.before = heads, causal, before
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.norm1, self.norm2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.mlp = nn.Sequential(nn.Linear(size, inner), nn.GELU(), nn.Linear(inner, size))

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        """Return multi-head attention of x to itself."""
        batch, steps, size = x.shape
        q, k, v = self.qkv(x).view(batch, steps, 3, self.heads, size // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(batch, steps, size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the output of the block."""
        if self.before:
            x = x + self.attend(self.norm1(x))
            return x + self.mlp(self.norm2(x))
        x = self.norm1(x + self.attend(x))
        return self.norm2(x + self.mlp(x))


class Encoder(nn.Module):
    """The encoder of BERT (Devlin et al., arXiv:1810.04805): embeddings of words and positions, and blocks."""

    def __init__(
        self, layers: int = 12, size: int = 768, heads: int = 12, words: int = 30522, steps: int = 512
    ) -> None:
        super().__init__()
        self.words, self.places, self.norm = nn.Embedding(words, size), nn.Embedding(steps, size), nn.LayerNorm(size)
        self.blocks = nn.Sequential(*(Block(size, heads, 4 * size, before=False) for _ in range(layers)))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the states of the last layer."""
        x = self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        return self.blocks(self.norm(x))


class ViT(nn.Module):
    """ViT-B/16 (Dosovitskiy et al., arXiv:2010.11929) for 224 × 224, with a class token and 1000 classes."""

    def __init__(self, layers: int = 12, size: int = 768, heads: int = 12) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, size, 16, 16)
        self.token = nn.Parameter(torch.zeros(1, 1, size))
        self.places = nn.Parameter(torch.zeros(1, 197, size))
        self.blocks = nn.Sequential(*(Block(size, heads, 4 * size) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(size), nn.Linear(size, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores of the classes."""
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.norm(self.blocks(x))[:, 0])


class Llama(nn.Module):
    """A block of LLaMA (Touvron et al., arXiv:2302.13971): RMS norms, rotated queries and keys, a gated perceptron."""

    def __init__(self, size: int, heads: int, groups: int, inner: int) -> None:
        super().__init__()
        self.heads, self.groups, self.per_head = heads, groups, size // heads
        self.q, self.out = nn.Linear(size, size, bias=False), nn.Linear(size, size, bias=False)
        self.kv = nn.Linear(size, 2 * groups * self.per_head, bias=False)
        self.norm1, self.norm2 = nn.RMSNorm(size), nn.RMSNorm(size)
        self.gate, self.up = nn.Linear(size, inner, bias=False), nn.Linear(size, inner, bias=False)
        self.down = nn.Linear(inner, size, bias=False)

    def rotate(self, x: torch.Tensor) -> torch.Tensor:
        """Return x, rotated by its position."""
        angles = torch.ones(x.shape[-2], x.shape[-1], device=x.device)
        first, second = x.chunk(2, -1)
        return x * angles + torch.cat([-second, first], -1) * angles

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the output of the block."""
        batch, steps, size = x.shape
        h = self.norm1(x)
        q = self.q(h).view(batch, steps, self.heads, self.per_head).transpose(1, 2)
        k, v = self.kv(h).view(batch, steps, 2, self.groups, self.per_head).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(self.rotate(q), self.rotate(k), v, is_causal=True, enable_gqa=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, steps, size))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))
