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
    *(
        OperatorSpec(
            name,
            f"x {scaled}_scale {scaled}_zero_point",
            required=2,
            attributes="axis",
            infer=infer,
            rows=[row(op, {"x": "x", "scale": f"{scaled}_scale", "zero_point": f"{scaled}_zero_point"})],
        )
        for name, scaled, infer, op in (
            ("QuantizeLinear", "y", quantize, "quantize"),
            ("DequantizeLinear", "x", dequantize, "dequantize"),
        )
    ),
    *(
        OperatorSpec(
            name,
            "input scale_input",
            required=2,
            infer=infer,
            rows=[row(op, {"x": "input", "scale": "scale_input"})],
        )
        for name, infer, op in (
            ("QuantizeWithOrder", like("input", dtype="int8"), "quantize"),
            ("DequantizeWithOrder", typed("input", "to"), "dequantize"),
        )
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
