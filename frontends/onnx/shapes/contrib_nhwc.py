"""Shapes of operators with channels last, as ONNX Runtime's layout transformer writes them: those of the standard."""

from __future__ import annotations

from collections.abc import Sequence

from ..graph.node import Node
from ..schema.signature import ONNX, signature
from ..values.value import Shape, Value
from . import contrib, conv, normalization, pooling, quantization, resampling
from .layout import rearrange
from .rules import Rule

NEWEST = 1 << 30

KNOWN = {
    **conv.RULES,
    **normalization.RULES,
    **pooling.RULES,
    **quantization.RULES,
    **rearrange.RULES,
    **resampling.RULES,
}


def first(shape: Shape) -> Shape:
    """``[N, ..., C]`` as ``[N, C, ...]``."""
    return (shape[0], shape[-1], *shape[1:-1])


def turned(rule: Rule) -> Rule:
    """The rule of an operator with channels first, for channels last.

    Rows of the table see the input with its channels first as well.
    """

    def read(node: Node) -> Sequence[Value]:
        known = signature(ONNX, node.op, NEWEST)
        node.args = {**(known.defaults if known else {}), **node.args}
        node.args.pop("channels_last", None)
        name = next((name for name in ("X", "x", "input") if isinstance(node.args.get(name), Value)), "X")
        x = node.value(name)
        rank = len(x.known)
        if rank < 3:
            raise node.error(f"needs an input of 3 or more dimensions, got {x.known}")
        view = x.viewed(first(x.known))
        node.args[name] = view
        node.inputs = [view if value is x else value for value in node.inputs]
        outputs = rule(node)
        for value in outputs:
            if value.shape is not None and len(value.shape) == rank:
                value.shape = (value.shape[0], *value.shape[2:], value.shape[1])
        return outputs

    return read


def quantized_conv_transpose(node: Node) -> Sequence[Value]:
    """A transposed convolution of integers."""
    x, w, zero = node.value("x"), node.value("w"), node.value("y_zero_point")
    node.args |= {"X": x, "W": w}
    return [node.result(conv.conv_transpose(node)[0].shape, zero.dtype)]


def max_unpool(node: Node) -> Sequence[Value]:
    """The input of a pooling again: of the shape that is given, channels last, else as its settings tell it."""
    wanted = node.numbers("output_shape")
    if wanted is not None:
        return [node.result(wanted, node.value("X").dtype)]
    return turned(pooling.max_unpool)(node)


TURNED = (
    *("Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool", "GlobalMaxPool", "GlobalAveragePool"),
    *("GlobalLpPool", "LRN", "BatchNormalization", "InstanceNormalization", "DepthToSpace", "SpaceToDepth"),
    *("GridSample", "QLinearConv"),
)
ADDED = {
    **{op: turned(KNOWN[f"ai.onnx::{op}"]) for op in TURNED},
    "QLinearConvTranspose": turned(quantized_conv_transpose),
    "QLinearAveragePool": turned(contrib.pool),
    "MaxUnpool": max_unpool,
    "Resize": resampling.resize,
}
