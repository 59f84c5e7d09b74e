"""Shapes of operators on sequences, optionals and maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from costcore.numbers.dims import is_symbolic

from ...graph.node import Node, Rule
from ...values.containers import common_element, element_of, sequence
from ...values.value import DTYPES, Container, Undetermined, Value, number_of


def sequence_input(node: Node, *names: str) -> Container:
    """Return the input of that name, which must be a sequence.

    Raises:
        CostError: if it is a tensor.
    """
    value = node.value(*names)
    if not isinstance(value, Container):
        if value.shape is None:
            raise Undetermined
        raise node.error(f"needs a sequence as its input {names[0]!r} (got a tensor of shape {value.shape})")
    return value


def _position(node: Node, count: int, default: int, last: int) -> int | None:
    """Return a position in a sequence of ``count`` items, at most ``last``; None if it depends on data."""
    value = node.get("position")
    if value is None:
        return default
    if value.data is None or is_symbolic(place := value.data.ravel()[0]):
        return None
    if not -count <= place <= last:
        raise node.error(f"has position {place}, but its sequence has {count} items")
    return int(place) + count if place < 0 else int(place)


def empty(node: Node) -> Sequence[Value]:
    """Infer an empty sequence."""
    return [sequence((), DTYPES.get(node.args.get("dtype") or 1, "float32"))]


def construct(node: Node) -> Sequence[Value]:
    """Infer a sequence of the inputs."""
    return [sequence(node.values("inputs"))]


def insert(node: Node) -> Sequence[Value]:
    """Infer a sequence with one more item."""
    source, tensor = sequence_input(node, "input_sequence"), node.value("tensor")
    if source.items is not None:
        place = _position(node, count := len(source.items), count, count)
        if place is not None:
            return [sequence((*source.items[:place], tensor, *source.items[place:]))]
    length = None if source.length is None else source.length + 1
    element = common_element((element_of(source), tensor))
    return [Container(dtype=tensor.dtype, element=element, length=length)]


def erase(node: Node) -> Sequence[Value]:
    """Infer a sequence without one item."""
    source = sequence_input(node, "input_sequence")
    if source.items is not None:
        place = _position(node, count := len(source.items), count - 1, count - 1)
        if place is not None:
            return [sequence((*source.items[:place], *source.items[place + 1 :]), source.dtype)]
    length = None if source.length is None else source.length - 1
    return [Container(dtype=source.dtype, element=element_of(source), length=length)]


def at(node: Node) -> Sequence[Value]:
    """Infer one item."""
    source = sequence_input(node, "input_sequence")
    if source.items is not None:
        place = _position(node, count := len(source.items), -1, count - 1)
        if place is not None:
            return [_renamed(source.items[place])]
    element = element_of(source)
    return [Value(None, source.dtype) if element is None else Value(element.shape, element.dtype)]


def _renamed(value: Value) -> Value:
    """Return the same value for another name."""
    if isinstance(value, Container):
        return value
    copy = value.viewed(value.known_shape)
    copy.data, copy.identity = value.data, 0
    return copy


def length_of(node: Node) -> Sequence[Value]:
    """Infer the number of items."""
    length = sequence_input(node, "input_sequence").length
    return [Value((), "int64") if length is None else number_of(length)]


def optional(node: Node) -> Sequence[Value]:
    """Infer an optional that holds the input, or an empty one of a declared type."""
    value = node.inputs[0] if node.inputs else None
    if value is not None:
        return (
            [_renamed(value)] if value.shape is not None or isinstance(value, Container) else [Value(None, value.dtype)]
        )
    kind = node.args.get("type")
    dtype = "" if kind is None or not kind.HasField("tensor_type") else DTYPES.get(kind.tensor_type.elem_type, "")
    return [Container(dtype=dtype, kind="optional", items=(), length=0)]


def has_element(node: Node) -> Sequence[Value]:
    """Infer whether an optional holds a value; unknown only for an optional input of the model."""
    value = node.inputs[0] if node.inputs else None
    is_optional = isinstance(value, Container) and value.kind == "optional"
    if isinstance(value, Container) and is_optional and value.items is None:
        return [Value((), "bool")]
    data: Any = np.empty((), dtype=object)
    data[()] = value is not None and not is_optional
    return [Value((), "bool", data, "const", follows_shapes=True)]


def get_element(node: Node) -> Sequence[Value]:
    """Infer the value of an optional.

    Raises:
        CostError: if it is known to be empty.
    """
    value = node.value("input")
    if isinstance(value, Container) and value.kind == "optional":
        if value.items is not None:
            raise node.error("reads the value of an empty optional")
        element = value.element
        if isinstance(element, Container):
            return [element]
        return [Value(element.shape if element is not None else None, value.dtype)]
    return [_renamed(value)] if value.shape is not None or isinstance(value, Container) else [Value(None, value.dtype)]


def to_map(node: Node) -> Sequence[Value]:
    """Infer one map for each row."""
    x = node.value("X")
    item = Container(dtype=x.dtype, kind="map", element=Value((), x.dtype), length=x.known_shape[-1])
    return [Container(dtype=x.dtype, element=item, length=x.known_shape[0] if len(x.known_shape) > 1 else 1)]


RULES: Mapping[str, Rule] = {
    "ai.onnx::SequenceEmpty": empty,
    "ai.onnx::SequenceConstruct": construct,
    "ai.onnx::SequenceInsert": insert,
    "ai.onnx::SequenceErase": erase,
    "ai.onnx::SequenceAt": at,
    "ai.onnx::SequenceLength": length_of,
    "ai.onnx::Optional": optional,
    "ai.onnx::OptionalHasElement": has_element,
    "ai.onnx::OptionalGetElement": get_element,
    "ai.onnx.ml::ZipMap": to_map,
}
"""Rules by full operator name."""
