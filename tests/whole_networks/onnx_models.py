"""ONNX models of published architectures; their weights are external data in a file that does not exist."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx import GraphProto, ModelProto, TensorProto, helper

OPSET = 20
CHANNELS_VGG16 = (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0)  # 0 is a max pooling
BLOCKS_RESNET50 = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))  # width, blocks, stride of the first
BLOCKS_MOBILENETV2 = (
    *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2)),
    (6, 320, 1, 1),  # expansion, channels, blocks, stride of the first
)


def absent(name: str, shape: Sequence[int], location: str = "absent.bin") -> TensorProto:
    """Return a float tensor whose elements are in a file that does not exist."""
    tensor = TensorProto(name=name, dims=shape, data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    return tensor


class Graph:
    """A graph under construction; the output of an operator is named after it."""

    def __init__(self, opset: int = OPSET) -> None:
        self.nodes: list[Any] = []
        self.stored: list[TensorProto] = []
        self.opset = opset

    def weight(self, *shape: int) -> str:
        """Add a float initializer without data."""
        self.stored.append(absent(f"w{len(self.stored)}", shape))
        return self.stored[-1].name

    def number(self, *elements: Any, dtype: int = TensorProto.INT64, scalar: bool = False) -> str:
        """Add an initializer with its elements."""
        name = f"c{len(self.stored)}"
        self.stored.append(helper.make_tensor(name, dtype, () if scalar else (len(elements),), elements))
        return name

    def __call__(self, op: str, *inputs: str, outputs: int = 1, name: str = "", domain: str = "", **attrs: Any) -> Any:
        made = [f"{op}_{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, made, name=name, domain=domain, **attrs))
        return made[0] if outputs == 1 else made

    def model(self, inputs: dict[str, Sequence[Any]], output: str | Sequence[str], **options: Any) -> ModelProto:
        """Return the model; its outputs are declared by name only."""
        return make_model(self.graph(inputs, output), self.opset, **options)

    def graph(self, inputs: dict[str, Any], output: str | Sequence[str]) -> GraphProto:
        """Return the graph; an input is a shape of float32, or a dtype and a shape."""
        declared = [
            helper.make_tensor_value_info(name, *(spec if _is_typed(spec) else (TensorProto.FLOAT, spec)))
            for name, spec in inputs.items()
        ]
        names = (output,) if isinstance(output, str) else output
        made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names]
        return helper.make_graph(self.nodes, "graph", declared, made, self.stored)


def _is_typed(spec: Sequence[Any]) -> bool:
    return len(spec) == 2 and isinstance(spec[1], (tuple, list))


def make_model(graph: GraphProto, opset: int = OPSET, **options: Any) -> ModelProto:
    """Wrap a graph in a model."""
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9, **options)


def vgg16(batch: int | str = 1) -> ModelProto:
    """VGG16 of Simonyan and Zisserman (arXiv:1409.1556), configuration D, with softmax."""
    g, x, channels = Graph(), "x", 3
    for width in CHANNELS_VGG16:
        if width:
            x = g("Conv", x, g.weight(width, channels, 3, 3), g.weight(width), pads=[1] * 4, kernel_shape=[3, 3])
            x, channels = g("Relu", x), width
        else:
            x = g("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = g("Flatten", x)
    for fan_in, fan_out in ((512 * 7 * 7, 4096), (4096, 4096), (4096, 1000)):
        x = g("Gemm", x, g.weight(fan_out, fan_in), g.weight(fan_out), transB=1)
        x = g("Relu", x) if fan_out == 4096 else g("Softmax", x)
    return g.model({"x": (batch, 3, 224, 224)}, x)


def _conv_bn(g: Graph, x: str, cin: int, cout: int, k: int, stride: int = 1, groups: int = 1, act: str = "") -> str:
    w = g.weight(cout, cin // groups, k, k)
    x = g("Conv", x, w, pads=[k // 2] * 4, strides=[stride] * 2, group=groups, kernel_shape=[k, k])
    x = g("BatchNormalization", x, *(g.weight(cout) for _ in range(4)))
    if act == "Clip":
        bounds = (g.number(bound, dtype=TensorProto.FLOAT, scalar=True) for bound in (0.0, 6.0))
        return g("Clip", x, *bounds)
    return g(act, x) if act else x


def _classifier(g: Graph, x: str, features: int) -> str:
    x = g("Flatten", g("GlobalAveragePool", x))
    return g("Gemm", x, g.weight(1000, features), g.weight(1000), transB=1)


def resnet50(batch: int | str = 1) -> ModelProto:
    """ResNet-50 of He et al. (arXiv:1512.03385), with the stride in the 3x3 convolution, as in torchvision."""
    g = Graph()
    x = g("MaxPool", _conv_bn(g, "x", 3, 64, 7, 2, act="Relu"), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    channels = 64
    for width, blocks, first in BLOCKS_RESNET50:
        for i in range(blocks):
            stride = first if i == 0 else 1
            y = _conv_bn(g, x, channels, width, 1, act="Relu")
            y = _conv_bn(g, y, width, width, 3, stride, act="Relu")
            y = _conv_bn(g, y, width, 4 * width, 1)
            x = _conv_bn(g, x, channels, 4 * width, 1, stride) if i == 0 else x
            x, channels = g("Relu", g("Add", y, x)), 4 * width
    return g.model({"x": (batch, 3, 224, 224)}, _classifier(g, x, channels))


def mobilenet_v2(batch: int | str = 1) -> ModelProto:
    """MobileNetV2 of Sandler et al. (arXiv:1801.04381)."""
    g, channels = Graph(), 32
    x = _conv_bn(g, "x", 3, channels, 3, 2, act="Clip")
    for expansion, width, blocks, first in BLOCKS_MOBILENETV2:
        for i in range(blocks):
            inner, stride, y = channels * expansion, first if i == 0 else 1, x
            if expansion > 1:
                y = _conv_bn(g, y, channels, inner, 1, act="Clip")
            y = _conv_bn(g, y, inner, inner, 3, stride, inner, act="Clip")
            y = _conv_bn(g, y, inner, width, 1)
            x = g("Add", x, y) if stride == 1 and channels == width else y
            channels = width
    return g.model({"x": (batch, 3, 224, 224)}, _classifier(g, _conv_bn(g, x, channels, 1280, 1, act="Clip"), 1280))


def unet(batch: int | str = 1, width: int = 16, depth: int = 2, size: int | str = 64) -> ModelProto:
    """A small U-Net (Ronneberger et al., arXiv:1505.04597): unpadded convolutions, so that skips are cropped."""
    g, x, channels, skips = Graph(), "x", 3, []

    def twice(x: str, cin: int, cout: int) -> str:
        for source in (cin, cout):
            x = g("Relu", g("Conv", x, g.weight(cout, source, 3, 3), g.weight(cout)))
        return x

    for level in range(depth):
        x, channels = twice(x, channels, width << level), width << level
        skips.append(x)
        x = g("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x, channels = twice(x, channels, 2 * channels), 2 * channels
    for level in reversed(range(depth)):
        half = channels // 2
        x = g("ConvTranspose", x, g.weight(channels, half, 2, 2), g.weight(half), strides=[2, 2])
        space = g("Slice", g("Shape", x), g.number(2), g.number(4))
        skip = g("Slice", skips[level], g.number(0, 0), space, g.number(2, 3))
        x, channels = twice(g("Concat", skip, x, axis=1), channels, half), half
    return g.model({"x": (batch, 3, size, size)}, g("Conv", x, g.weight(2, channels, 1, 1), g.weight(2)))


def encoder(
    batch: int | str = 2, steps: int | str = 8, width: int = 16, heads: int = 4, inner: int = 64, vocabulary: int = 50
) -> ModelProto:
    """One layer of a transformer encoder as exporters decompose it: the graph computes shapes."""
    g = Graph()
    x = g("Gather", g.weight(vocabulary, width), "x")
    shape = g("Shape", x)
    rows = [g("Gather", shape, g.number(i, scalar=True), axis=0) for i in (0, 1)]
    lengths = [g("Unsqueeze", row, g.number(0)) for row in rows]
    split = g("Concat", *lengths, g.number(heads), g.number(width // heads), axis=0)
    joined = g("Concat", *lengths, g.number(width), axis=0)

    def dense(x: str, cin: int, cout: int) -> str:
        return g("Add", g("MatMul", x, g.weight(cin, cout)), g.weight(cout))

    def head(x: str, perm: list[int]) -> str:
        return g("Transpose", g("Reshape", x, split), perm=perm)

    packed = g("Split", dense(x, width, 3 * width), axis=-1, num_outputs=3, outputs=3)
    q, k, v = (head(part, perm) for part, perm in zip(packed, ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]), strict=True))
    scores = g("Div", g("MatMul", q, k), g.number((width // heads) ** 0.5, dtype=TensorProto.FLOAT, scalar=True))
    y = g("Transpose", g("MatMul", g("Softmax", scores), v), perm=[0, 2, 1, 3])
    y = dense(g("Reshape", y, joined), width, width)
    x = g("LayerNormalization", g("Add", x, y), g.weight(width), g.weight(width))
    y = dense(g("Gelu", dense(x, width, inner)), inner, width)
    x = g("LayerNormalization", g("Add", x, y), g.weight(width), g.weight(width))
    return g.model({"x": (TensorProto.INT64, (batch, steps))}, x)
