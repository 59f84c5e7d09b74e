"""Dropout that ONNX Runtime adds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from costcore.ir import prod
from costcore.numbers.dims import ceil_div
from costcore.translate import Arguments

from ..graph.node import Node
from ..rows.arguments import determined
from ..values.value import Value
from .spec import OperatorSpec, row


def bit_dropout(node: Node) -> Sequence[Value]:
    """Infer the output, and the mask with 32 elements packed into one."""
    x = node.value("data")
    return [node.result(x.known_shape, x.dtype), node.result((ceil_div(prod(x.known_shape), 32),), "uint32")]


def training(a: Arguments) -> Any:
    """Return True if dropout is in training mode; None if it is not, or if that depends on data."""
    return determined(lambda n: bool(n.number("training_mode")) or None)(a)


SPECS: tuple[OperatorSpec, ...] = (
    OperatorSpec(
        "BitmaskDropout",
        "data ratio training_mode",
        infer=bit_dropout,
        rows=[row("dropout", {"x": "data"}, {"training": training})],
    ),
)
