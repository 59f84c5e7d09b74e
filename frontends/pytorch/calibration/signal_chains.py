"""The chains of a sweep for signals: blocks of networks with one spatial axis."""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn

from .image_blocks import Residual
from .shapes import Made, Maker, Shapes
from .signal_blocks import Conformer, Gated, OverChannels


def _dilated(shapes: Shapes) -> Made:
    """Blocks of WaveNet: a gated convolution whose dilation doubles from block to block."""
    n, c, length = shapes.signal(2 * 5)
    first, kernel = shapes.pick((1, 4, 16, 64)), shapes.pick((2, 3))
    return nn.Sequential(Gated(c, kernel, first), Gated(c, kernel, 2 * first)), (n, c, length)


def _temporal(shapes: Shapes) -> Made:
    """A block of a temporal convolutional network."""
    n, c, length = shapes.signal(2 * 5)
    kernel, dilation, act = (
        shapes.pick((3, 3, 5, 7)),
        shapes.pick((1, 1, 2, 3, 5, 8)),
        shapes.pick((nn.ReLU, nn.LeakyReLU)),
    )
    reach = (kernel - 1) * dilation
    layers = [
        module
        for _ in range(2)
        for module in (
            nn.ConstantPad1d((reach, 0), 0.0),
            nn.Conv1d(c, c, kernel, dilation=dilation),
            act(),
            nn.Dropout(0.1),
        )
    ]
    return nn.Sequential(Residual(*layers)), (n, c, length)


def _features(shapes: Shapes) -> Made:
    """The encoder of wav2vec 2.0 or an audio codec: convolutions with a stride, from a wave or later."""
    n, c, length = shapes.signal(3, least=64)
    kernel, stride = shapes.pick(((3, 2), (2, 2), (4, 2), (8, 4), (10, 5)))
    norm = shapes.pick(([nn.GroupNorm(c, c)], [OverChannels(c)], []))
    layers = [nn.Conv1d(c, c, kernel, stride, bias=False), *norm, nn.GELU(), nn.Conv1d(c, c, 3, 2), nn.GELU()]
    return nn.Sequential(*layers), (n, c, length + kernel + 8)


def _wave(shapes: Shapes) -> Made:
    n, length = shapes.pick((1, 2, 4)), shapes.pick((4000, 16000, 32000))
    channels, out = shapes.pick((1, 1, 2, 80)), shapes.pick((16, 32, 64, 512))
    kernel, stride = shapes.pick(((10, 5), (7, 1), (3, 1), (16, 8), (80, 4)))
    layers = nn.Conv1d(channels, out, kernel, stride), nn.GroupNorm(out, out), nn.GELU()
    return nn.Sequential(*layers), (n, channels, length // (10 if channels > 2 else 1))


def _residual(shapes: Shapes) -> Made:
    """A block of ResNet or Inception for signals."""
    n, c, length = shapes.signal(2 * 9)
    kernel, stride = shapes.pick((3, 5, 9, 15, 39)), shapes.pick((1, 1, 2))
    layers = (nn.Conv1d(c, c, kernel, stride, kernel // 2, bias=False), nn.BatchNorm1d(c), nn.ReLU(inplace=True))
    pool = shapes.pick((nn.MaxPool1d(2), nn.AvgPool1d(2), nn.MaxPool1d(3, 2, 1)))
    return nn.Sequential(Residual(*layers, nn.Conv1d(c, c, 1)), pool), (n, c, length)


def _conformer(shapes: Shapes) -> Made:
    n, c, length = shapes.signal(4)
    return Conformer(c, shapes.pick((7, 15, 31))), (n, length, c)


def _grouped(shapes: Shapes) -> Made:
    """Positions as wav2vec 2.0 and HuBERT embed them: a grouped convolution with a large kernel."""
    n, c, length = shapes.signal(128 / 16, least=64)
    groups = shapes.pick((8, 16))
    kernel = shapes.pick((19, 128))
    return nn.Sequential(nn.Conv1d(c, c, kernel, padding=kernel // 2, groups=groups), nn.GELU()), (n, c, length)


def _vocoder(shapes: Shapes) -> Made:
    """A step of HiFi-GAN: a transposed convolution, then a dilated one."""
    n, c, length = shapes.signal(4 * 4, least=32)
    stride, dilation = shapes.pick((2, 4, 8)), shapes.pick((1, 3, 5))
    layers = (
        nn.LeakyReLU(0.1),
        nn.ConvTranspose1d(c, c // 2, 2 * stride, stride, stride // 2),
        nn.LeakyReLU(0.1),
        nn.Conv1d(c // 2, c // 2, 7, padding=3 * dilation, dilation=dilation),
    )
    return nn.Sequential(*layers, nn.Tanh()), (n, c, max(4, length // stride))


SIGNAL_CHAINS: Mapping[str, tuple[Maker, int]] = {
    "signal dilated": (_dilated, 3),
    "signal temporal": (_temporal, 3),
    "signal features": (_features, 3),
    "signal wave": (_wave, 2),
    "signal residual": (_residual, 3),
    "signal conformer": (_conformer, 2),
    "signal grouped": (_grouped, 2),
    "signal vocoder": (_vocoder, 3),
}
"""What makes the chains, and the share of each kind."""
