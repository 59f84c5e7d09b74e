"""The chains of a sweep: blocks of networks with varied shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import product
from random import Random
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .blocks import (
    ConvNext,
    Dense,
    Embedding,
    GatedPerceptron,
    Recurrent,
    Residual,
    RmsNorm,
    Rotary,
    SelfAttention,
    Shuffle,
    SqueezeExcite,
    Upsample,
    WindowAttention,
    conv_norm,
)

ACTIVATIONS = (
    partial(nn.ReLU, inplace=True),
    nn.ReLU,
    partial(nn.ReLU6, inplace=True),
    partial(nn.SiLU, inplace=True),
    nn.Hardswish,
    nn.GELU,
    nn.LeakyReLU,
)

SIDES = (7, 14, 28, 56, 112, 112, 224)
CHANNELS = (16, 24, 32, 48, 64, 96, 128, 160, 192, 256, 384, 512, 768, 1024)


class Chain(NamedTuple):
    """Operators that run one after another, as in a network.

    Attributes:
        name: its kind and shape.
        module: the blocks.
        inputs: what they are given.
    """

    name: str
    module: nn.Module
    inputs: tuple[Tensor, ...]


Maker = Callable[["Shapes"], "tuple[nn.Module, tuple[Any, ...]]"]


BATCHES = (1, 2, 4, 8)
LENGTHS = (1, 7, 16, 32, 49, 64, 100, 128, 197, 256, 384, 512)
WIDTHS = (64, 128, 192, 256, 384, 512, 768, 1024)

LARGEST_MAP = 2**23
"""The most elements of a map at the start of a chain; those inside may have some times as many."""

SMALLEST_SIDE_BY_CHANNELS = 256
"""Networks have many channels where maps are small: the least product of channels and side."""


class Shapes:
    """Draws shapes whose work is within a limit; if none is, the one with the least work.

    Args:
        random: the source of choices.
        limit: about how many MACs a chain may have; a chain has a part of them, so that all sizes occur.
    """

    def __init__(self, random: Random, limit: float) -> None:
        self.pick = random.choice
        self.limit = limit / random.choice((1, 4, 16))

    def image(self, weight: float, *, least: int = 16) -> tuple[int, int, int]:
        """Return batch, channels and side of a map, ``weight * n * c * c * h * h`` MACs within the limit."""
        shapes = [
            (n, c, side)
            for n, c, side in product(BATCHES, CHANNELS, SIDES)
            if c >= least and n * c * side * side <= LARGEST_MAP and c * side >= SMALLEST_SIDE_BY_CHANNELS
        ]
        n, c, side = self._within(shapes, lambda n, c, side: weight * n * c * c * side * side)
        return n, c, side + self.pick((0, 0, 0, -1, 1))

    def sequence(self, weight: float) -> tuple[int, int, int]:
        """Return batch, length and width of a sequence, ``weight * n * length * width**2`` MACs within the limit."""
        return self._within(product(BATCHES, LENGTHS, WIDTHS), lambda n, length, width: weight * n * length * width**2)

    def _within(
        self, shapes: Iterable[tuple[int, int, int]], work: Callable[[int, int, int], float]
    ) -> tuple[int, int, int]:
        shapes = list(shapes)
        return self.pick([s for s in shapes if work(*s) <= self.limit] or [min(shapes, key=lambda s: work(*s))])


def _basic(shapes: Shapes) -> tuple[nn.Module, tuple[Any, ...]]:
    n, c, side = shapes.image(18)
    act, out = shapes.pick(ACTIVATIONS), shapes.pick((c, c, 2 * c))
    stride = 1 if out == c else 2
    first = Residual(*conv_norm(c, out, 3, act, stride), *conv_norm(out, out, 3, None), after=act())
    return nn.Sequential(first), (n, c, side, side)


def _bottleneck(shapes: Shapes) -> tuple[nn.Module, tuple[Any, ...]]:
    n, c, side = shapes.image(17 / 8, least=64)
    inner, act = c // 4, shapes.pick(ACTIVATIONS)
    groups = shapes.pick((1, 1, 2, 8)) if inner % 8 == 0 else 1
    blocks = [
        Residual(
            *conv_norm(c, inner, 1, act),
            *conv_norm(inner, inner, 3, act, 1, groups),
            *conv_norm(inner, c, 1, None),
            after=act(),
        )
        for _ in range(2)
    ]
    return nn.Sequential(*blocks), (n, c, side, side)


def _regular(shapes: Shapes) -> tuple[nn.Module, tuple[Any, ...]]:
    n, c, side = shapes.image(4, least=48)
    width = shapes.pick([each for each in (8, 16, 24, 32, 48) if c % each == 0])
    act = nn.ReLU
    blocks = [
        Residual(
            *conv_norm(c, c, 1, act), *conv_norm(c, c, 3, act, 1, c // width), *conv_norm(c, c, 1, None), after=act()
        )
        for _ in range(2)
    ]
    return nn.Sequential(*blocks), (n, c, side, side)


def _inverted(shapes: Shapes) -> tuple[nn.Module, tuple[Any, ...]]:
    n, c, side = shapes.image(12 * 2)
    inner, act, kernel = c * shapes.pick((1, 3, 6)), shapes.pick(ACTIVATIONS[2:5]), shapes.pick((3, 3, 5, 7))
    stride = shapes.pick((1, 1, 2))
    gate = [SqueezeExcite(inner, act)] if shapes.pick((True, False)) else []
    first, second = (
        Residual(
            *conv_norm(c, inner, 1, act),
            *conv_norm(inner, inner, kernel, act, s, inner),
            *gate,
            *conv_norm(inner, c, 1, None),
        )
        for s in (1, stride)
    )
    return nn.Sequential(first, second), (n, c, side, side)


def _stem(shapes: Shapes) -> tuple[nn.Module, tuple[Any, ...]]:
    n, side, out = shapes.pick((1, 2, 4)), shapes.pick((96, 112, 160, 224, 227)), shapes.pick((16, 24, 32, 64, 96))
    kernel, stride = shapes.pick(((3, 2), (7, 2), (7, 4), (11, 4), (4, 4), (16, 16), (3, 1)))
    pool = [nn.MaxPool2d(3, 2, 1)] if stride < 4 else []
    return nn.Sequential(*conv_norm(3, out, kernel, nn.ReLU, stride), *pool), (n, 3, side, side)


def _vgg(shapes: Shapes) -> tuple[nn.Module, tuple[Any, ...]]:
    n, c, side = shapes.image(18 * 2)
    out = 2 * c
    layers = [
        nn.Conv2d(c, out, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.Conv2d(out, out, 3, padding=1),
        nn.ReLU(inplace=True),
    ]
    pool = shapes.pick((nn.MaxPool2d(2), nn.AvgPool2d(2), nn.MaxPool2d(3, 2)))
    return nn.Sequential(*layers, pool), (n, c, side, side)


def _dense(shapes: Shapes) -> tuple[nn.Module, tuple[Any, ...]]:
    n, c, side = shapes.image(2)
    growth = shapes.pick((16, 32, 48))
    transition = [nn.BatchNorm2d(c + 2 * growth), nn.ReLU(), nn.Conv2d(c + 2 * growth, c // 2, 1), nn.AvgPool2d(2)]
    return nn.Sequential(Dense(c, growth), Dense(c + growth, growth), *transition), (n, c, side, side)


def _shuffle(shapes: Shapes) -> tuple[nn.Module, tuple[Any, ...]]:
    n, c, side = shapes.image(2)
    return nn.Sequential(Shuffle(c), Shuffle(c)), (n, c, side, side)


def _fire(shapes: Shapes) -> tuple[nn.Module, tuple[Any, ...]]:
    n, c, side = shapes.image(4, least=64)
    squeeze = nn.Sequential(nn.Conv2d(c, c // 8, 1), nn.ReLU(inplace=True))
    return nn.Sequential(squeeze, _Fire(c // 8, c // 2)), (n, c, side, side)


class _Fire(nn.Module):
    def __init__(self, channels: int, out: int) -> None:
        super().__init__()
        self.one, self.three = nn.Conv2d(channels, out, 1), nn.Conv2d(channels, out, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([torch.relu_(self.one(x)), torch.relu_(self.three(x))], 1)


def _convnext(shapes: Shapes) -> tuple[nn.Module, tuple[Any, ...]]:
    n, c, side = shapes.image(2 * 8)
    return nn.Sequential(ConvNext(c), ConvNext(c)), (n, c, side, side)


def _head(shapes: Shapes) -> tuple[nn.Module, tuple[Any, ...]]:
    n, c, side = shapes.pick((1, 2, 4, 8)), shapes.pick((256, 512, 1024, 1280, 2048)), shapes.pick((7, 8, 13, 14))
    classes = shapes.pick((10, 100, 1000))
    layers = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(c, classes), nn.Softmax(-1))
    return nn.Sequential(nn.ReLU(), *layers), (n, c, side, side)


def _perceptron(shapes: Shapes) -> tuple[nn.Module, tuple[Any, ...]]:
    n = shapes.pick((1, 1, 2, 4, 8, 16, 32, 64, 128, 256))
    widths = [shapes.pick((64, 128, 256, 512, 784, 1000, 1024, 2048, 4096, 9216)) for _ in range(3)]
    while n > 1 and n * (widths[0] + widths[2]) * widths[1] > shapes.limit:
        n //= 2
    act = shapes.pick((nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.ELU))
    a, b, c = widths
    layers = [nn.Linear(a, b), act(), nn.Linear(b, c), nn.LayerNorm(c), act(), nn.Linear(c, max(10, c // 4))]
    return nn.Sequential(*layers), (n, a)


def _transformer(shapes: Shapes) -> tuple[nn.Module, tuple[Any, ...]]:
    n, length, width = shapes.sequence(24)
    head = shapes.pick([d for d in (32, 64, 128) if width % d == 0])
    fused, act = shapes.pick((True, True, False)), shapes.pick((nn.GELU, nn.ReLU, partial(nn.GELU, "tanh")))
    blocks: list[nn.Module] = []
    for _ in range(2):
        blocks.append(Residual(nn.LayerNorm(width), SelfAttention(width, width // head, fused=fused)))
        blocks.append(
            Residual(
                nn.LayerNorm(width), nn.Linear(width, 4 * width), act(), nn.Linear(4 * width, width), nn.Dropout(0.1)
            )
        )
    return nn.Sequential(*blocks), (n, length, width)


def _llama(shapes: Shapes) -> tuple[nn.Module, tuple[Any, ...]]:
    n, length, width = shapes.sequence(12)
    head = shapes.pick([d for d in (32, 64, 128) if width % d == 0])
    heads = width // head
    kv_heads = shapes.pick([h for h in (1, 2, 4, heads) if heads % h == 0])
    attention = SelfAttention(width, heads, fused=True, causal=True, kv_heads=kv_heads)
    perceptron = GatedPerceptron(width, (8 * width // 3 + 31) // 32 * 32)
    return nn.Sequential(
        Residual(RmsNorm(width), Rotary(), attention), Residual(RmsNorm(width), perceptron), RmsNorm(width)
    ), (n, length, width)


def _mixer(shapes: Shapes) -> tuple[nn.Module, tuple[Any, ...]]:
    n, length, width = shapes.sequence(10)
    length = max(length, 16)
    return nn.Sequential(_Mixer(length, width), _Mixer(length, width)), (n, length, width)


class _Mixer(nn.Module):
    """A perceptron over positions, then one over features."""

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.over_positions = nn.Sequential(nn.Linear(length, width // 2), nn.GELU(), nn.Linear(width // 2, length))
        self.over_features = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x: Tensor) -> Any:
        x = x + self.over_positions(self.norm(x).transpose(1, 2)).transpose(1, 2)
        return x + self.over_features(x)


def _encoder(shapes: Shapes) -> tuple[nn.Module, tuple[Any, ...]]:
    n, length, width = shapes.sequence(24)
    head = shapes.pick([d for d in (32, 64) if width % d == 0])
    blocks = (nn.TransformerEncoderLayer(width, width // head, 4 * width, batch_first=True) for _ in range(2))
    return nn.Sequential(*blocks, _SelfAttention(width, width // head)), (n, length, width)


class _SelfAttention(nn.Module):
    """PyTorch's own module, which runs one fused operator."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x: Tensor) -> Any:
        return self.attention(x, x, x, need_weights=False)[0]


