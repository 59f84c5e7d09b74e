"""Activations, softmax and dropout that ONNX Runtime fuses with a bias."""

from __future__ import annotations

from collections.abc import Sequence

from ...graph.node import Node
from ...rows.arguments import axis, determined
from ...shapes.random import dropout
from ...shapes.rules import broadcast_of, like
from ...values.value import Value
from ..random import bit_dropout, training
from ..spec import OperatorSpec, row


def split_gelu(node: Node) -> Sequence[Value]:
    """Infer half of the channels."""
    x = node.value("X")
    return [node.result((*x.known_shape[:-1], x.known_shape[-1] // 2), x.dtype)]


SPECS: tuple[OperatorSpec, ...] = (
    OperatorSpec(
        "BiasGelu",
        "A B",
        required=2,
        infer=broadcast_of("A", "B"),
        rows=[row("biased_activation", {"x": "A", "b": "B"}, {"activation": lambda a: "gelu"})],
    ),
    OperatorSpec(
        "FastGelu",
        "X bias",
        infer=like("X"),
        rows=[row("biased_activation", {"x": "X", "b": "bias"}, {"activation": lambda a: "fast_gelu"})],
    ),
    OperatorSpec(
        "BiasSplitGelu",
        "X bias",
        required=2,
        infer=split_gelu,
        rows=[row("biased_gated_activation", {"x": "X", "b": "bias"}, {"activation": lambda a: "gelu"})],
    ),
    OperatorSpec(
        "BiasSoftmax",
        "data bias",
        required=2,
        attributes="axis",
        infer=like("data"),
        rows=[
            row(
                "biased_softmax",
                {"x": "data", "b": "bias"},
                {"axis": lambda a: tuple(range(axis("data", default=1)(a), len(a["data"].known_shape)))},
            )
        ],
    ),
    OperatorSpec(
        "BiasDropout",
        "data bias residual ratio training_mode",
        required=2,
        infer=dropout,
        rows=[
            row(
                "biased_dropout",
                {"x": "data", "b": "bias", "z": "residual"},
                {"training": determined(lambda n: bool(n.number("training_mode")) or None)},
            )
        ],
    ),
    OperatorSpec(
        "BitmaskBiasDropout",
        "data bias residual ratio training_mode",
        required=2,
        infer=bit_dropout,
        rows=[row("biased_dropout", {"x": "data", "b": "bias", "z": "residual"}, {"training": training})],
    ),
)
