"""ResNet-50, ViT-B/16, Llama and an LSTM in Flax, spelled as torchvision, transformers and PyTorch have them."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn


class Bottleneck(nn.Module):
    """The block of ResNet-50: convolutions of 1, 3 and 1, the stride in the second."""

    width: int
    stride: int
    train: bool

    @nn.compact
    def __call__(self, x: Any) -> Any:
        norm = partial(nn.BatchNorm, use_running_average=not self.train, epsilon=1e-5)
        conv = partial(nn.Conv, use_bias=False)
        y = nn.relu(norm()(conv(self.width, (1, 1))(x)))
        y = nn.relu(norm()(conv(self.width, (3, 3), self.stride, padding=1)(y)))
        y = norm()(conv(4 * self.width, (1, 1))(y))
        if y.shape != x.shape:
            x = norm(name="norm_proj")(conv(4 * self.width, (1, 1), self.stride, name="conv_proj")(x))
        return nn.relu(y + x)


class ResNet50(nn.Module):
    """He et al., arXiv:1512.03385, the variant of torchvision."""

    train: bool = False

    @nn.compact
    def __call__(self, x: Any) -> Any:
        x = nn.Conv(64, (7, 7), 2, padding=3, use_bias=False, name="conv_init")(x)
        x = nn.relu(nn.BatchNorm(use_running_average=not self.train, epsilon=1e-5, name="bn_init")(x))
        x = nn.max_pool(x, (3, 3), (2, 2), padding=((1, 1), (1, 1)))
        for stage, blocks in enumerate((3, 4, 6, 3)):
            for block in range(blocks):
                x = Bottleneck(64 * 2**stage, 2 if stage and not block else 1, self.train)(x)
        return nn.Dense(1000)(jnp.mean(x, (1, 2)))


class Attention(nn.Module):
    """Self-attention whose projections are one packed linear layer, as in ``torch.nn.MultiheadAttention``."""

    heads: int

    @nn.compact
    def __call__(self, x: Any) -> Any:
        *batch, steps, width = x.shape
        packed = nn.Dense(3 * width, name="in_proj")(x).reshape(*batch, steps, 3, self.heads, width // self.heads)
        y = nn.dot_product_attention(*(packed[..., i, :, :] for i in range(3)))
        return nn.Dense(width, name="out_proj")(y.reshape(*batch, steps, width))


class EncoderBlock(nn.Module):
    """The block of a Vision Transformer: norms before attention and MLP."""

    heads: int
    hidden: int

    @nn.compact
    def __call__(self, x: Any) -> Any:
        x = x + Attention(self.heads)(nn.LayerNorm()(x))
        y = nn.Dense(self.hidden)(nn.LayerNorm()(x))
        return x + nn.Dense(x.shape[-1])(nn.gelu(y, approximate=False))


class ViT(nn.Module):
    """Dosovitskiy et al., arXiv:2010.11929: ViT-B/16."""

    depth: int = 12
    width: int = 768

    @nn.compact
    def __call__(self, x: Any) -> Any:
        x = nn.Conv(self.width, (16, 16), 16, padding="VALID")(x)
        x = x.reshape(x.shape[0], -1, self.width)
        token = self.param("class_token", nn.initializers.zeros, (1, 1, self.width))
        x = jnp.concatenate([jnp.broadcast_to(token, (x.shape[0], 1, self.width)), x], 1)
        x = x + self.param("pos_embedding", nn.initializers.zeros, (1, x.shape[1], self.width))
        for _ in range(self.depth):
            x = EncoderBlock(self.width // 64, 4 * self.width)(x)
        return nn.Dense(1000)(nn.LayerNorm()(x)[:, 0])


class LlamaBlock(nn.Module):
    """Touvron et al., arXiv:2307.09288: grouped heads, rotary positions, a gated MLP."""

    heads: int = 8
    kv_heads: int = 2
    hidden: int = 1376

    @nn.compact
    def __call__(self, x: Any) -> Any:
        width = x.shape[-1]
        dense = partial(nn.Dense, use_bias=False)
        head = partial(nn.DenseGeneral, use_bias=False)
        y = nn.RMSNorm()(x)
        q, k, v = (
            head((heads, width // self.heads), name=name)(y)
            for name, heads in (("q", self.heads), ("k", self.kv_heads), ("v", self.kv_heads))
        )
        y = jax.nn.dot_product_attention(rotated(q), rotated(k), v, is_causal=True)
        x = x + dense(width, name="o")(y.reshape(x.shape))
        y = nn.RMSNorm()(x)
        return x + dense(width)(nn.silu(dense(self.hidden)(y)) * dense(self.hidden)(y))


def rotated(x: Any) -> Any:
    """Rotate the features of every head by an angle that grows with the position."""
    half = x.shape[-1] // 2
    angles = jnp.arange(x.shape[1])[:, None] * 10000.0 ** (-jnp.arange(half) / half)
    cos, sin = jnp.cos(angles)[:, None, :], jnp.sin(angles)[:, None, :]
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


class Llama(nn.Module):
    """An embedding of 1000 tokens, one block and the last norm."""

    @nn.compact
    def __call__(self, tokens: Any) -> Any:
        return nn.RMSNorm()(LlamaBlock()(nn.Embed(1000, 512)(tokens)))


class LSTMCell(nn.RNNCellBase):
    """The cell of PyTorch: gates with a bias for the input and one for the state."""

    features: int = 64

    @nn.compact
    def __call__(self, carry: Any, x: Any) -> Any:
        c, h = carry
        gates = nn.Dense(4 * self.features, name="ih")(x) + nn.Dense(4 * self.features, name="hh")(h)
        i, f, g, o = jnp.split(gates, 4, -1)
        c = nn.sigmoid(f) * c + nn.sigmoid(i) * jnp.tanh(g)
        h = nn.sigmoid(o) * jnp.tanh(c)
        return (c, h), h

    @nn.nowrap
    def initialize_carry(self, rng: Any, input_shape: Any) -> Any:
        zeros = jnp.zeros((*input_shape[:-1], self.features))
        return zeros, zeros

    @property
    def num_feature_axes(self) -> int:
        return 1


class LSTM(nn.Module):
    """``torch.nn.LSTM`` of 64 units."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        return nn.RNN(LSTMCell())(x)
