"""Errors for nodes whose inputs or attributes their operator does not take."""

from __future__ import annotations

from costcore.errors import CostError

from ..graph.node import Node
from ..values.value import Undetermined
from .unranked import is_unranked, shapes_argument

MISFITS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, Undetermined)
"""What shape rules and rows raise if an operator does not take the inputs or attributes of a node."""


def misfit(node: Node, error: Exception) -> CostError:
    """Return the error for a node that does not fit its operator."""
    if isinstance(error, Undetermined):
        unranked = [n for n, value in zip(node.proto.input, node.inputs, strict=False) if is_unranked(value)]
        return node.error(
            "needs the dimensions of its inputs, which depend on data. Give the model's inputs"
            f"{f', or {shapes_argument(unranked[0])}' if unranked else ''}"
        )
    shapes = ", ".join("none" if value is None else str(value.shape) for value in node.inputs)
    why = str(error).splitlines()
    return node.error(
        f"has inputs or attributes that its operator does not support (inputs of shapes {shapes}; "
        f"{type(error).__name__}{f': {why[0]}' if why else ''})"
    )
