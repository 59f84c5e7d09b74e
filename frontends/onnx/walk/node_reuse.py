"""Equal nodes, inferred and translated once: networks repeat their layers."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from onnx import AttributeProto

from costcore.ir import Layer
from costcore.trace.call import Call
from costcore.translate import Translation

from ..graph.node import Node
from ..schema.signature import ONNX
from ..values.value import Value, value_signature

COMPARED_TYPES = frozenset(
    (
        *(AttributeProto.FLOAT, AttributeProto.INT, AttributeProto.STRING),
        *(AttributeProto.FLOATS, AttributeProto.INTS, AttributeProto.STRINGS),
    )
)
"""Types of attributes that signatures compare; a node with an attribute of another type has no signature."""

MOST_ELEMENTS = 64
"""A node that reads a value with more known elements, other than a parameter, has no signature."""


class CachedNode(NamedTuple):
    """What equal nodes share.

    Attributes:
        native: full name of the operator.
        layer: the layer of the call.
        operands: indices of the node's inputs that are the operands of the layer.
        results: indices of the node's outputs that the layer has.
        outputs: all outputs of the node.
    """

    native: str
    layer: Layer
    operands: tuple[int, ...]
    results: tuple[int, ...]
    outputs: tuple[Value | None, ...]

    def replay(self, inputs: Sequence[Value | None]) -> tuple[list[Value | None], Translation]:
        """Return the outputs and the translation of an equal node with these inputs."""
        outputs = [value and value.unstored() for value in self.outputs]
        read: list[Any] = [inputs[i] for i in self.operands]
        for value, tensor in zip(read, self.layer.inputs.values(), strict=True):
            if value.stored is not None:
                value.stored.uses.add(tensor.role)
        return outputs, Translation(self.layer, tuple(read), tuple([outputs[i] for i in self.results]), has_row=True)


def node_signature(
    proto: Any,
    produced: Sequence[str],
    version: int | None,
    inputs: Sequence[Value | None],
    attributes: Mapping[str, Any],
    declared: Mapping[str, Any],
) -> Hashable:
    """Return everything that decides the outputs and the cost of a node; None if it cannot be compared.

    Only operators of the standard are compared: shape rules of others keep what they find in stored tensors.

    Args:
        proto: the node (``NodeProto``).
        produced: the names of its outputs.
        version: version of its domain.
        inputs: its inputs by position.
        attributes: its attributes by name.
        declared: the types that the model declares, by value name.
    """
    if proto.domain not in ("", ONNX) or not isinstance(proto.name, str):
        return None
    if attributes and any(attribute.type not in COMPARED_TYPES for attribute in attributes.values()):
        return None
    for name, value in zip(proto.input, inputs, strict=True):
        if value is None:
            if name:
                return None  # whether it may be absent is checked later
        elif value.shape is None or _has_many_elements(value):
            return None
    given = [value_signature(value) for value in inputs]
    types = [declared[name].SerializeToString() if name in declared else name != "" for name in produced]
    written = [(name, attribute.SerializeToString()) for name, attribute in attributes.items()] if attributes else []
    return proto.op_type, proto.overload, version, tuple(given), tuple(types), tuple(written)


def cached_node(node: Node, call: Call) -> CachedNode | None:
    """Return what equal nodes share with ``node``, recorded as ``call``; None if they may share less."""
    inputs = [value for value in node.inputs if value is not None]
    outputs = [value for value in node.outputs if value is not None]
    if len({id(value.stored or value) for value in inputs}) < len(inputs):
        return None  # which of the inputs an operand is cannot be seen
    if any(value.stored is not None or value.shape is None for value in outputs):
        return None
    if node.reads_elements and any(value.role == "param" for value in inputs):
        return None  # signatures do not compare the elements of parameters
    if node.assumed or node.noted or "::" in call.layer.op:
        return None  # reported at each node
    input_ids, output_ids = _indices_by_id(node.inputs), _indices_by_id(node.outputs)
    if not (input_ids.keys() >= set(call.inputs) and output_ids.keys() >= set(call.outputs)):
        return None
    operands, results = tuple(input_ids[i] for i in call.inputs), tuple(output_ids[i] for i in call.outputs)
    return CachedNode(node.key, call.layer, operands, results, tuple(node.outputs))


def _has_many_elements(value: Value) -> bool:
    return value.role != "param" and value.data is not None and value.data.size > MOST_ELEMENTS


def _indices_by_id(values: Sequence[Value | None]) -> dict[int, int]:
    """Return the indices of values by operand id."""
    return {(value.stored or value).identity: i for i, value in enumerate(values) if value is not None}
