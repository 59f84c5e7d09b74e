"""A small decoder of Llama's shape, and what its training costs by hand."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import nn

from costcore import Tensor
from tests.frontends.pytorch.differences import HAS_GROUPED_QUERIES

VOCABULARY, WIDTH, HEADS, GROUPS, HEAD, INNER, LAYERS = 96, 32, 4, 2, 8, 80, 3
BATCH, SEQUENCE = 2, 16
TOKENS = BATCH * SEQUENCE

Q = WIDTH * HEADS * HEAD  # 32 x 32 = 1024 weights
K = V = WIDTH * GROUPS * HEAD  # 32 x 16 = 512
O = HEADS * HEAD * WIDTH  # noqa: E741 - 1024
MLP = WIDTH * INNER  # 32 x 80 = 2560, three times
OUTPUT = WIDTH * VOCABULARY  # 3072
LINEAR = LAYERS * (Q + K + V + O + 3 * MLP) + OUTPUT  # 3 x 10752 + 3072 = 35328 weights that multiply
ATTENTION = 2 * LAYERS * BATCH * HEADS * SEQUENCE**2 * HEAD  # MACs: scores and values over all pairs
FORWARD = TOKENS * LINEAR + ATTENTION
IDS = Tensor((BATCH, SEQUENCE), "int64")


class Attention(nn.Module):
    def __init__(self, is_fused):
        super().__init__()
        self.is_fused = is_fused
        self.q = nn.Linear(WIDTH, HEADS * HEAD, bias=False)
        self.k = nn.Linear(WIDTH, GROUPS * HEAD, bias=False)
        self.v = nn.Linear(WIDTH, GROUPS * HEAD, bias=False)
        self.o = nn.Linear(HEADS * HEAD, WIDTH, bias=False)

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (-1, HEAD)).transpose(1, 2) for f in (self.q, self.k, self.v))
        options = {"enable_gqa": True} if self.is_fused and HAS_GROUPED_QUERIES else {}
        if not options:
            k, v = (each.repeat_interleave(HEADS // GROUPS, dim=1) for each in (k, v))
        if self.is_fused:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, **options)
        else:
            hidden = torch.ones(SEQUENCE, SEQUENCE, dtype=torch.bool, device=x.device).triu(1)
            y = (q @ k.transpose(-2, -1)).masked_fill(hidden, -1e9).softmax(-1) @ v
        return self.o(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, is_fused):
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention(is_fused)
        self.gate, self.up = (nn.Linear(WIDTH, INNER, bias=False) for _ in range(2))
        self.down = nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x):
        x = x + self.attention(self.first(x))
        y = self.second(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    def __init__(self, is_fused=True):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block(is_fused) for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids):
        x = self.tokens(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Adapted(nn.Module):
    """A frozen layer with a trained product of two small matrices beside it (LoRA)."""

    def __init__(self, layer, rank):
        super().__init__()
        self.layer = layer
        self.down = nn.Linear(layer.in_features, rank, bias=False)
        self.up = nn.Linear(rank, layer.out_features, bias=False)

    def forward(self, x):
        return self.layer(x) + self.up(self.down(x))


def with_adapters(rank):
    """Return the decoder with adapters on queries and values, all else frozen."""
    net = Decoder().requires_grad_(False)
    for block in net.blocks:
        block.attention.q = Adapted(block.attention.q, rank)
        block.attention.v = Adapted(block.attention.v, rank)
    return net
