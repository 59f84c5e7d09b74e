"""Quantization and dequantization that ONNX Runtime adds."""

from __future__ import annotations

from collections.abc import Sequence

from ...graph.node import Node, Rule
from ...shapes.quantization import dequantize, quantize
from ...shapes.rules import like
from ...values.value import DTYPES, Value
from ..spec import OperatorSpec, row


def typed(name: str, attribute: str) -> Rule:
    """Return a rule whose output is like that input, in the dtype of an attribute."""
    return lambda node: [
        node.result(node.value(name).known_shape, DTYPES.get(node.args.get(attribute) or 1, "float32"))
    ]


def blocks(node: Node) -> Sequence[Value]:
    """Infer bytes of blocks, and the shape and strides of their contents."""
    rank = len(node.value("x").known_shape)
    return [node.result((None,), "uint8"), *(node.result((rank,), "int64") for _ in range(2))]


def unblocked(node: Node) -> Sequence[Value]:
    """Infer the contents of blocks, whose shape is a value."""
    return [node.result(node.numbers("shape") or (), DTYPES.get(node.args.get("dtype") or 1, "float32"))]


SPECS: tuple[OperatorSpec, ...] = (
    OperatorSpec(
        "QuantizeLinear",
        "x y_scale y_zero_point",
        required=2,
        attributes="axis",
        infer=quantize,
        rows=[row("quantize", {"x": "x", "scale": "y_scale", "zero_point": "y_zero_point"})],
    ),
    OperatorSpec(
        "DequantizeLinear",
        "x x_scale x_zero_point",
        required=2,
        attributes="axis",
        infer=dequantize,
        rows=[row("dequantize", {"x": "x", "scale": "x_scale", "zero_point": "x_zero_point"})],
    ),
    OperatorSpec(
        "QuantizeWithOrder",
        "input scale_input",
        required=2,
        infer=like("input", dtype="int8"),
        rows=[row("quantize", {"x": "input", "scale": "scale_input"})],
    ),
    OperatorSpec(
        "DequantizeWithOrder",
        "input scale_input",
        required=2,
        infer=typed("input", "to"),
        rows=[row("dequantize", {"x": "input", "scale": "scale_input"})],
    ),
    OperatorSpec(
        "QuantizeBFP",
        "x",
        infer=blocks,
        rows=[row("quantize_blocks", {"x": "x"})],
    ),
    OperatorSpec(
        "DequantizeBFP",
        "x shape strides",
        required=3,
        attributes="dtype",
        infer=unblocked,
        rows=[row("dequantize_blocks", {"x": "x"})],
    ),
)
