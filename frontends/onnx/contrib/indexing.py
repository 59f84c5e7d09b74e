"""Gathering operators that ONNX Runtime adds."""

from __future__ import annotations

from collections.abc import Sequence

from ..graph.node import Node
from ..shapes.indexing import gather_nd
from ..values.value import Value
from .spec import OperatorSpec, row


def embedding(node: Node) -> Sequence[Value]:
    """Infer one row of a matrix for each index."""
    weight = node.value("weight")
    return [node.result((*node.value("indices").known_shape, weight.known_shape[-1]), weight.dtype)]


SPECS: tuple[OperatorSpec, ...] = (
    OperatorSpec(
        "GatherND",
        "data indices",
        required=2,
        infer=gather_nd,
        rows=[row("gather_nd", {"x": "data", "indices": "indices"})],
    ),
    OperatorSpec(
        "TorchEmbedding",
        "weight indices padding_idx scale_grad_by_freq",
        required=2,
        infer=embedding,
        rows=[row("embedding", {"x": "indices", "w": "weight"})],
    ),
)
