"""Nodes that are alike: networks repeat their layers, and a layer is inferred and translated once."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from onnx import AttributeProto

from costcore.ir import Layer
from costcore.trace.call import Call

from ..graph.node import Node
from ..schema.signature import ONNX
from ..values.value import Value, seen

SETTINGS = frozenset(
    (
        *(AttributeProto.FLOAT, AttributeProto.INT, AttributeProto.STRING),
        *(AttributeProto.FLOATS, AttributeProto.INTS, AttributeProto.STRINGS),
    )
)
"""Types of attributes that are compared; nodes with others are not alike."""

MOST_ELEMENTS = 64
"""Nor are nodes that read values with more elements that are known, learned ones apart."""


class Known(NamedTuple):
    """What a node shares with all that are alike.

    Attributes:
        native: its full name.
        layer: what it is a call of.
        read: which of its inputs are the operands of the layer.
        made: which of its outputs the layer has.
        outputs: all its outputs.
    """

    native: str
    layer: Layer
    read: tuple[int, ...]
    made: tuple[int, ...]
    outputs: tuple[Value | None, ...]


def likeness(
    proto: Any,
    version: int | None,
    inputs: Sequence[Value | None],
    attributes: Mapping[str, Any],
    declared: Mapping[str, Any],
) -> Hashable:
    """All that decides what a node makes and costs, but for where it stands; None for a node that is compared to none.

    Only operators of the standard are: rules of others keep what they learn of stored tensors.

    Args:
        proto: the node (``NodeProto``).
        version: of its domain.
        inputs: its inputs by position.
        attributes: its attributes by name.
        declared: the types that the model declares, by name of the value.
    """
    if proto.domain not in ("", ONNX) or not isinstance(proto.name, str):
        return None
    if any(attribute.type not in SETTINGS for attribute in attributes.values()):
        return None
    for name, value in zip(proto.input, inputs, strict=True):
        if value is None:
            if name:
                return None  # whether it may be missing is seen later
        elif value.shape is None or _is_long(value):
            return None
    given = [seen(value) for value in inputs]
    said = [declared[name].SerializeToString() if name in declared else name != "" for name in proto.output]
    settings = [(name, attribute.SerializeToString()) for name, attribute in attributes.items()]
    return proto.op_type, proto.overload, version, tuple(given), tuple(said), tuple(settings)


def shared(node: Node, call: Call) -> Known | None:
    """What a node, of which ``call`` was recorded, shares with all that are alike; None where that cannot be told."""
    given = [value for value in node.inputs if value is not None]
    made = [value for value in node.outputs if value is not None]
    if len({id(value.stored or value) for value in given}) < len(given):
        return None  # which of its inputs an operand is does not show
    if any(value.stored is not None or value.shape is None for value in made):
        return None
    if node.reads_elements and any(value.role == "param" for value in given):
        return None  # those are not compared
    if node.assumed or "::" in call.layer.op:
        return None  # it is told where it stands
    inputs, outputs = _identities(node.inputs), _identities(node.outputs)
    if not (inputs.keys() >= set(call.inputs) and outputs.keys() >= set(call.outputs)):
        return None
    operands, results = tuple(inputs[i] for i in call.inputs), tuple(outputs[i] for i in call.outputs)
    return Known(node.key, call.layer, operands, results, tuple(node.outputs))


def _is_long(value: Value) -> bool:
    return value.role != "param" and value.data is not None and value.data.size > MOST_ELEMENTS


def _identities(values: Sequence[Value | None]) -> dict[int, int]:
    """The places of values by operand id."""
    return {(value.stored or value).identity: i for i, value in enumerate(values) if value is not None}
