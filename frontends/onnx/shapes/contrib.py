"""Shapes of operators that ONNX Runtime adds: convolutions, quantised operators, norms, experts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from costcore.dims import Dim

from ..graph.node import Node
from ..values.value import Shape, Value
from . import contrib_products, indexing, normalization, quantization, random, reduction, resampling
from .contrib_products import packed, width
from .conv import WINDOWS
from .layout import creation, rearrange
from .rules import Rule, broadcast
from .windows import Windows, kernel_of, windows


def like(name: str, count: int = 1) -> Rule:
    """Outputs like the input of that name."""
    return lambda node: [node.result(node.value(name).known, node.value(name).dtype) for _ in range(count)]


def channels_first(node: Node, shape: Shape) -> Shape:
    """``[N, H, W, C]`` as ``[N, C, H, W]`` where the operator has channels last."""
    last = node.op.startswith("Nhwc") or node.args.get("channels_last")
    return (shape[0], shape[-1], *shape[1:-1]) if last else shape


def _channels_back(node: Node, shape: Shape) -> Shape:
    last = node.op.startswith("Nhwc") or node.args.get("channels_last")
    return (shape[0], *shape[2:], shape[1]) if last else shape


def conv(node: Node) -> Sequence[Value]:
    """Convolution, with channels first or last."""
    x, w = node.value("X", "x"), node.value("W", "w")
    shape = channels_first(node, x.known)
    if len(shape) < 3 or len(w.known) != len(shape):
        raise node.error(f"needs weights of the rank of its input, got {x.known} and {w.known}")
    group = node.args.get("group", 1)
    is_last = w.known[1] * group != shape[1] and w.known[-1] * group == shape[1]
    kernel = node.args.get("kernel_shape") or (w.known[1:-1] if is_last else w.known[2:])
    found = windows(node, shape[2:], kernel)
    node.cache[WINDOWS] = found
    zero = node.get("y_zero_point")
    dtype = zero.dtype if zero is not None else x.dtype
    return [node.result(_channels_back(node, (shape[0], w.known[0], *found.out)), dtype)]


def pool(node: Node) -> Sequence[Value]:
    """Pooling, with channels first or last."""
    x = node.value("X", "x")
    shape = channels_first(node, x.known)
    if len(shape) < 3:
        raise node.error(f"needs an input of 3 or more dimensions, got {shape}")
    if "Global" in node.op:
        ones = (1,) * (len(shape) - 2)
        nothing = (0,) * (len(shape) - 2)
        found = Windows(shape[2:], ones, ones, nothing, nothing, ones)
    else:
        found = windows(node, shape[2:], kernel_of(node))
    node.cache[WINDOWS] = found
    zero = node.get("y_zero_point")
    dtype = zero.dtype if zero is not None else x.dtype
    return [node.result(_channels_back(node, (*shape[:2], *found.out)), dtype)]


def joined(node: Node) -> Sequence[Value]:
    """Quantised inputs, each with its scale and zero point, joined along an axis."""
    given = node.values("inputs")[::3]
    axis = node.axis(len(given[0].known), "axis") or 0
    shape = list(given[0].known)
    shape[axis] = sum(value.known[axis] for value in given)
    return [node.result(shape, given[0].dtype)]


def pairwise(first: str, second: str) -> Rule:
    """Two operands, broadcast."""
    return lambda node: [
        node.result(broadcast(node, node.value(first).known, node.value(second).known), node.value(first).dtype)
    ]


def where(node: Node) -> Sequence[Value]:
    """Each element from one of two inputs."""
    values = [node.value(name) for name in ("condition", "X", "Y")]
    return [node.result(broadcast(node, *(value.known for value in values)), values[1].dtype)]


def skipped(node: Node) -> Sequence[Value]:
    """The norm, mean and 1/deviation of every row, and the sum that was normalised."""
    x = node.value("input", "X")
    same = node.result(x.known, x.dtype)
    if node.op == "SkipGroupNorm":
        return [same, node.result(x.known, x.dtype)]
    rows = (*x.known[:-1], 1)
    return [same, node.result(rows, "float32"), node.result(rows, "float32"), node.result(x.known, x.dtype)]


def embedded(node: Node) -> Sequence[Value]:
    """The norm of the embeddings, the place of the first masked word, and the sum of the embeddings."""
    ids, table = node.value("input_ids"), node.value("word_embedding")
    shape = (*ids.known, table.known[-1])
    return [
        node.result(shape, table.dtype),
        node.result((ids.known[0],), "int32"),
        node.result(shape, table.dtype),
    ]


def split_gelu(node: Node) -> Sequence[Value]:
    """Half of the channels."""
    x = node.value("X")
    return [node.result((*x.known[:-1], x.known[-1] // 2), x.dtype)]


def upsampled(node: Node) -> Sequence[Value]:
    """Other lengths by whole factors."""
    x, scales = node.value("X"), node.numbers("scales") or ()
    if len(scales) != len(x.known):
        raise node.error(f"has {len(scales)} scales for {len(x.known)} axes")
    return [node.result(tuple(d * int(scale) for d, scale in zip(x.known, scales, strict=True)), x.dtype)]


def reordered(node: Node) -> Sequence[Value]:
    """Channels in blocks, or in order again; then only the attribute says how many there are."""
    x = node.value("X")
    count: Dim = node.args.get("channels") or x.known[1]
    return [node.result((x.known[0], count, *x.known[2:]), x.dtype)]


def experts(node: Node) -> Sequence[Value]:
    """The output like the input; packed weights as the weights they are."""
    x = node.value("input")
    for i in (1, 2, 3):
        w = node.get(f"fc{i}_experts_weights")
        if w is None:
            continue
        name, bits = f"fc{i}_experts_weights", width(node, f"fc{i}_expert_weight_bits", "expert_weight_bits")
        node.cache[name] = w
        if node.op == "QMoE" and w.dtype == "uint8" and bits < 8:
            packed(node, name, (*w.known[:-1], w.known[-1] * (8 // bits)), f"uint{bits}")
    return [node.result(x.known, x.dtype)]


ADDED: dict[str, Callable[[Node], Any]] = {
    **contrib_products.ADDED,
    **dict.fromkeys(("FusedConv", "NhwcConv", "NhwcFusedConv", "QLinearConv"), conv),
    **dict.fromkeys(("NhwcMaxPool", "QLinearAveragePool", "QLinearGlobalAveragePool"), pool),
    **dict.fromkeys(("QLinearAdd", "QLinearMul"), pairwise("A", "B")),
    **dict.fromkeys(("QLinearLeakyRelu", "QLinearSigmoid", "QLinearSoftmax"), like("X")),
    "QLinearConcat": joined,
    "QLinearWhere": where,
    "QLinearReduceMean": reduction.reduction,
    "ReduceSumInteger": reduction.reduction,
    "QuantizeLinear": quantization.quantize,
    "DequantizeLinear": quantization.dequantize,
    **dict.fromkeys(("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "SkipGroupNorm"), skipped),
    **dict.fromkeys(("GroupNorm", "GatedRMSNorm", "FastGelu", "QuickGelu", "Gelu", "BiasAdd", "Inverse"), like("X")),
    "EmbedLayerNormalization": embedded,
    "BiasGelu": pairwise("A", "B"),
    "BiasSplitGelu": split_gelu,
    "BiasSoftmax": like("data"),
    "BiasDropout": random.dropout,
    "MoE": experts,
    "QMoE": experts,
    "GatherND": indexing.gather_nd,
    "GridSample": resampling.grid_sample,
    "Pad": rearrange.pad,
    "Range": creation.range_of,
    "Trilu": like("X"),
    "TorchEmbedding": lambda node: [
        node.result((*node.value("indices").known, node.value("weight").known[-1]), node.value("weight").dtype)
    ],
}
BLOCKED = {
    "Conv": conv,
    **dict.fromkeys(("MaxPool", "GlobalMaxPool", "AveragePool", "GlobalAveragePool"), pool),
    "ReorderInput": reordered,
    "ReorderOutput": reordered,
    "Upsample": upsampled,
}
STANDARD = {"SimplifiedLayerNormalization": normalization.layer_norm}
