"""The chains of a sweep for images: blocks of networks with varied shapes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from torch import nn

from .image_blocks import ConvNext, Dense, Fire, Residual, Shuffle, SqueezeExcite, Upsample, conv_norm
from .shapes import Made, Maker, Shapes

ACTIVATIONS = (
    partial(nn.ReLU, inplace=True),
    nn.ReLU,
    partial(nn.ReLU6, inplace=True),
    partial(nn.SiLU, inplace=True),
    nn.Hardswish,
    nn.GELU,
    nn.LeakyReLU,
)


def _basic(shapes: Shapes) -> Made:
    n, c, side = shapes.image(18)
    act, out = shapes.pick(ACTIVATIONS), shapes.pick((c, c, 2 * c))
    stride = 1 if out == c else 2
    first = Residual(*conv_norm(c, out, 3, act, stride), *conv_norm(out, out, 3, None), after=act())
    return nn.Sequential(first), (n, c, side, side)


def _bottleneck(shapes: Shapes) -> Made:
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


def _regular(shapes: Shapes) -> Made:
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


def _inverted(shapes: Shapes) -> Made:
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


def _stem(shapes: Shapes) -> Made:
    n, side, out = (
        shapes.pick((1, 2, 4)),
        shapes.pick((96, 112, 160, 224, 227)),
        shapes.pick((16, 24, 32, 64, 96, 192, 768)),
    )
    kernel, stride = shapes.pick(((3, 2), (7, 2), (7, 4), (11, 4), (4, 4), (16, 16), (32, 32), (3, 1)))
    pool = [nn.MaxPool2d(3, 2, 1)] if stride < 4 else []
    return nn.Sequential(*conv_norm(3, out, kernel, nn.ReLU, stride), *pool), (n, 3, side, side)


def _vgg(shapes: Shapes) -> Made:
    n, c, side = shapes.image(18 * 2)
    out = 2 * c
    layers = [
        nn.Conv2d(c, out, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.Conv2d(out, out, 3, padding=1),
        nn.ReLU(inplace=True),
    ]
    pool = shapes.pick(
        (nn.MaxPool2d(2), nn.AvgPool2d(2), nn.MaxPool2d(3, 2), nn.AvgPool2d(3, 1, 1), nn.MaxPool2d(3, 1, 1))
    )
    return nn.Sequential(*layers, pool), (n, c, side, side)


def _dense(shapes: Shapes) -> Made:
    n, c, side = shapes.image(2)
    growth = shapes.pick((16, 32, 48))
    transition = [nn.BatchNorm2d(c + 2 * growth), nn.ReLU(), nn.Conv2d(c + 2 * growth, c // 2, 1), nn.AvgPool2d(2)]
    return nn.Sequential(Dense(c, growth), Dense(c + growth, growth), *transition), (n, c, side, side)


def _shuffle(shapes: Shapes) -> Made:
    n, c, side = shapes.image(2)
    return nn.Sequential(Shuffle(c), Shuffle(c)), (n, c, side, side)


def _fire(shapes: Shapes) -> Made:
    n, c, side = shapes.image(4, least=64)
    squeeze = nn.Sequential(nn.Conv2d(c, c // 8, 1), nn.ReLU(inplace=True))
    return nn.Sequential(squeeze, Fire(c // 8, c // 2)), (n, c, side, side)


def _convnext(shapes: Shapes) -> Made:
    n, c, side = shapes.image(2 * 8)
    return nn.Sequential(ConvNext(c), ConvNext(c)), (n, c, side, side)


def _large(shapes: Shapes) -> Made:
    """Kernels beyond 3 x 3 at stride 1, square as in RepLKNet or AlexNet, or of one axis as in Inception."""
    kernel = shapes.pick(((5, 5), (7, 7), (9, 9), (1, 7), (7, 1), (1, 3), (3, 1), (1, 5), (5, 1), (13, 13)))
    n, c, side = shapes.image(kernel[0] * kernel[1])
    out, padding = shapes.pick((c, c, 2 * c)), (kernel[0] // 2, kernel[1] // 2)
    layers = nn.Conv2d(c, out, kernel, padding=padding, bias=False), nn.BatchNorm2d(out), nn.ReLU(inplace=True)
    return nn.Sequential(*layers), (n, c, side, side)


def _large_depthwise(shapes: Shapes) -> Made:
    """Depthwise convolutions of many channels on large maps, as of ConvMixer or RepLKNet."""
    n, c, side = shapes.image(2, least=32)
    kernel = shapes.pick((3, 5, 7, 7, 9, 9, 13, 21, 31))
    return nn.Sequential(Residual(*conv_norm(c, c, kernel, nn.GELU, groups=c))), (n, c, side, side)


def _dilated(shapes: Shapes) -> Made:
    """Dilated convolutions, as those of DeepLab and of dilated residual networks."""
    n, c, side = shapes.image(9)
    rate, kernel = shapes.pick((2, 2, 4, 6, 12, 18)), shapes.pick((3, 3, 5, 7))
    groups = shapes.pick((1, 1, 1, c))
    padding = rate * (kernel // 2)
    layers = nn.Conv2d(c, c, kernel, 1, padding, rate, groups, bias=False), nn.BatchNorm2d(c), nn.ReLU()
    return nn.Sequential(*layers), (n, c, side, side)


def _head(shapes: Shapes) -> Made:
    n, c, side = shapes.pick((1, 2, 4, 8)), shapes.pick((256, 512, 1024, 1280, 2048)), shapes.pick((7, 8, 13, 14))
    classes = shapes.pick((10, 100, 1000))
    layers = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(c, classes), nn.Softmax(-1))
    return nn.Sequential(nn.ReLU(), *layers), (n, c, side, side)


def _upsample(shapes: Shapes) -> Made:
    n, c, side = shapes.image(18 * 4)
    return Upsample(c, shapes.pick(("nearest", "bilinear"))), ((n, c, side, side), (n, c, 2 * side, 2 * side))


def _transposed(shapes: Shapes) -> Made:
    n, c, side = shapes.image(4, least=32)
    half, act, kernel = c // 2, shapes.pick(ACTIVATIONS), shapes.pick((2, 2, 4))
    layers = [nn.ConvTranspose2d(c, half, kernel, 2, (kernel - 2) // 2), nn.BatchNorm2d(half), act()]
    return nn.Sequential(*layers, nn.Conv2d(half, half, 1)), (n, c, side, side)


IMAGE_CHAINS: Mapping[str, tuple[Maker, int]] = {
    "basic": (_basic, 6),
    "bottleneck": (_bottleneck, 4),
    "regular": (_regular, 3),
    "inverted": (_inverted, 6),
    "stem": (_stem, 5),
    "vgg": (_vgg, 4),
    "dense": (_dense, 3),
    "shuffle": (_shuffle, 2),
    "fire": (_fire, 2),
    "convnext": (_convnext, 2),
    "large": (_large, 5),
    "large depthwise": (_large_depthwise, 4),
    "dilated": (_dilated, 3),
    "head": (_head, 2),
    "upsample": (_upsample, 2),
    "transposed": (_transposed, 4),
}
"""What makes the chains, and the share of each kind."""