def _window(shapes: Shapes) -> tuple[nn.Module, tuple[Any, ...]]:
    n, c, side = shapes.image(24, least=64)
    heads = c // 32
    blocks = (
        Residual(
            Residual(nn.LayerNorm(c), WindowAttention(c, heads, 7)),
            Residual(nn.LayerNorm(c), nn.Linear(c, 4 * c), nn.GELU(), nn.Linear(4 * c, c)),
        )
        for _ in range(2)
    )
    return nn.Sequential(*blocks), (n, side, side, c)


def _embedding(shapes: Shapes) -> tuple[nn.Module, tuple[Any, ...]]:
    n, length, width = shapes.sequence(1)
    n_tokens = shapes.pick((1000, 10000, 32000))
    head = nn.Linear(width, n_tokens, bias=False) if n * length * width * n_tokens < shapes.limit else nn.Identity()
    return nn.Sequential(Embedding(n_tokens, width, length), nn.Dropout(0.1), head), (n, length)


def _upsample(shapes: Shapes) -> tuple[nn.Module, tuple[Any, ...]]:
    n, c, side = shapes.image(18 * 4)
    return Upsample(c, shapes.pick(("transposed", "nearest", "bilinear"))), (
        (n, c, side, side),
        (n, c, 2 * side, 2 * side),
    )


