"""Networks of many forms, for any batch, whose memory ONNX Runtime was measured to need."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from onnx import ModelProto

from tests.whole_networks.onnx_models import Graph, mobilenet_v2, resnet50, vgg16
from tests.whole_networks.onnx_models import unet as cropped_unet


def _conv(g: Graph, x: str, cin: int, cout: int, k: int = 3, stride: int = 1, groups: int = 1) -> str:
    weight = g.weight(cout, cin // groups, k, k)
    return g("Conv", x, weight, pads=[k // 2] * 4, strides=[stride] * 2, group=groups)


def _image(g: Graph, y: str, channels: int = 3, size: int = 32) -> ModelProto:
    return g.model({"x": ("batch", channels, size, size)}, y)


def mlp() -> ModelProto:
    """Three products with Relu."""
    g, x = Graph(), "x"
    for fan_in, fan_out in ((32, 256), (256, 64), (64, 10)):
        x = g("Relu", g("MatMul", x, g.weight(fan_in, fan_out)))
    return g.model({"x": ("batch", 32)}, x)


def plain() -> ModelProto:
    """A VGG of four convolutions and two poolings."""
    g, x = Graph(), "x"
    for cin, cout in ((3, 16), (16, 16), (16, 32), (32, 32)):
        x = g("Relu", _conv(g, x, cin, cout))
        if cin == cout:
            x = g("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    return _image(g, g("Flatten", g("GlobalAveragePool", x)))


def residual() -> ModelProto:
    """Blocks of a ResNet, the third with a projection."""
    g = Graph()
    x = g("Relu", _conv(g, "x", 3, 16))
    for cin, cout, stride in ((16, 16, 1), (16, 16, 1), (16, 32, 2), (32, 32, 1)):
        y = _conv(g, g("Relu", _conv(g, x, cin, cout, 3, stride)), cout, cout)
        x = g("Relu", g("Add", y, x if cin == cout else _conv(g, x, cin, cout, 1, stride)))
    return _image(g, g("Flatten", g("GlobalAveragePool", x)))


def inverted() -> ModelProto:
    """Inverted residual blocks of a MobileNetV2."""
    g = Graph()
    x = g("Clip", _conv(g, "x", 3, 8, 3, 2), g.number(0.0, dtype=1, scalar=True), g.number(6.0, dtype=1, scalar=True))
    for _ in range(3):
        y = g("Relu", _conv(g, x, 8, 48, 1))
        y = g("Relu", _conv(g, y, 48, 48, 3, groups=48))
        x = g("Add", x, _conv(g, y, 48, 8, 1))
    return _image(g, x)


def dense() -> ModelProto:
    """A dense block: each convolution reads what all before it made."""
    g = Graph()
    parts = [_conv(g, "x", 3, 16)]
    for i in range(4):
        joined = parts[0] if i == 0 else g("Concat", *parts, axis=1)
        parts.append(g("Relu", _conv(g, joined, 16 + 8 * i, 8)))
    return _image(g, g("Concat", *parts, axis=1))


def inception() -> ModelProto:
    """Four branches of an Inception block, twice."""
    g, x, channels = Graph(), "x", 3
    for _ in range(2):
        pooled = g("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4)
        branches = [_conv(g, x, channels, 8, 1), _conv(g, _conv(g, x, channels, 8, 1), 8, 16)]
        branches += [_conv(g, _conv(g, x, channels, 4, 1), 4, 8, 5), _conv(g, pooled, channels, 8, 1)]
        x, channels = g("Relu", g("Concat", *branches, axis=1)), 40
    return _image(g, x)


def gated() -> ModelProto:
    """Squeeze and excitation, with Sigmoid gates."""
    g, x, channels = Graph(), "x", 3
    for _ in range(3):
        x, channels = g("Relu", _conv(g, x, channels, 16)), 16
        s = g("Relu", _conv(g, g("GlobalAveragePool", x), 16, 4, 1))
        x = g("Mul", x, g("Sigmoid", _conv(g, s, 4, 16, 1)))
    return _image(g, x)


def unet() -> ModelProto:
    """A U-Net of two levels, with transposed convolutions."""
    g = Graph()
    first = g("Relu", _conv(g, "x", 3, 8))
    second = g("Relu", _conv(g, g("MaxPool", first, kernel_shape=[2, 2], strides=[2, 2]), 8, 16))
    low = g("Relu", _conv(g, g("MaxPool", second, kernel_shape=[2, 2], strides=[2, 2]), 16, 32))
    up = g("ConvTranspose", low, g.weight(32, 16, 2, 2), strides=[2, 2])
    y = g("Relu", _conv(g, g("Concat", up, second, axis=1), 32, 16))
    up = g("ConvTranspose", y, g.weight(16, 8, 2, 2), strides=[2, 2])
    return _image(g, _conv(g, g("Relu", _conv(g, g("Concat", up, first, axis=1), 16, 8)), 8, 2, 1))


def attention() -> ModelProto:
    """A block of an encoder: attention of four heads, and a feed-forward network."""
    g = Graph()
    heads, back = g.number(0, 16, 4, 16), g.number(0, 16, 64)
    q, k, v = (g("Reshape", g("MatMul", "x", g.weight(64, 64)), heads) for _ in range(3))
    q, v = (g("Transpose", each, perm=[0, 2, 1, 3]) for each in (q, v))
    scores = g("Softmax", g("MatMul", q, g("Transpose", k, perm=[0, 2, 3, 1])), axis=-1)
    y = g("Reshape", g("Transpose", g("MatMul", scores, v), perm=[0, 2, 1, 3]), back)
    x = g("Add", "x", g("MatMul", y, g.weight(64, 64)))
    hidden = g("Relu", g("MatMul", x, g.weight(64, 256)))
    return g.model({"x": ("batch", 16, 64)}, g("Add", x, g("MatMul", hidden, g.weight(256, 64))))


def scores() -> ModelProto:
    """Scores of two heads over 128 tokens, of which Softmax is most of the memory."""
    g = Graph()
    heads = g.number(0, 128, 2, 8)
    q, k, v = (g("Reshape", g("MatMul", "x", g.weight(16, 16)), heads) for _ in range(3))
    q, v = (g("Transpose", each, perm=[0, 2, 1, 3]) for each in (q, v))
    weights = g("Softmax", g("MatMul", q, g("Transpose", k, perm=[0, 2, 3, 1])), axis=-1)
    y = g("Reshape", g("Transpose", g("MatMul", weights, v), perm=[0, 2, 1, 3]), g.number(0, 128, 16))
    return g.model({"x": ("batch", 128, 16)}, g("MatMul", y, g.weight(16, 4)))


def smooth() -> ModelProto:
    """Inverted residual blocks of a MobileNetV3, with HardSwish, for which ONNX Runtime has no kernel on a CPU."""
    g = Graph()
    x = g("HardSwish", _conv(g, "x", 3, 8, 3, 2))
    for _ in range(2):
        y = g("HardSwish", _conv(g, x, 8, 48, 1))
        y = g("HardSwish", _conv(g, y, 48, 48, 3, groups=48))
        x = g("Add", x, _conv(g, y, 48, 8, 1))
    return _image(g, x)


def shuffled() -> ModelProto:
    """Units of a ShuffleNetV2: half of the channels pass, and both halves are shuffled."""
    g = Graph()
    x = g("Relu", _conv(g, "x", 3, 16, 3, 2))
    apart, joined = g.number(0, 2, 8, 16, 16), g.number(0, 16, 16, 16)
    for _ in range(2):
        left, right = g("Split", x, outputs=2, axis=1, num_outputs=2)
        right = g("Relu", _conv(g, _conv(g, g("Relu", _conv(g, right, 8, 8, 1)), 8, 8, 3, groups=8), 8, 8, 1))
        x = g("Reshape", g("Concat", left, right, axis=1), apart)
        x = g("Reshape", g("Transpose", x, perm=[0, 2, 1, 3, 4]), joined)
    return _image(g, x)


def upsampled() -> ModelProto:
    """A decoder that doubles the size of an image twice."""
    g, x, channels = Graph(), "x", 4
    for _ in range(2):
        x = g("Resize", x, "", g.number(1.0, 1.0, 2.0, 2.0, dtype=1), mode="nearest")
        x, channels = g("LeakyRelu", _conv(g, x, channels, 8)), 8
    return _image(g, g("Tanh", _conv(g, x, channels, 3)), 4, 16)


def normalized() -> ModelProto:
    """Blocks of a ConvNeXt: depthwise, normalized over channels, two products."""
    g = Graph()
    x = _conv(g, "x", 3, 16, 3, 2)
    for _ in range(2):
        y = g("Transpose", _conv(g, x, 16, 16, 7, groups=16), perm=[0, 2, 3, 1])
        y = g("LayerNormalization", y, g.weight(16), g.weight(16))
        y = g("MatMul", g("Relu", g("MatMul", y, g.weight(16, 64))), g.weight(64, 16))
        x = g("Add", x, g("Transpose", y, perm=[0, 3, 1, 2]))
    return _image(g, x)


NETWORKS: dict[str, Callable[[], ModelProto]] = {
    each.__name__: each
    for each in (
        *(mlp, plain, residual, inverted, dense, inception, gated, unet, attention, scores, shuffled),
        *(upsampled, normalized, smooth),
    )
}
NETWORKS |= {
    "vgg16": partial(vgg16, "batch"),
    "resnet50": partial(resnet50, "batch"),
    "mobilenet_v2": partial(mobilenet_v2, "batch"),
    "cropped_unet": partial(cropped_unet, "batch"),
}
