"""The chains of a sweep for volumes and videos: blocks of networks with three spatial axes."""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn

from .image_blocks import Residual, UpsampleVolume
from .shapes import Made, Maker, Shapes

Triple = tuple[int, int, int]


def _conv_norm(channels: int, out: int, kernel: Triple, stride: Triple = (1, 1, 1), groups: int = 1) -> list[nn.Module]:
    """Return a convolution with batch norm and an activation."""
    padding = tuple(each // 2 for each in kernel)
    layers = nn.Conv3d(channels, out, kernel, stride, padding, groups=groups, bias=False), nn.BatchNorm3d(out)
    return [*layers, nn.ReLU(inplace=True)]


def _residual(shapes: Shapes) -> Made:
    """A block of ResNet 3D, or of a network that has this kernel in some of its stages."""
    n, c, depth, side = shapes.volume(27)
    out = shapes.pick((c, c, 2 * c))
    stride = 1 if out == c else 2
    kernel = shapes.pick(((3, 3, 3), (3, 3, 3), (3, 3, 3), (1, 3, 3), (3, 1, 1)))
    block = Residual(*_conv_norm(c, out, kernel, (stride,) * 3)[:-1], after=nn.ReLU(inplace=True))
    return nn.Sequential(block), (n, c, depth, side, side)


def _factored(shapes: Shapes) -> Made:
    """Two blocks of R(2+1)D: a convolution over each frame, then one over time."""
    n, c, depth, side = shapes.volume(2 * 27)
    inner = (c * c * 27) // (c * 9 + 3 * c)
    over_both = (*_conv_norm(c, inner, (1, 3, 3)), *_conv_norm(inner, c, (3, 1, 1)))
    pool = shapes.pick((nn.MaxPool3d((1, 2, 2)), nn.MaxPool3d(3, 1, 1), nn.MaxPool3d((1, 3, 3), (1, 2, 2), (0, 1, 1))))
    return nn.Sequential(*over_both, pool), (n, c, depth, side, side)


def _pointwise(shapes: Shapes) -> Made:
    """A block of SlowFast or X3D: a convolution between two of one voxel, which may be depthwise."""
    n, c, depth, side = shapes.volume(6)
    inner = shapes.pick((c // 2, 2 * c))
    kernel, groups = shapes.pick((((1, 3, 3), 1), ((3, 3, 3), inner), ((3, 3, 3), inner), ((5, 5, 5), inner)))
    layers = (*_conv_norm(c, inner, (1, 1, 1)), *_conv_norm(inner, inner, kernel, groups=groups))
    return nn.Sequential(Residual(*layers, nn.Conv3d(inner, c, 1))), (n, c, depth, side, side)


def _stem(shapes: Shapes) -> Made:
    n, depth, side = shapes.pick((1, 1, 2)), shapes.pick((4, 8, 16)), shapes.pick((32, 56, 64, 112))
    channels, out = shapes.pick((1, 3)), shapes.pick((16, 32, 45, 64))
    kernel, stride = shapes.pick(
        (
            ((3, 7, 7), (1, 2, 2)),
            ((1, 7, 7), (1, 2, 2)),
            ((7, 7, 7), (2, 2, 2)),
            ((3, 3, 3), (1, 1, 1)),
            ((2, 16, 16), (2, 16, 16)),
            ((4, 4, 4), (4, 4, 4)),
        )
    )
    pool = (
        shapes.pick(([nn.MaxPool3d((1, 3, 3), (1, 2, 2), (0, 1, 1))], [nn.MaxPool3d(2)], [])) if stride[1] < 4 else ()
    )
    return nn.Sequential(*_conv_norm(channels, out, kernel, stride), *pool), (n, channels, depth, side, side)


def _segmentation(shapes: Shapes) -> Made:
    """A level of a 3-D U-Net on its way down."""
    n, c, depth, side = shapes.volume(27 * 2)
    norm = shapes.pick((nn.InstanceNorm3d(2 * c, affine=True), nn.BatchNorm3d(2 * c), nn.GroupNorm(8, 2 * c)))
    act = shapes.pick((nn.ReLU(inplace=True), nn.LeakyReLU(0.01, inplace=True)))
    pool = shapes.pick((nn.MaxPool3d(2), nn.AvgPool3d(2)))
    return nn.Sequential(nn.Conv3d(c, 2 * c, 3, padding=1), norm, act, pool), (n, c, depth, side, side)


def _decoder(shapes: Shapes) -> Made:
    """A level of a 3-D U-Net on its way up."""
    n, c, depth, side = shapes.volume(27 * 8 * 2)
    wanted = (n, c, 2 * depth, 2 * side, 2 * side)
    return UpsampleVolume(c, shapes.pick(("conv", "conv", "trilinear"))), ((n, 2 * c, depth, side, side), wanted)


def _head(shapes: Shapes) -> Made:
    n, c, depth, side = shapes.pick((1, 2, 4)), shapes.pick((256, 512, 1024)), shapes.pick((2, 4, 8)), 7
    return nn.Sequential(nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(c, 400)), (n, c, depth, side, side)


VOLUME_CHAINS: Mapping[str, tuple[Maker, int]] = {
    "volume": (_residual, 6),
    "volume factored": (_factored, 3),
    "volume pointwise": (_pointwise, 4),
    "volume stem": (_stem, 2),
    "volume segmentation": (_segmentation, 3),
    "volume decoder": (_decoder, 3),
    "volume head": (_head, 1),
}
"""What makes the chains, and the share of each kind."""
