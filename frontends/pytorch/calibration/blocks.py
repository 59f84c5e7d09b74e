"""Blocks of networks, in which the sweep measures operators as they run in a network: among others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

Activation = Callable[[], nn.Module]


class Residual(nn.Module):
    """A block whose input is added to its output, if their shapes are equal."""

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


class ConvNext(nn.Module):
    """A block of ConvNeXt: depthwise convolution, then a perceptron on the last axis."""

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
    """A step of a decoder: the map is enlarged, joined with an earlier one, and convolved."""

    def __init__(self, channels: int, mode: str) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(channels, channels // 2, 2, 2) if mode == "transposed" else None
        self.mode = mode
        joined = channels // 2 + channels if self.up is not None else 2 * channels
        groups = 8 if channels % 8 == 0 else 1
        self.layers = nn.Sequential(
            nn.Conv2d(joined, channels, 3, padding=1), nn.GroupNorm(groups, channels), nn.SiLU()
        )

    def forward(self, x: Tensor, earlier: Tensor) -> Any:
        """Run the block."""
        y = functional.interpolate(x, scale_factor=2.0, mode=self.mode) if self.up is None else self.up(x)
        return self.layers(torch.cat([y, earlier], 1))


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

    def __init__(self, kind: str, width: int) -> None:
        super().__init__()
        self.layer = getattr(nn, kind)(width, width, batch_first=True)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Any:
        """Run the block."""
        return self.out(torch.tanh(self.layer(x)[0]))


def conv_norm(
    channels: int, out: int, kernel: int, act: Activation | None, stride: int = 1, groups: int = 1
) -> list[nn.Module]:
    """Return a convolution with batch norm and an activation."""
    layers = [
        nn.Conv2d(channels, out, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(out),
    ]
    return [*layers, act()] if act is not None else layers
