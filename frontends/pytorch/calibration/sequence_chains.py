"""The chains of a sweep for sequences: blocks of networks with varied shapes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from torch import nn

from .image_blocks import Residual
from .sequence_blocks import (
    POINTWISE,
    Distances,
    Embedding,
    FusedSelfAttention,
    GatedPerceptron,
    Mixer,
    Pointwise,
    Recurrent,
    RmsNorm,
    Rotary,
    Selection,
    SelfAttention,
    Steps,
    WindowAttention,
)
from .shapes import Made, Maker, Shapes


def _perceptron(shapes: Shapes) -> Made:
    n = shapes.pick((1, 1, 2, 4, 8, 16, 32, 64, 128, 256))
    widths = [shapes.pick((64, 128, 256, 512, 784, 1000, 1024, 2048, 4096, 9216)) for _ in range(3)]
    while n > 1 and n * (widths[0] + widths[2]) * widths[1] > shapes.limit:
        n //= 2
    act = shapes.pick((nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.ELU))
    a, b, c = widths
    layers = [nn.Linear(a, b), act(), nn.Linear(b, c), nn.LayerNorm(c), act(), nn.Linear(c, max(10, c // 4))]
    return nn.Sequential(*layers), (n, a)


def _transformer(shapes: Shapes) -> Made:
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


def _encoder(shapes: Shapes) -> Made:
    n, length, width = shapes.sequence(24)
    head = shapes.pick([d for d in (32, 64) if width % d == 0])
    layers = (nn.TransformerEncoderLayer(width, width // head, 4 * width, batch_first=True) for _ in range(2))
    return nn.Sequential(*layers), (n, length, width)


def _fused(shapes: Shapes) -> Made:
    n, length, width = shapes.sequence(4)  # without a perceptron, so that maps are as large as in a vision transformer
    heads = width // shapes.pick([d for d in (32, 64) if width % d == 0])
    return nn.Sequential(Residual(nn.LayerNorm(width), FusedSelfAttention(width, heads))), (n, length, width)


def _window(shapes: Shapes) -> Made:
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


def _llama(shapes: Shapes) -> Made:
    n, length, width = shapes.sequence(12)
    head = shapes.pick([d for d in (32, 64, 128) if width % d == 0])
    heads = width // head
    kv_heads = shapes.pick([h for h in (1, 2, 4, heads) if heads % h == 0])
    attention = SelfAttention(width, heads, fused=True, causal=True, kv_heads=kv_heads)
    perceptron = GatedPerceptron(width, (8 * width // 3 + 31) // 32 * 32)
    return nn.Sequential(
        Residual(RmsNorm(width), Rotary(), attention), Residual(RmsNorm(width), perceptron), RmsNorm(width)
    ), (n, length, width)


def _mixer(shapes: Shapes) -> Made:
    n, length, width = shapes.sequence(10)
    length = max(length, 16)
    return nn.Sequential(Mixer(length, width), Mixer(length, width)), (n, length, width)


def _embedding(shapes: Shapes) -> Made:
    n, length, width = shapes.sequence(1)
    n_tokens = shapes.pick((1000, 10000, 32000))
    head = nn.Linear(width, n_tokens, bias=False) if n * length * width * n_tokens < shapes.limit else nn.Identity()
    return nn.Sequential(Embedding(n_tokens, width, length), nn.Dropout(0.1), head), (n, length)


def _recurrent(shapes: Shapes) -> Made:
    n, length, width = shapes.sequence(8 * 2)
    hidden = shapes.pick((width, width // 2, 2 * width if width < 512 else width))
    layer = shapes.pick((nn.LSTM, nn.LSTM, nn.LSTM, nn.GRU, nn.GRU, nn.RNN))
    made = layer(width, hidden, shapes.pick((1, 1, 2)), batch_first=True, bidirectional=shapes.pick((True, False)))
    return Recurrent(made), (n, length, width)


def _step(shapes: Shapes) -> Made:
    n, width = shapes.pick((1, 4, 16, 64)), shapes.pick((64, 128, 256, 512, 1024))
    cells = [cell(width, width) for cell in (nn.LSTMCell, nn.GRUCell, nn.RNNCell)]
    return Steps(*cells), (n, width)


def _selection(shapes: Shapes) -> Made:
    n, length, width = shapes.sequence(1)
    return Selection(shapes.pick((1, 5, 50))), (n, width, length)


def _distances(shapes: Shapes) -> Made:
    n, length, width = shapes.sequence(1)
    return Distances(), ((n, length, width), (n, shapes.pick((16, 64, 256, 1024)), width))


def _pointwise(shapes: Shapes) -> Made:
    """Functions of single elements, so that those of special functions and of others are known."""
    return Pointwise(shapes.pick(POINTWISE)), shapes.sequence(1)


SEQUENCE_CHAINS: Mapping[str, tuple[Maker, int]] = {
    "perceptron": (_perceptron, 3),
    "transformer": (_transformer, 7),
    "encoder": (_encoder, 2),
    "fused": (_fused, 4),
    "window": (_window, 3),
    "llama": (_llama, 4),
    "mixer": (_mixer, 2),
    "embedding": (_embedding, 3),
    "recurrent": (_recurrent, 14),
    "step": (_step, 2),
    "selection": (_selection, 4),
    "distances": (_distances, 2),
    "pointwise": (_pointwise, 6),
}
"""What makes the chains, and the share of each kind."""
