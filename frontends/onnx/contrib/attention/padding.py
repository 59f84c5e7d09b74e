"""Removal and restoration of padding around attention, as ONNX Runtime adds them."""

from __future__ import annotations

from collections.abc import Sequence

from ...graph.node import Node
from ...values.value import Value
from ..spec import OperatorSpec, row


def unpadded(node: Node) -> Sequence[Value]:
    """Infer the tokens without padding, their positions, the starts of the sequences, and the longest length."""
    x = node.value("input")
    batch, steps, width = x.known_shape
    counts = ((batch, steps), (batch + 1,), (1,))
    return [node.result((None, width), x.dtype), *(node.result(shape, "int32") for shape in counts)]


def repadded(node: Node) -> Sequence[Value]:
    """Infer padded sequences from joined ones."""
    x, offsets = node.value("input"), node.value("token_offset")
    return [node.result((*offsets.known_shape, x.known_shape[-1]), x.dtype)]


SPECS: tuple[OperatorSpec, ...] = (
    OperatorSpec(
        "RemovePadding",
        "input sequence_token_count",
        required=2,
        infer=unpadded,
        rows=[row("unpad", {"x": "input", "lengths": "sequence_token_count"})],
    ),
    OperatorSpec(
        "RestorePadding",
        "input token_offset",
        required=2,
        infer=repadded,
        rows=[row("repad", {"x": "input", "indices": "token_offset"})],
    ),
)
