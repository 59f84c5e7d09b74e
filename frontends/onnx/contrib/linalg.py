"""Linear algebra that ONNX Runtime adds."""

from __future__ import annotations

from collections.abc import Sequence

from ..graph.node import Node
from ..schema.constraints import ANY, Constraints
from ..shapes.rules import like
from ..values.value import Value
from .spec import EXTENSIONS, MICROSOFT, OperatorSpec, row


def distances(node: Node) -> Sequence[Value]:
    """Infer one distance for each pair of rows."""
    a, b = node.value("A"), node.value("B")
    if len(a.known_shape) != 2 or len(b.known_shape) != 2:
        raise node.error(f"needs two matrices (got the shapes {a.known_shape} and {b.known_shape})")
    return [node.result((a.known_shape[0], b.known_shape[0]), a.dtype)]


METRICS = {"euclidean": 2, "cityblock": 1, "chebyshev": float("inf")}
"""Order of the norm of the difference, by metric."""


SPECS: tuple[OperatorSpec, ...] = (
    *(
        OperatorSpec(
            "Inverse",
            "X",
            constraints=Constraints(ranks={"X": (2, ANY)}),
            infer=like("X"),
            rows=[row("inverse", {"x": "X"})],
            domain=domain,
        )
        for domain in (MICROSOFT, *EXTENSIONS)
    ),
    OperatorSpec(
        "CDist",
        "A B",
        required=2,
        infer=distances,
        rows=[
            row(
                "squared_distances",
                {"x0": "A", "x1": "B"},
                when=lambda a: a.get("metric", "sqeuclidean") == "sqeuclidean",
            ),
            row(
                "pairwise_distances",
                {"x0": "A", "x1": "B"},
                {"p": lambda a: METRICS[a["metric"]]},
                when=lambda a: a.get("metric") in METRICS,
            ),
        ],
    ),
)
