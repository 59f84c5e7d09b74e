"""Blocks of networks for sequences, in which the sweep measures operators among others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class SelfAttention(nn.Module):
    """Projections around attention: fused, or written as products and a softmax."""

    def __init__(self, width: int, heads: int, *, fused: bool, causal: bool = False, kv_heads: int = 0) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.fused, self.causal = heads, kv_heads or heads, fused, causal
        self.d = width // heads
        self.q = nn.Linear(width, width)
        self.kv = nn.Linear(width, 2 * self.d * self.kv_heads)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Any:
        """Run the block."""
        n, length, width = x.shape
        q = self.q(x).view(n, length, self.heads, self.d).transpose(1, 2)
        k, v = self.kv(x).view(n, length, 2, self.kv_heads, self.d).permute(2, 0, 3, 1, 4).unbind(0)
        if self.kv_heads != self.heads:
            k, v = (each.repeat_interleave(self.heads // self.kv_heads, dim=1) for each in (k, v))
        if self.fused:
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        else:
            y = torch.softmax(torch.matmul(q, k.transpose(-1, -2)) * self.d**-0.5, -1) @ v
        return self.out(y.transpose(1, 2).reshape(n, length, width))


class FusedSelfAttention(nn.Module):
    """PyTorch's own module, which runs one fused operator."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x: Tensor) -> Any:
        """Run the block."""
        return self.attention(x, x, x, need_weights=False)[0]


class WindowAttention(nn.Module):
    """Attention inside windows of a map, with a position bias, as Swin transformers have it."""

    def __init__(self, width: int, heads: int, window: int) -> None:
        super().__init__()
        self.heads, self.window = heads, window
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.bias = nn.Parameter(torch.zeros((2 * window - 1) ** 2, heads))
        self.register_buffer("index", torch.arange(window**4) % (2 * window - 1) ** 2)

    def forward(self, x: Tensor) -> Any:
        """Run the block."""
        n, side, _, width = x.shape
        w, heads = self.window, self.heads
        x = torch.roll(functional.pad(x, (0, 0, 0, -side % w, 0, -side % w)), (-(w // 2), -(w // 2)), (1, 2))
        across = x.shape[1] // w
        y = x.view(n, across, w, across, w, width).permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, width)
        q, k, v = self.qkv(y).reshape(-1, w * w, 3, heads, width // heads).permute(2, 0, 3, 1, 4).unbind(0)
        scores = (q * (width // heads) ** -0.5) @ k.transpose(-2, -1)
        bias = self.bias[self.index].view(w * w, w * w, -1).permute(2, 0, 1).contiguous()
        y = torch.softmax(scores + bias, -1) @ v
        y = self.out(y.transpose(1, 2).reshape(-1, w * w, width))
        y = y.view(n, across, across, w, w, width).permute(0, 1, 3, 2, 4, 5).reshape(n, across * w, across * w, width)
        return torch.roll(y, (w // 2, w // 2), (1, 2))[:, :side, :side, :].contiguous()


class RmsNorm(nn.Module):
    """RMS norm, as language models write it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """Run the block."""
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class Rotary(nn.Module):
    """Rotation of pairs of features by their position."""

    def forward(self, x: Tensor) -> Tensor:
        """Run the block."""
        _, length, width = x.shape
        cos = sin = torch.ones(1, length, width, device=x.device, dtype=x.dtype)
        a, b = x[..., : width // 2], x[..., width // 2 :]
        return x * cos + torch.cat((-b, a), -1) * sin


class GatedPerceptron(nn.Module):
    """The perceptron of LLaMA."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Any:
        """Run the block."""
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class Mixer(nn.Module):
    """A perceptron over positions, then one over features."""

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.over_positions = nn.Sequential(nn.Linear(length, width // 2), nn.GELU(), nn.Linear(width // 2, length))
        self.over_features = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x: Tensor) -> Any:
        """Run the block."""
        x = x + self.over_positions(self.norm(x).transpose(1, 2)).transpose(1, 2)
        return x + self.over_features(x)


class Embedding(nn.Module):
    """The first layers of a language model."""

    def __init__(self, n_tokens: int, width: int, length: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(n_tokens, width), nn.Embedding(length, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, ids: Tensor) -> Any:
        """Run the block."""
        positions = torch.arange(ids.shape[-1], device=ids.device)
        return self.norm(self.tokens(ids) + self.positions(positions))


class Recurrent(nn.Module):
    """A recurrent layer and what reads it."""

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.layer = layer
        width = layer.hidden_size * (2 if layer.bidirectional else 1)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Any:
        """Run the block."""
        return self.out(torch.tanh(self.layer(x)[0]))


class Steps(nn.Module):
    """Recurrent cells, one step of each."""

    def __init__(self, *cells: nn.Module) -> None:
        super().__init__()
        self.cells = nn.ModuleList(cells)

    def forward(self, x: Tensor) -> Tensor:
        """Run the block."""
        for cell in self.cells:
            y = cell(x)
            x = x + (y[0] if isinstance(y, tuple) else y)
        return x


class Selection(nn.Module):
    """Elements in another order: sorted, chosen, gathered and summed up along the last axis."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k

    def forward(self, x: Tensor) -> Tensor:
        """Run the block."""
        ordered, places = torch.sort(x, -1)
        best, _ = torch.topk(ordered, min(self.k, x.shape[-1]), -1)
        y = torch.gather(x, -1, places) + torch.cumsum(x, -1)
        y = torch.where(y > best[..., -1:], y, x).masked_fill(y < 0, 0.0)
        return torch.flip(y, (-1,)) + y.max(-1, keepdim=True).values + y.argmin(-1, keepdim=True)


class Distances(nn.Module):
    """Distances between all pairs of two sets of vectors."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Run the block."""
        return torch.cdist(x, y).min(-1).values + torch.linalg.vector_norm(x, dim=-1)


POINTWISE: Sequence[Sequence[Callable[[Tensor], Tensor]]] = (
    (torch.exp, torch.neg, torch.sigmoid, torch.sin, torch.abs),
    (functional.softplus, functional.mish, torch.square, torch.log1p),
    (torch.tanh, torch.cos, functional.selu, torch.erf, torch.floor),
    (functional.hardsigmoid, torch.sqrt, functional.relu6, torch.expm1),
    (torch.reciprocal, functional.logsigmoid, functional.elu, functional.softsign),
)
"""Functions that follow each other; none leaves the numbers that the ones before it return."""


class Pointwise(nn.Module):
    """Functions of single elements, one after another."""

    def __init__(self, functions: Sequence[Callable[[Tensor], Tensor]]) -> None:
        super().__init__()
        self.functions = functions
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        """Run the block."""
        x = x * self.scale
        for function in self.functions:
            x = x + function(x.clamp(0.1, 2.0))
        return x
