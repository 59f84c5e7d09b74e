"""Convolutions."""

from __future__ import annotations

from typing import Any

from ..loops import conv
from ..probe import Builder, Probe

__all__ = ["PROBES"]


def _layer(rank: int, *arguments: int, shape: tuple[int, ...], bias: bool = False, **options: Any) -> Builder:
    """Return a builder of nn.Conv1d, 2d or 3d and an input of this shape."""
    return lambda b: (getattr(b.nn, f"Conv{rank}d")(*arguments, bias=bias, **options), (b.x(*shape),))


PROBES = [
    Probe(
        "conv.plain",
        "nn.Conv2d(3, 8, 3) without bias on 2 images of 7 × 6",
        "macs",
        "2 images * 8 channels * 5 * 4 places * 3 inputs * 3 * 3 taps",
        lambda: conv(2, 3, 8, (7, 6), (3, 3)),
        torch=_layer(2, 3, 8, 3, shape=(2, 3, 7, 6)),
        onnx=lambda b: b.one("Conv", {"x": (2, 3, 7, 6)}, {"y": (2, 8, 5, 4)}, {"w": b.zeros(8, 3, 3, 3)}),
        jax=lambda b: (
            lambda x, w: b.lax.conv(x, w, (1, 1), "VALID"),
            (b.x(2, 3, 7, 6), b.x(8, 3, 3, 3)),
        ),
        tensorflow=lambda b: (lambda x, w: b.tf.nn.conv2d(x, w, 1, "VALID"), (b.x(2, 7, 6, 3), b.x(3, 3, 3, 8))),
    ),
    Probe(
        "conv.bias",
        "nn.Conv2d(3, 4, 3) with bias on one image of 6 × 6: the bias is where each sum starts",
        "macs",
        "1 image * 4 channels * 4 * 4 places * 3 inputs * 3 * 3 taps",
        lambda: conv(1, 3, 4, (6, 6), (3, 3)),
        torch=_layer(2, 3, 4, 3, shape=(1, 3, 6, 6), bias=True),
        onnx=lambda b: b.one(
            "Conv", {"x": (1, 3, 6, 6)}, {"y": (1, 4, 4, 4)}, {"w": b.zeros(4, 3, 3, 3), "bias": b.zeros(4)}
        ),
        tensorflow=lambda b: (
            lambda x, w, c: b.tf.nn.bias_add(b.tf.nn.conv2d(x, w, 1, "VALID"), c),
            (b.x(1, 6, 6, 3), b.x(3, 3, 3, 4), b.x(4)),
        ),
        extras={"bias": 64},
    ),
    Probe(
        "conv.padding",
        "nn.Conv2d(2, 4, 3, padding=1) without bias on 5 × 5: taps on padding count",
        "macs",
        "4 channels * 5 * 5 places * 2 inputs * 3 * 3 taps",
        lambda: conv(1, 2, 4, (5, 5), (3, 3), padding=1),
        torch=_layer(2, 2, 4, 3, shape=(1, 2, 5, 5), padding=1),
        onnx=lambda b: b.one(
            "Conv", {"x": (1, 2, 5, 5)}, {"y": (1, 4, 5, 5)}, {"w": b.zeros(4, 2, 3, 3)}, pads=[1, 1, 1, 1]
        ),
        jax=lambda b: (
            lambda x, w: b.lax.conv(x, w, (1, 1), "SAME"),
            (b.x(1, 2, 5, 5), b.x(4, 2, 3, 3)),
        ),
        tensorflow=lambda b: (lambda x, w: b.tf.nn.conv2d(x, w, 1, "SAME"), (b.x(1, 5, 5, 2), b.x(3, 3, 2, 4))),
    ),
    Probe(
        "conv.padding_same",
        "nn.Conv2d(2, 4, 3, padding='same') without bias on 5 × 5: the padding is a string",
        "macs",
        "4 channels * 5 * 5 places * 2 inputs * 3 * 3 taps",
        lambda: conv(1, 2, 4, (5, 5), (3, 3), padding=1),
        torch=_layer(2, 2, 4, 3, shape=(1, 2, 5, 5), padding="same"),
        onnx=lambda b: b.one(
            "Conv", {"x": (1, 2, 5, 5)}, {"y": (1, 4, 5, 5)}, {"w": b.zeros(4, 2, 3, 3)}, auto_pad="SAME_UPPER"
        ),
    ),
    Probe(
        "conv.padding_valid",
        "nn.Conv2d(2, 4, 3, padding='valid') without bias on 5 × 5",
        "macs",
        "4 channels * 3 * 3 places * 2 inputs * 3 * 3 taps",
        lambda: conv(1, 2, 4, (5, 5), (3, 3)),
        torch=_layer(2, 2, 4, 3, shape=(1, 2, 5, 5), padding="valid"),
    ),
    Probe(
        "conv.padding_reflect",
        "nn.Conv2d(2, 4, 3, padding=1, padding_mode='reflect') without bias on 5 × 5",
        "macs",
        "4 channels * 5 * 5 places * 2 inputs * 3 * 3 taps",
        lambda: conv(1, 2, 4, (7, 7), (3, 3)),
        torch=_layer(2, 2, 4, 3, shape=(1, 2, 5, 5), padding=1, padding_mode="reflect"),
    ),
    Probe(
        "conv.padding_circular",
        "nn.Conv1d(2, 4, 3, padding=1, padding_mode='circular') without bias on 8 steps",
        "macs",
        "4 channels * 8 places * 2 inputs * 3 taps",
        lambda: conv(1, 2, 4, (10,), (3,)),
        torch=_layer(1, 2, 4, 3, shape=(1, 2, 8), padding=1, padding_mode="circular"),
    ),
    Probe(
        "conv.padding_replicate",
        "nn.Conv2d(3, 2, 5, padding=2, padding_mode='replicate') without bias on 6 × 4",
        "macs",
        "2 channels * 6 * 4 places * 3 inputs * 5 * 5 taps",
        lambda: conv(1, 3, 2, (10, 8), (5, 5)),
        torch=_layer(2, 3, 2, 5, shape=(1, 3, 6, 4), padding=2, padding_mode="replicate"),
    ),
    Probe(
        "conv.zero_pad_layer",
        "nn.ZeroPad2d(1), then nn.Conv2d(2, 4, 3) without bias, on 5 × 5",
        "macs",
        "4 channels * 5 * 5 places * 2 inputs * 3 * 3 taps",
        lambda: conv(1, 2, 4, (7, 7), (3, 3)),
        torch=lambda b: (
            b.nn.Sequential(b.nn.ZeroPad2d(1), b.nn.Conv2d(2, 4, 3, bias=False)),
            (b.x(1, 2, 5, 5),),
        ),
    ),
    Probe(
        "conv.asymmetric_padding",
        "Conv of a 2 × 2 kernel with one row above and one column right of the 5 × 5 image, as a file states it",
        "macs",
        "3 channels * 5 * 5 places * 2 inputs * 2 * 2 taps",
        lambda: conv(1, 2, 3, (6, 6), (2, 2)),
        onnx=lambda b: b.one(
            "Conv", {"x": (1, 2, 5, 5)}, {"y": (1, 3, 5, 5)}, {"w": b.zeros(3, 2, 2, 2)}, pads=[1, 0, 0, 1]
        ),
    ),
    Probe(
        "conv.stride",
        "nn.Conv2d(4, 6, 3, stride=2, padding=1) without bias on 9 × 7",
        "macs",
        "6 channels * 5 * 4 places * 4 inputs * 3 * 3 taps",
        lambda: conv(1, 4, 6, (9, 7), (3, 3), stride=2, padding=1),
        torch=_layer(2, 4, 6, 3, shape=(1, 4, 9, 7), stride=2, padding=1),
        onnx=lambda b: b.one(
            "Conv",
            {"x": (1, 4, 9, 7)},
            {"y": (1, 6, 5, 4)},
            {"w": b.zeros(6, 4, 3, 3)},
            strides=[2, 2],
            pads=[1, 1, 1, 1],
        ),
    ),
    Probe(
        "conv.stride_beyond_kernel",
        "nn.Conv2d(3, 5, 2, stride=4) without bias on 10 × 10: most pixels are never read",
        "macs",
        "5 channels * 3 * 3 places * 3 inputs * 2 * 2 taps",
        lambda: conv(1, 3, 5, (10, 10), (2, 2), stride=4),
        torch=_layer(2, 3, 5, 2, shape=(1, 3, 10, 10), stride=4),
    ),
    Probe(
        "conv.dilation",
        "nn.Conv2d(2, 3, 3, dilation=2) without bias on 8 × 7",
        "macs",
        "3 channels * 4 * 3 places * 2 inputs * 3 * 3 taps",
        lambda: conv(1, 2, 3, (8, 7), (3, 3), dilation=2),
        torch=_layer(2, 2, 3, 3, shape=(1, 2, 8, 7), dilation=2),
        onnx=lambda b: b.one(
            "Conv", {"x": (1, 2, 8, 7)}, {"y": (1, 3, 4, 3)}, {"w": b.zeros(3, 2, 3, 3)}, dilations=[2, 2]
        ),
        jax=lambda b: (
            lambda x, w: b.lax.conv_general_dilated(x, w, (1, 1), "VALID", rhs_dilation=(2, 2)),
            (b.x(1, 2, 8, 7), b.x(3, 2, 3, 3)),
        ),
        tensorflow=lambda b: (
            lambda x, w: b.tf.nn.conv2d(x, w, 1, "VALID", dilations=2),
            (b.x(1, 8, 7, 2), b.x(3, 3, 2, 3)),
        ),
    ),
    Probe(
        "conv.grouped",
        "nn.Conv2d(6, 9, 3, groups=3) without bias on 5 × 6",
        "macs",
        "9 channels * 3 * 4 places * (6 // 3) inputs * 3 * 3 taps",
        lambda: conv(1, 6, 9, (5, 6), (3, 3), groups=3),
        torch=_layer(2, 6, 9, 3, shape=(1, 6, 5, 6), groups=3),
        onnx=lambda b: b.one("Conv", {"x": (1, 6, 5, 6)}, {"y": (1, 9, 3, 4)}, {"w": b.zeros(9, 2, 3, 3)}, group=3),
        jax=lambda b: (
            lambda x, w: b.lax.conv_general_dilated(x, w, (1, 1), "VALID", feature_group_count=3),
            (b.x(1, 6, 5, 6), b.x(9, 2, 3, 3)),
        ),
        tensorflow=lambda b: (lambda x, w: b.tf.nn.conv2d(x, w, 1, "VALID"), (b.x(1, 5, 6, 6), b.x(3, 3, 2, 9))),
    ),
    Probe(
        "conv.depthwise",
        "nn.Conv2d(5, 5, 3, groups=5, padding=1) without bias on 6 × 6",
        "macs",
        "5 channels * 6 * 6 places * 1 input * 3 * 3 taps",
        lambda: conv(1, 5, 5, (6, 6), (3, 3), padding=1, groups=5),
        torch=_layer(2, 5, 5, 3, shape=(1, 5, 6, 6), groups=5, padding=1),
        onnx=lambda b: b.one(
            "Conv", {"x": (1, 5, 6, 6)}, {"y": (1, 5, 6, 6)}, {"w": b.zeros(5, 1, 3, 3)}, group=5, pads=[1, 1, 1, 1]
        ),
        tensorflow=lambda b: (
            lambda x, w: b.tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], "SAME"),
            (b.x(1, 6, 6, 5), b.x(3, 3, 5, 1)),
        ),
    ),
    Probe(
        "conv.depth_multiplier",
        "nn.Conv2d(4, 12, 3, groups=4) without bias on 5 × 5: three outputs for each input channel",
        "macs",
        "12 channels * 3 * 3 places * 1 input * 3 * 3 taps",
        lambda: conv(1, 4, 12, (5, 5), (3, 3), groups=4),
        torch=_layer(2, 4, 12, 3, shape=(1, 4, 5, 5), groups=4),
    ),
    Probe(
        "conv.separable",
        "a depthwise 3 × 3 and a pointwise convolution from 6 to 8 channels, without biases, on 7 × 7",
        "macs",
        "6 channels * 5 * 5 places * 3 * 3 taps + 8 channels * 5 * 5 places * 6 inputs",
        lambda: [*conv(1, 6, 6, (7, 7), (3, 3), groups=6), *conv(1, 6, 8, (5, 5), (1, 1))],
        torch=lambda b: (
            b.nn.Sequential(b.nn.Conv2d(6, 6, 3, groups=6, bias=False), b.nn.Conv2d(6, 8, 1, bias=False)),
            (b.x(1, 6, 7, 7),),
        ),
    ),
    Probe(
        "conv.pointwise",
        "nn.Conv2d(7, 5, 1) without bias on 2 images of 4 × 3",
        "macs",
        "2 images * 5 channels * 4 * 3 places * 7 inputs",
        lambda: conv(2, 7, 5, (4, 3), (1, 1)),
        torch=_layer(2, 7, 5, 1, shape=(2, 7, 4, 3)),
    ),
    Probe(
        "conv.patches",
        "nn.Conv2d(3, 10, 4, stride=4) without bias on 8 × 12: the patches of a vision transformer",
        "macs",
        "10 channels * 2 * 3 places * 3 inputs * 4 * 4 taps",
        lambda: conv(1, 3, 10, (8, 12), (4, 4), stride=4),
        torch=_layer(2, 3, 10, 4, shape=(1, 3, 8, 12), stride=4),
    ),
    Probe(
        "conv.one_side",
        "nn.Conv2d(2, 3, (1, 5)) without bias on 4 × 9: a kernel of one row",
        "macs",
        "3 channels * 4 * 5 places * 2 inputs * 1 * 5 taps",
        lambda: conv(1, 2, 3, (4, 9), (1, 5)),
        torch=lambda b: (b.nn.Conv2d(2, 3, (1, 5), bias=False), (b.x(1, 2, 4, 9),)),
    ),
    Probe(
        "conv.whole_image",
        "nn.Conv2d(3, 4, 6) without bias on 6 × 6: one place, as a linear layer",
        "macs",
        "4 channels * 1 place * 3 inputs * 6 * 6 taps",
        lambda: conv(1, 3, 4, (6, 6), (6, 6)),
        torch=_layer(2, 3, 4, 6, shape=(1, 3, 6, 6)),
    ),
    Probe(
        "conv.one_dimension",
        "nn.Conv1d(4, 6, 5, stride=2) without bias on 3 sequences of 11",
        "macs",
        "3 sequences * 6 channels * 4 places * 4 inputs * 5 taps",
        lambda: conv(3, 4, 6, (11,), (5,), stride=2),
        torch=_layer(1, 4, 6, 5, shape=(3, 4, 11), stride=2),
        onnx=lambda b: b.one("Conv", {"x": (3, 4, 11)}, {"y": (3, 6, 4)}, {"w": b.zeros(6, 4, 5)}, strides=[2]),
    ),
    Probe(
        "conv.three_dimensions",
        "nn.Conv3d(2, 3, 3) without bias on 5 × 4 × 6",
        "macs",
        "3 channels * 3 * 2 * 4 places * 2 inputs * 3 * 3 * 3 taps",
        lambda: conv(1, 2, 3, (5, 4, 6), (3, 3, 3)),
        torch=_layer(3, 2, 3, 3, shape=(1, 2, 5, 4, 6)),
        onnx=lambda b: b.one("Conv", {"x": (1, 2, 5, 4, 6)}, {"y": (1, 3, 3, 2, 4)}, {"w": b.zeros(3, 2, 3, 3, 3)}),
    ),
    Probe(
        "conv.three_dimensions_grouped",
        "nn.Conv3d(4, 4, 2, groups=2, stride=2) without bias on 4 × 4 × 6",
        "macs",
        "4 channels * 2 * 2 * 3 places * 2 inputs * 2 * 2 * 2 taps",
        lambda: conv(1, 4, 4, (4, 4, 6), (2, 2, 2), stride=2, groups=2),
        torch=_layer(3, 4, 4, 2, shape=(1, 4, 4, 4, 6), groups=2, stride=2),
    ),
    Probe(
        "conv.no_batch",
        "nn.Conv2d(3, 8, 3) without bias on an image of (3, 7, 6), without a dimension of the batch",
        "macs",
        "8 channels * 5 * 4 places * 3 inputs * 3 * 3 taps",
        lambda: conv(1, 3, 8, (7, 6), (3, 3)),
        torch=_layer(2, 3, 8, 3, shape=(3, 7, 6)),
    ),
    Probe(
        "conv.channels_last",
        "nn.Conv2d(3, 8, 3) without bias on an image in channels-last layout: the layout changes nothing",
        "macs",
        "8 channels * 5 * 4 places * 3 inputs * 3 * 3 taps",
        lambda: conv(1, 3, 8, (7, 6), (3, 3)),
        torch=lambda b: (
            b.nn.Conv2d(3, 8, 3, bias=False),
            (b.x(1, 3, 7, 6).to(memory_format=b.torch.channels_last),),
        ),
    ),
    Probe(
        "conv.function",
        "F.conv2d of 2 images of (3, 7, 6) with a weight (8, 3, 3, 3)",
        "macs",
        "2 images * 8 channels * 5 * 4 places * 3 inputs * 3 * 3 taps",
        lambda: conv(2, 3, 8, (7, 6), (3, 3)),
        torch=lambda b: (
            b.Fn(lambda self, x: b.F.conv2d(x, self.w), w=b.x(8, 3, 3, 3)),
            (b.x(2, 3, 7, 6),),
        ),
        tags=frozenset({"functional"}),
    ),
    Probe(
        "conv.function_1d",
        "F.conv1d of a sequence of (4, 10) with a weight (3, 4, 3), padding 1",
        "macs",
        "3 channels * 10 places * 4 inputs * 3 taps",
        lambda: conv(1, 4, 3, (10,), (3,), padding=1),
        torch=lambda b: (
            b.Fn(lambda self, x: b.F.conv1d(x, self.w, padding=1), w=b.x(3, 4, 3)),
            (b.x(1, 4, 10),),
        ),
        tags=frozenset({"functional"}),
    ),
    Probe(
        "conv.weight_standardized",
        "a subclass of nn.Conv2d that scales its weight and calls F.conv2d: 3 to 4 channels, 3 × 3, on 6 × 6",
        "macs",
        "4 channels * 4 * 4 places * 3 inputs * 3 * 3 taps",
        lambda: conv(1, 3, 4, (6, 6), (3, 3)),
        torch=lambda b: (b.scaled_conv(3, 4, 3), (b.x(1, 3, 6, 6),)),
        extras={"multiply": 108},
        tags=frozenset({"functional", "subclass"}),
    ),
    Probe(
        "conv.weight_norm",
        "nn.Conv2d(3, 4, 3) without bias under weight_norm, on 6 × 6: only the convolution multiplies and accumulates",
        "macs",
        "4 channels * 4 * 4 places * 3 inputs * 3 * 3 taps",
        lambda: conv(1, 3, 4, (6, 6), (3, 3)),
        torch=lambda b: (
            b.nn.utils.parametrizations.weight_norm(b.nn.Conv2d(3, 4, 3, bias=False)),
            (b.x(1, 3, 6, 6),),
        ),
    ),
    Probe(
        "conv.unfold",
        "a convolution as F.unfold and a matrix product: 3 to 4 channels, 3 × 3, on 5 × 5",
        "macs",
        "4 channels * 3 * 3 places * 3 inputs * 3 * 3 taps",
        lambda: conv(1, 3, 4, (5, 5), (3, 3)),
        torch=lambda b: (
            b.Fn(lambda self, x: b.torch.matmul(self.w, b.F.unfold(x, 3)), w=b.x(4, 27)),
            (b.x(1, 3, 5, 5),),
        ),
        tags=frozenset({"functional"}),
    ),
]
