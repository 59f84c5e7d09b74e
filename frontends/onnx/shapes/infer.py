"""The outputs of a node: by the rule of its operator, by onnx, by declarations, by symbols."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..graph.node import Inferred, Node, check_size
from ..values import containers as held
from ..values.declared_types import declared_shape
from ..values.dimensions import Dimensions, called
from ..values.value import DTYPES, Container, Undetermined, Value
from .onnx_inference import second_opinion

Declared = Callable[[str], Any]
"""The ``TypeProto`` the model declares for a value name, or None."""


Fit = Callable[[Node, str, Sequence[Value | None]], None]


def infer(
    node: Node, dims: Dimensions, declared: Declared, place: str = "", fit: Fit = lambda *_: None
) -> list[Value | None]:
    """The outputs of a node: by its rule, else by onnx's own, then what is given, what is declared, and fresh symbols.

    Args:
        node: the node, its inputs known.
        dims: names of dimensions.
        declared: what the model says of a value.
        place: goes before the names of values.
        fit: fills in what the caller gives of the outputs.

    Raises:
        CostError: where the node is wrong.
    """
    outputs: list[Value | None] = []
    found = _ruled(node) or second_opinion(node, dims)
    values = [*found, *(Value(None, "") for _ in range(len(node.proto.output) - len(found)))]
    fit(node, place, values)
    for name, value in zip(node.proto.output, values, strict=False):
        if not name:
            outputs.append(None)
            continue
        said = declared(name)
        if value.shape is None and said is not None and said.WhichOneof("value") not in (None, "tensor_type"):
            value = value if isinstance(value, Container) else held.declared(said, dims, f"{place}{name}")
        if isinstance(value, Container):
            outputs.append(value)
            continue
        _complete(value, said, f"{place}{name}", dims, node)
        check_size(value, node)
        outputs.append(value)
    return outputs


def _ruled(node: Node) -> Sequence[Value]:
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
    """Fill in what is not known of ``value``."""
    kind = declared.tensor_type if declared is not None and declared.HasField("tensor_type") else None
    if not value.dtype:
        value.dtype = DTYPES.get(kind.elem_type, "float32") if kind is not None else "float32"
    told = declared_shape(kind, dims)
    if value.shape is None:
        if told is None:
            return
        value.shape = told
    elif None not in value.shape:
        return
    if told is None or len(told) != len(value.shape):
        told = (None,) * len(value.shape)
    shape = [told[i] if d is None else d for i, d in enumerate(value.shape)]
    for i, d in enumerate(shape):
        if d is None:
            shape[i] = length = dims.fresh(f"{name}_{i}")
            node.assumed.append(f"the length of axis {i} of {name!r} depends on data: it is {called(length)}")
    value.shape = tuple(shape)
