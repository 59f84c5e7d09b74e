"""Transposed convolutions. Every input element is multiplied by the whole kernel, so MACs depend on the input size."""

from __future__ import annotations

from typing import Any

from ..loops import conv_transpose
from ..probe import Builder, Probe

__all__ = ["PROBES"]


def _layer(rank: int, *arguments: int, shape: tuple[int, ...], bias: bool = False, **options: Any) -> Builder:
    """Return a builder of nn.ConvTranspose1d, 2d or 3d and an input of this shape."""
    return lambda b: (getattr(b.nn, f"ConvTranspose{rank}d")(*arguments, bias=bias, **options), (b.x(*shape),))


PROBES = [
    Probe(
        "conv_transpose.plain",
        "nn.ConvTranspose2d(3, 4, 3) without bias on 5 × 4",
        "macs",
        "3 inputs * 5 * 4 places * 4 channels * 3 * 3 taps",
        lambda: conv_transpose(1, 3, 4, (5, 4), (3, 3)),
        torch=_layer(2, 3, 4, 3, shape=(1, 3, 5, 4)),
        onnx=lambda b: b.one("ConvTranspose", {"x": (1, 3, 5, 4)}, {"y": (1, 4, 7, 6)}, {"w": b.zeros(3, 4, 3, 3)}),
    ),
    Probe(
        "conv_transpose.stride",
        "nn.ConvTranspose2d(4, 2, 2, stride=2) without bias on 6 × 5, the upsampling of a U-Net",
        "macs",
        "4 inputs * 6 * 5 places * 2 channels * 2 * 2 taps",
        lambda: conv_transpose(1, 4, 2, (6, 5), (2, 2), stride=2),
        torch=_layer(2, 4, 2, 2, shape=(1, 4, 6, 5), stride=2),
        onnx=lambda b: b.one(
            "ConvTranspose", {"x": (1, 4, 6, 5)}, {"y": (1, 2, 12, 10)}, {"w": b.zeros(4, 2, 2, 2)}, strides=[2, 2]
        ),
        jax=lambda b: (
            lambda x, w: b.lax.conv_transpose(x, w, (2, 2), "VALID", dimension_numbers=("NCHW", "OIHW", "NCHW")),
            (b.x(1, 4, 6, 5), b.x(2, 4, 2, 2)),
        ),
        tensorflow=lambda b: (
            lambda x, w: b.tf.nn.conv2d_transpose(x, w, [1, 12, 10, 2], 2, "VALID"),
            (b.x(1, 6, 5, 4), b.x(2, 2, 2, 4)),
        ),
    ),
    Probe(
        "conv_transpose.bias",
        "nn.ConvTranspose2d(4, 2, 2, stride=2) with bias on 3 × 3",
        "macs",
        "4 inputs * 3 * 3 places * 2 channels * 2 * 2 taps",
        lambda: conv_transpose(1, 4, 2, (3, 3), (2, 2), stride=2),
        torch=_layer(2, 4, 2, 2, shape=(1, 4, 3, 3), stride=2, bias=True),
        extras={"bias": 72},
    ),
    Probe(
        "conv_transpose.overlap",
        "nn.ConvTranspose2d(3, 5, 4, stride=2, padding=1) without bias on 4 × 4, as in a DCGAN: what padding cuts "
        "off counts",
        "macs",
        "3 inputs * 4 * 4 places * 5 channels * 4 * 4 taps",
        lambda: conv_transpose(1, 3, 5, (4, 4), (4, 4), stride=2, padding=1),
        torch=_layer(2, 3, 5, 4, shape=(1, 3, 4, 4), stride=2, padding=1),
        onnx=lambda b: b.one(
            "ConvTranspose",
            {"x": (1, 3, 4, 4)},
            {"y": (1, 5, 8, 8)},
            {"w": b.zeros(3, 5, 4, 4)},
            strides=[2, 2],
            pads=[1, 1, 1, 1],
        ),
    ),
    Probe(
        "conv_transpose.output_padding",
        "nn.ConvTranspose2d(3, 2, 3, stride=2, padding=1, output_padding=1) without bias on 4 × 4",
        "macs",
        "3 inputs * 4 * 4 places * 2 channels * 3 * 3 taps",
        lambda: conv_transpose(1, 3, 2, (4, 4), (3, 3), stride=2, padding=1, output_padding=1),
        torch=_layer(2, 3, 2, 3, shape=(1, 3, 4, 4), stride=2, padding=1, output_padding=1),
    ),
    Probe(
        "conv_transpose.grouped",
        "nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2) without bias on 4 × 3",
        "macs",
        "4 inputs * 4 * 3 places * (6 // 2) channels * 3 * 3 taps",
        lambda: conv_transpose(1, 4, 6, (4, 3), (3, 3), stride=2, groups=2),
        torch=_layer(2, 4, 6, 3, shape=(1, 4, 4, 3), stride=2, groups=2),
        onnx=lambda b: b.one(
            "ConvTranspose",
            {"x": (1, 4, 4, 3)},
            {"y": (1, 6, 9, 7)},
            {"w": b.zeros(4, 3, 3, 3)},
            strides=[2, 2],
            group=2,
        ),
    ),
    Probe(
        "conv_transpose.depthwise",
        "nn.ConvTranspose2d(5, 5, 4, stride=2, padding=1, groups=5) without bias on 4 × 4: learned bilinear upsampling",
        "macs",
        "5 inputs * 4 * 4 places * 1 channel * 4 * 4 taps",
        lambda: conv_transpose(1, 5, 5, (4, 4), (4, 4), stride=2, padding=1, groups=5),
        torch=_layer(2, 5, 5, 4, shape=(1, 5, 4, 4), stride=2, padding=1, groups=5),
    ),
    Probe(
        "conv_transpose.dilation",
        "nn.ConvTranspose2d(2, 3, 3, dilation=2) without bias on 4 × 5",
        "macs",
        "2 inputs * 4 * 5 places * 3 channels * 3 * 3 taps",
        lambda: conv_transpose(1, 2, 3, (4, 5), (3, 3), dilation=2),
        torch=_layer(2, 2, 3, 3, shape=(1, 2, 4, 5), dilation=2),
    ),
    Probe(
        "conv_transpose.one_dimension",
        "nn.ConvTranspose1d(4, 3, 4, stride=4) without bias on 2 sequences of 6",
        "macs",
        "2 sequences * 4 inputs * 6 places * 3 channels * 4 taps",
        lambda: conv_transpose(2, 4, 3, (6,), (4,), stride=4),
        torch=_layer(1, 4, 3, 4, shape=(2, 4, 6), stride=4),
        onnx=lambda b: b.one(
            "ConvTranspose", {"x": (2, 4, 6)}, {"y": (2, 3, 24)}, {"w": b.zeros(4, 3, 4)}, strides=[4]
        ),
    ),
    Probe(
        "conv_transpose.three_dimensions",
        "nn.ConvTranspose3d(2, 3, 2, stride=2) without bias on 3 × 2 × 4",
        "macs",
        "2 inputs * 3 * 2 * 4 places * 3 channels * 2 * 2 * 2 taps",
        lambda: conv_transpose(1, 2, 3, (3, 2, 4), (2, 2, 2), stride=2),
        torch=_layer(3, 2, 3, 2, shape=(1, 2, 3, 2, 4), stride=2),
    ),
    Probe(
        "conv_transpose.pointwise",
        "nn.ConvTranspose2d(6, 4, 1) without bias on 3 × 5: a linear layer for each pixel",
        "macs",
        "6 inputs * 3 * 5 places * 4 channels",
        lambda: conv_transpose(1, 6, 4, (3, 5), (1, 1)),
        torch=_layer(2, 6, 4, 1, shape=(1, 6, 3, 5)),
    ),
    Probe(
        "conv_transpose.function",
        "F.conv_transpose2d of (1, 4, 6, 5) with a weight (4, 2, 2, 2), stride 2",
        "macs",
        "4 inputs * 6 * 5 places * 2 channels * 2 * 2 taps",
        lambda: conv_transpose(1, 4, 2, (6, 5), (2, 2), stride=2),
        torch=lambda b: (
            b.Fn(lambda self, x: b.F.conv_transpose2d(x, self.w, stride=2), w=b.x(4, 2, 2, 2)),
            (b.x(1, 4, 6, 5),),
        ),
        tags=frozenset({"functional"}),
    ),
]
