"""Reductions that ONNX Runtime adds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from costcore.translate import Arguments

from ..graph.node import Node
from ..rows.arguments import determined
from ..shapes.reduction import reduced_axes, reduction
from ..values.value import Value
from .spec import OperatorSpec, row


def all_finite(node: Node) -> Sequence[Value]:
    """Infer one bool."""
    node.values("input")
    return [node.result((), "bool")]


def unique(node: Node) -> Sequence[Value]:
    """Infer distinct elements, the index of each element among them, and their counts."""
    x = node.value("x")
    if len(x.known_shape) != 1:
        raise node.error(f"needs an input of one dimension (got the shape {x.known_shape})")
    return [node.result((None,), x.dtype), node.result(x.known_shape, "int64"), node.result((None,), "int64")]


def _test(a: Arguments) -> Any:
    """Return the name of the test; None for both tests."""
    return "isinf" if a.get("isinf_only") else "isnan" if a.get("isnan_only") else None


SPECS: tuple[OperatorSpec, ...] = (
    OperatorSpec(
        "ReduceSumInteger",
        "data",
        attributes="keepdims",
        infer=reduction,
        rows=[
            row(
                "reduce_sum",
                {"x": "data"},
                {"axis": determined(reduced_axes), "keepdims": lambda a: bool(a.get("keepdims", 1))},
            )
        ],
    ),
    OperatorSpec(
        "Unique",
        "x",
        infer=unique,
        rows=[row("unique", {"x": "x"})],
    ),
    OperatorSpec(
        "IsAllFinite",
        "*input",
        required=0,
        infer=all_finite,
        rows=[row("all_finite", {"x*": "input"}, {"test": _test})],
    ),
)
