"""Shape inference of one node: by its shape rule, else by onnx.

What remains unknown comes from the user's ``shapes``, then from the model's declarations, and last from new symbols.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..graph.node import Inferred, Node, check_size
from ..values.containers import declared_value
from ..values.declared_types import declared_shape
from ..values.dimensions import Dimensions, describe_size
from ..values.value import DTYPES, Container, Undetermined, Value
from .onnx_inference import infer_by_onnx

Declared = Callable[[str], Any]
"""Returns the ``TypeProto`` that the model declares for a value, by its name, or None."""


Fit = Callable[[Node, str, Sequence[Value | None]], None]
"""Fills in the shapes that the user gave (``shapes=``).

Takes the node, the prefix of the names of its values, and its outputs."""


def infer(
    node: Node, dims: Dimensions, declared: Declared, prefix: str = "", fit: Fit = lambda *_: None
) -> list[Value | None]:
    """Return the outputs of a node.

    They come from its shape rule, else from onnx's inference. What is unknown then comes from the user, from the
    model's declarations, and last from new symbols.

    Args:
        node: the node, its inputs known.
        dims: the named dimensions.
        declared: returns the type that the model declares for a value.
        prefix: prefix of the names of values.
        fit: fills in the shapes that the user gave for the outputs.

    Raises:
        CostError: if the node is invalid.
    """
    outputs: list[Value | None] = []
    found = _ruled(node) or infer_by_onnx(node, dims)
    values = [*found, *(Value(None, "") for _ in range(len(node.proto.output) - len(found)))]
    fit(node, prefix, values)
    for name, value in zip(node.proto.output, values, strict=False):
        if not name:
            outputs.append(None)
            continue
        declaration = declared(name)
        if (
            value.shape is None
            and declaration is not None
            and declaration.WhichOneof("value") not in (None, "tensor_type")
        ):
            value = value if isinstance(value, Container) else declared_value(declaration, dims, f"{prefix}{name}")
        if isinstance(value, Container):
            outputs.append(value)
            continue
        _complete(value, declaration, f"{prefix}{name}", dims, node)
        check_size(value, node)
        outputs.append(value)
    return outputs


def _ruled(node: Node) -> Sequence[Value]:
    """Return the outputs by the node's shape rule; none if it has no rule or the rule cannot finish."""
    if node.rule is None:
        return ()
    try:
        found = node.rule(node)
    except Undetermined:
        return ()
    if isinstance(found, Inferred):
        node.inferred = found
        return found.outputs
    return found


def _complete(value: Value, declared: Any, name: str, dims: Dimensions, node: Node) -> None:
    """Fill in what is unknown of ``value``."""
    kind = declared.tensor_type if declared is not None and declared.HasField("tensor_type") else None
    if not value.dtype:
        value.dtype = DTYPES.get(kind.elem_type, "float32") if kind is not None else "float32"
    declared_dims = declared_shape(kind, dims)
    if value.shape is None:
        if declared_dims is None:
            return
        value.shape = declared_dims
    elif None not in value.shape:
        return
    if declared_dims is None or len(declared_dims) != len(value.shape):
        declared_dims = (None,) * len(value.shape)
    shape = [declared_dims[i] if d is None else d for i, d in enumerate(value.shape)]
    for i, d in enumerate(shape):
        if d is None:
            shape[i] = length = dims.fresh(f"{name}_{i}")
            node.assumed.append(f"the size of axis {i} of {name!r} depends on data: it is {describe_size(length)}")
    value.shape = tuple(shape)
