"""A decoder as the Llama family has it, from its configuration; modules are named as transformers names them.

Grouped heads (Ainslie et al., arXiv:2305.13245), rotary positions (Su et al., arXiv:2104.09864), RMS norms (Zhang and
Sennrich, arXiv:1910.07467), a gated perceptron (Shazeer, arXiv:2002.05202). Operators are called one by one as
transformers 5.23 does, but for its bookkeeping of masks and of the cache.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional


class Config(NamedTuple):
    """Sizes; the defaults are those of Llama 3.2 1B, whose word embedding is also its output layer."""

    width: int = 2048
    hidden: int = 8192
    layers: int = 16
    heads: int = 32
    key_heads: int = 8
    head: int = 64
    words: int = 128256
    theta: float = 500_000.0


N_PARAMS_1B = 1_235_814_400
"""What Meta's model card of Llama 3.2 1B publishes as 1.23 B; exact in the header of its safetensors file."""


class RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5))


class Rotary(nn.Module):
    """Sines and cosines of every place."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        exponents = torch.arange(0, config.head, 2).float() / config.head
        self.register_buffer("inv_freq", config.theta**-exponents, persistent=False)

    def forward(self, places: Tensor) -> tuple[Tensor, Tensor]:
        angles = self.inv_freq * places.unsqueeze(-1).to(torch.float32)
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos() * 1.0, angles.sin() * 1.0


def turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), dim=-1) * sin


class Attention(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.head = config.head
        self.q_proj = nn.Linear(config.width, config.heads * config.head, bias=False)
        self.k_proj = nn.Linear(config.width, config.key_heads * config.head, bias=False)
        self.v_proj = nn.Linear(config.width, config.key_heads * config.head, bias=False)
        self.o_proj = nn.Linear(config.heads * config.head, config.width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        n, t, _ = x.shape
        projections = (self.q_proj, self.k_proj, self.v_proj)
        q, k, v = (project(x).view(n, t, -1, self.head).transpose(1, 2) for project in projections)
        cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
        q, k = turned(q, cos, sin), turned(k, cos, sin)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o_proj(y.transpose(1, 2).reshape(n, t, -1))


class MLP(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.width, config.hidden, bias=False)
        self.up_proj = nn.Linear(config.width, config.hidden, bias=False)
        self.down_proj = nn.Linear(config.hidden, config.width, bias=False)
        self.act_fn = nn.SiLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.self_attn, self.mlp = Attention(config), MLP(config)
        self.input_layernorm, self.post_attention_layernorm = RMSNorm(config.width), RMSNorm(config.width)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Model(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.words, config.width)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.norm, self.rotary_emb = RMSNorm(config.width), Rotary(config)

    def forward(self, words: Tensor) -> Tensor:
        x = self.embed_tokens(words)
        cos, sin = self.rotary_emb((torch.arange(words.shape[1], device=words.device) + 0).unsqueeze(0))
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.norm(x)


class Llama(nn.Module):
    """Scores of every next word, for words (N, T)."""

    def __init__(self, config: Config = Config()) -> None:  # noqa: B008 - immutable
        super().__init__()
        self.model, self.lm_head = Model(config), nn.Linear(config.width, config.words, bias=False)
        self.lm_head.weight = self.model.embed_tokens.weight

    def forward(self, input_ids: Tensor) -> Tensor:
        return self.lm_head(self.model(input_ids))
