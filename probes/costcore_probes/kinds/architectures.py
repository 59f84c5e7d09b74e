"""Public architectures, as lists of layers that give both the derivation and the loops.

Each list is a function of the sizes. The loops run on the same layers with fewer channels and smaller images.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple

from ..arithmetic import evaluate
from ..loops import attention, conv, conv_transpose, linear
from ..probe import Probe

__all__ = ["PROBES"]


class Layer(NamedTuple):
    """A term of the derivation, loops with the same count, and the channels and positions of the output."""

    term: str
    loops: Callable[[], Iterable[Any]]
    channels: int = 0
    places: int = 0

    @property
    def outputs(self) -> int:
        """The number of output elements."""
        return self.channels * self.places


def _conv(
    inputs: int, outputs: int, side: int, kernel: int, stride: int = 1, groups: int = 1, padding: int = -1
) -> Layer:
    padding = kernel // 2 if padding < 0 else padding
    places = (side + 2 * padding - kernel) // stride + 1
    term = f"{outputs} * {places} * {places} * {inputs // groups} * {kernel} * {kernel}"
    sizes = (side, side), (kernel, kernel)
    return Layer(term, lambda: conv(1, inputs, outputs, *sizes, stride, padding, 1, groups), outputs, places**2)


def _linear(rows: int, inputs: int, outputs: int) -> Layer:
    return Layer(f"{rows} * {inputs} * {outputs}", lambda: linear(rows, inputs, outputs), outputs, rows)


def alexnet(image: int, divide: int, inner: int, classes: int) -> Iterator[Layer]:
    """Yield the layers of AlexNet with channels divided by ``divide``."""
    a, b, c, d = 64 // divide, 192 // divide, 384 // divide, 256 // divide
    yield _conv(3, a, image, 11, 4, padding=2)
    side = ((image + 4 - 11) // 4 + 1 - 3) // 2 + 1
    yield _conv(a, b, side, 5)
    side = (side - 3) // 2 + 1
    yield from (_conv(b, c, side, 3), _conv(c, d, side, 3), _conv(d, d, side, 3))
    side = (side - 3) // 2 + 1
    yield from (_linear(1, d * side * side, inner), _linear(1, inner, inner), _linear(1, inner, classes))


def vgg16(image: int, divide: int, inner: int, classes: int) -> Iterator[Layer]:
    """Yield the layers of VGG-16 with channels divided by ``divide``."""
    channels, side = 3, image
    for count, outputs in ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512)):
        for _ in range(count):
            yield _conv(channels, outputs // divide, side, 3)
            channels = outputs // divide
        side //= 2
    yield from (_linear(1, channels * side * side, inner), _linear(1, inner, inner), _linear(1, inner, classes))


def resnet(image: int, divide: int, blocks: tuple[int, ...], bottleneck: bool, classes: int) -> Iterator[Layer]:
    """Yield the layers of a ResNet with channels divided by ``divide``."""
    channels, side = 64 // divide, image // 4
    yield _conv(3, channels, image, 7, 2)
    for stage, count in enumerate(blocks):
        inner = 64 // divide * 2**stage
        outputs = 4 * inner if bottleneck else inner
        for i in range(count):
            stride = 2 if stage and not i else 1
            after = side // stride
            if bottleneck:
                yield from (_conv(channels, inner, side, 1), _conv(inner, inner, side, 3, stride))
                yield _conv(inner, outputs, after, 1)
            else:
                yield from (_conv(channels, inner, side, 3, stride), _conv(inner, outputs, after, 3))
            if channels != outputs or stride > 1:
                yield _conv(channels, outputs, side, 1, stride)
            channels, side = outputs, after
    yield _linear(1, channels, classes)


STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


def mobilenet_v2(image: int, divide: int, last: int, classes: int) -> Iterator[Layer]:
    """Yield the layers of MobileNetV2 with channels divided by ``divide``."""
    channels, side = 32 // divide, image // 2
    yield _conv(3, channels, image, 3, 2)
    for expand, outputs, count, first in STAGES:
        for i in range(count):
            stride, inner = 1 if i else first, channels * expand
            if expand > 1:
                yield _conv(channels, inner, side, 1)
            yield _conv(inner, inner, side, 3, stride, inner)
            side //= stride
            yield _conv(inner, outputs // divide, side, 1)
            channels = outputs // divide
    yield from (_conv(channels, last, side, 1), _linear(1, last, classes))


def unet(image: int, width: int) -> Iterator[Layer]:
    """Yield the layers of a U-Net with ``width`` channels at full size."""
    channels = 1
    for i in range(5):
        yield from (_conv(channels, width * 2**i, image >> i, 3), _conv(width * 2**i, width * 2**i, image >> i, 3))
        channels = width * 2**i
    for i in (3, 2, 1, 0):
        n, side = width * 2**i, image >> (i + 1)
        up = (1, 2 * n, n, (side, side), (2, 2), 2)
        term = f"{2 * n} * {side} * {side} * {n} * 2 * 2"
        yield Layer(term, lambda up=up: conv_transpose(*up), n, (2 * side) ** 2)  # type: ignore[misc]
        yield from (_conv(2 * n, n, image >> i, 3), _conv(n, n, image >> i, 3))
    yield _conv(width, 2, image, 1)


def blocks(count: int, steps: int, size: int, heads: int, inner: int) -> Iterator[Layer]:
    """Yield the layers of blocks of a Transformer: queries, keys and values, attention, output, perceptron."""
    for _ in range(count):
        yield _linear(steps, size, 3 * size)
        yield Layer(f"2 * {steps} * {steps} * {size}", lambda: attention(1, heads, steps, steps, size // heads))
        yield from (_linear(steps, size, size), _linear(steps, size, inner), _linear(steps, inner, size))


def vit(count: int, image: int, size: int, heads: int, classes: int) -> Iterator[Layer]:
    """Yield the layers of a ViT with patches of 16 × 16: the class token is one step more."""
    side = image // 16
    yield _conv(3, size, image, 16, 16, padding=0)
    yield from blocks(count, side * side + 1, size, heads, 4 * size)
    yield _linear(1, size, classes)


def llama(steps: int, size: int, heads: int, groups: int, inner: int) -> Iterator[Layer]:
    """Yield the layers of a block of LLaMA with grouped keys and values."""
    yield from (_linear(steps, size, size), _linear(steps, size, 2 * groups * (size // heads)))
    yield Layer(f"2 * {steps} * {steps} * {size}", lambda: attention(1, heads, steps, steps, size // heads))
    yield from (_linear(steps, size, size), _linear(steps, size, 2 * inner), _linear(steps, inner, size))


def _with_biases(layers: Iterable[Layer], pools: dict[int, int]) -> dict[str, int]:
    """Return the extras if every layer has a bias, and every layer but the last a ReLU.

    Args:
        layers: the layers.
        pools: for each layer with a max pool behind it, the outputs of the pool times (side of the window - 1).
    """
    found = list(layers)
    outputs = [layer.outputs for layer in found]
    return {
        "bias": sum(outputs),
        "relu": sum(outputs[:-1]),
        "max_pool_inputs": sum(outputs[i] for i in pools),
        "max_pool_row_comparisons": sum(pools.values()),
    }


def _with_norms(layers: Iterable[Layer]) -> dict[str, int]:
    """Return the extras of convolutions that each have a norm, followed by a global pool and a Linear."""
    *convs, last = layers
    return {
        "bias": last.outputs,
        "batch_norm_eval": sum(layer.outputs for layer in convs),
        "norm_params_per_item": sum(2 * layer.channels for layer in convs),
        "global_pool_outputs": convs[-1].channels,
    }


def _resnet(layers: list[Layer], blocks: tuple[int, ...], bottleneck: bool) -> dict[str, int]:
    """Return the extras of a ResNet: ReLU modules inside blocks, functions after their sums, and two pools."""
    stem, *body, _ = layers
    inside = outside = 0
    for stage, count in enumerate(blocks):
        for i in range(count):
            own = body[: 3 if bottleneck else 2]
            inside += sum(layer.outputs for layer in own[:-1])
            outside += own[-1].outputs
            body = body[len(own) + (not i and (bottleneck or stage > 0)) :]
    return {
        **_with_norms(layers),
        "relu": stem.outputs + inside,
        "relu_function": outside,
        "max_pool_inputs": stem.outputs,
        "max_pool_row_comparisons": stem.outputs // 4 * 2,
        "avg_pool_inputs": own[-1].outputs,
        "global_pool_inputs": own[-1].outputs,
    }


def _mobilenet(layers: list[Layer]) -> dict[str, int]:
    """Return the extras of MobileNetV2: a pool, and a ReLU6 after every convolution except the projections."""
    *convs, last, _ = layers
    activated, rest = last.outputs + convs[0].outputs, convs[1:]
    for expand, _outputs, count, _stride in STAGES:
        for _ in range(count):
            own = 3 if expand > 1 else 2
            activated += sum(layer.outputs for layer in rest[: own - 1])
            rest = rest[own:]
    pooled = {"avg_pool_inputs": last.outputs, "global_pool_inputs": last.outputs}
    return {**_with_norms(layers), "relu6": activated, **pooled}


def _unet(layers: list[Layer]) -> dict[str, int]:
    """Return the extras of a U-Net: a ReLU after every convolution of a pair, and a pool between two pairs."""
    pairs = [*layers[:10], *(layer for i in range(10, 22, 3) for layer in layers[i + 1 : i + 3])]
    pooled = sum(layers[i].outputs for i in (1, 3, 5, 7))
    relu = sum(layer.outputs for layer in pairs)
    return {"bias": sum(layer.outputs for layer in layers), "relu": relu, "max_pool_function_inputs": pooled}


def _probe(
    name: str,
    network: str,
    table: Iterable[Layer],
    small: Iterable[Layer],
    torch: Any,
    source: str = "",
    extras: Callable[[list[Layer]], dict[str, int]] = lambda _: {},
) -> Probe:
    """Return a probe of the multiply-accumulates of a whole network."""
    layers, fewer = list(table), list(small)
    return Probe(
        f"architectures.{name}",
        network,
        "macs",
        " + ".join(layer.term for layer in layers),
        lambda: chain.from_iterable(layer.loops() for layer in fewer),
        torch=torch,
        small=sum(evaluate(layer.term) for layer in fewer),
        extras=extras(layers),
        tags=frozenset({"architecture"}),
        source=source,
    )


TABLE = "docs.pytorch.org/vision/stable/models.html has {} GMACs (in a column named GFLOPS)"

PROBES = [
    _probe(
        "alexnet",
        "AlexNet in one column at 224 × 224",
        alexnet(224, 1, 4096, 1000),
        alexnet(63, 16, 8, 5),
        lambda b: (b.network("convolutional").alexnet(), (b.x(1, 3, 224, 224),)),
        TABLE.format("0.71"),
        extras=lambda found: _with_biases(found, {0: 2 * 64 * 27 * 27, 1: 2 * 192 * 13 * 13, 4: 2 * 256 * 6 * 6}),
    ),
    _probe(
        "vgg16",
        "VGG-16 at 224 × 224",
        vgg16(224, 1, 4096, 1000),
        vgg16(32, 32, 8, 5),
        lambda b: (b.network("convolutional").vgg16(), (b.x(1, 3, 224, 224),)),
        TABLE.format("15.47"),
        extras=lambda found: _with_biases(found, {i: found[i].outputs // 4 for i in (1, 3, 6, 9, 12)}),
    ),
    _probe(
        "resnet18",
        "ResNet-18 at 224 × 224",
        resnet(224, 1, (2, 2, 2, 2), False, 1000),
        resnet(32, 16, (2, 2, 2, 2), False, 5),
        lambda b: (b.network("convolutional").resnet((2, 2, 2, 2), False), (b.x(1, 3, 224, 224),)),
        TABLE.format("1.81"),
        extras=lambda found: _resnet(found, (2, 2, 2, 2), False),
    ),
    _probe(
        "resnet34",
        "ResNet-34 at 224 × 224",
        resnet(224, 1, (3, 4, 6, 3), False, 1000),
        resnet(32, 32, (3, 4, 6, 3), False, 5),
        lambda b: (b.network("convolutional").resnet((3, 4, 6, 3), False), (b.x(1, 3, 224, 224),)),
        TABLE.format("3.66"),
        extras=lambda found: _resnet(found, (3, 4, 6, 3), False),
    ),
    _probe(
        "resnet50",
        "ResNet-50 at 224 × 224, with its strides in the 3 × 3 convolutions",
        resnet(224, 1, (3, 4, 6, 3), True, 1000),
        resnet(32, 32, (3, 4, 6, 3), True, 5),
        lambda b: (b.network("convolutional").resnet((3, 4, 6, 3), True), (b.x(1, 3, 224, 224),)),
        TABLE.format("4.09"),
        extras=lambda found: _resnet(found, (3, 4, 6, 3), True),
    ),
    _probe(
        "resnet101",
        "ResNet-101 at 224 × 224, with its strides in the 3 × 3 convolutions",
        resnet(224, 1, (3, 4, 23, 3), True, 1000),
        resnet(32, 32, (3, 4, 23, 3), True, 5),
        lambda b: (b.network("convolutional").resnet((3, 4, 23, 3), True), (b.x(1, 3, 224, 224),)),
        TABLE.format("7.80"),
        extras=lambda found: _resnet(found, (3, 4, 23, 3), True),
    ),
    _probe(
        "mobilenet_v2",
        "MobileNetV2 at 224 × 224",
        mobilenet_v2(224, 1, 1280, 1000),
        mobilenet_v2(32, 8, 16, 5),
        lambda b: (b.network("convolutional").mobilenet_v2(), (b.x(1, 3, 224, 224),)),
        "arXiv:1801.04381, table 4: 300M multiply-adds; " + TABLE.format("0.30"),
        extras=_mobilenet,
    ),
    _probe(
        "unet",
        "U-Net with padding at 256 × 256, 64 channels at full size",
        unet(256, 64),
        unet(16, 2),
        lambda b: (b.network("convolutional").UNet().eval(), (b.x(1, 1, 256, 256),)),
        extras=_unet,
    ),
    _probe(
        "vit_b16",
        "ViT-B/16 at 224 × 224",
        vit(12, 224, 768, 12, 1000),
        vit(2, 32, 8, 2, 5),
        lambda b: (b.network("transformers").ViT().eval(), (b.x(1, 3, 224, 224),)),
        TABLE.format("17.56"),
        extras=lambda _: {"layer_norm": 25 * 197 * 768},
    ),
    _probe(
        "bert_base",
        "the encoder of BERT-base on 128 tokens",
        blocks(12, 128, 768, 12, 3072),
        blocks(2, 5, 8, 2, 32),
        lambda b: (b.network("transformers").Encoder().eval(), (b.ids(1, 128, below=100),)),
        extras=lambda _: {"layer_norm": 25 * 128 * 768},
    ),
    _probe(
        "gpt2_block",
        "one block of GPT-2 small on 1024 tokens: all pairs of the causal attention count",
        blocks(1, 1024, 768, 12, 3072),
        blocks(1, 5, 8, 2, 32),
        lambda b: (b.network("transformers").Block(768, 12, 3072, causal=True).eval(), (b.x(1, 1024, 768),)),
        extras=lambda _: {"layer_norm": 2 * 1024 * 768},
    ),
    _probe(
        "llama_7b_block",
        "one block of LLaMA 7B on 256 tokens",
        llama(256, 4096, 32, 32, 11008),
        llama(5, 8, 2, 2, 12),
        lambda b: (b.network("transformers").Llama(4096, 32, 32, 11008).eval(), (b.x(1, 256, 4096),)),
        extras=lambda _: {"multiply": 256 * 11008 + 2 * 256 * (4096 + 4096)},
    ),
    _probe(
        "llama3_8b_block",
        "one block of Llama 3 8B on 256 tokens: 8 heads of keys and values for 32 of queries",
        llama(256, 4096, 32, 8, 14336),
        llama(5, 16, 4, 2, 12),
        lambda b: (b.network("transformers").Llama(4096, 32, 8, 14336).eval(), (b.x(1, 256, 4096),)),
        extras=lambda _: {"multiply": 256 * 14336 + 2 * 256 * (4096 + 1024)},
    ),
]