def _recurrent(shapes: Shapes) -> tuple[nn.Module, tuple[Any, ...]]:
    n, length, width = shapes.sequence(8)
    return Recurrent(shapes.pick(("LSTM", "GRU")), width), (n, length, width)


MAKERS: Mapping[str, tuple[Maker, int]] = {
    "basic": (_basic, 4),
    "bottleneck": (_bottleneck, 4),
    "regular": (_regular, 3),
    "inverted": (_inverted, 6),
    "stem": (_stem, 4),
    "vgg": (_vgg, 3),
    "dense": (_dense, 3),
    "shuffle": (_shuffle, 2),
    "fire": (_fire, 2),
    "convnext": (_convnext, 2),
    "head": (_head, 2),
    "perceptron": (_perceptron, 5),
    "transformer": (_transformer, 7),
    "encoder": (_encoder, 3),
    "window": (_window, 3),
    "llama": (_llama, 4),
    "mixer": (_mixer, 2),
    "embedding": (_embedding, 3),
    "upsample": (_upsample, 2),
    "recurrent": (_recurrent, 2),
}
"""What makes the chains, and how many of 66 chains are of that kind."""


def make_chains(count: int, limit: float, seed: int = 0) -> list[Chain]:
    """Return chains with the same shapes for the same arguments, on the CPU.

    Args:
        count: about how many chains.
        limit: about how many MACs one may have.
        seed: of the choice of shapes.
    """
    shares = sum(share for _, share in MAKERS.values())
    chains = []
    for name, (make, share) in MAKERS.items():
        for i in range(max(1, round(count * share / shares))):
            module, shape = make(Shapes(Random(f"{seed} {name} {i}"), limit))
            chains.append(Chain(f"{name} {shape}", module.eval(), _inputs(module, shape)))
    return chains


def _inputs(module: nn.Module, shape: tuple[Any, ...]) -> tuple[Tensor, ...]:
    first = next(module.modules().__iter__()) if not isinstance(module, nn.Sequential) else module[0]
    if isinstance(first, Embedding):
        return (torch.randint(first.tokens.num_embeddings, shape),)
    shapes = shape if isinstance(shape[0], tuple) else (shape,)
    return tuple(torch.randn(each) for each in shapes)
