"""What operators on sequences and optionals make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from costcore.dims import Dim, ceil_div, is_symbolic

from ..node import Node
from ..values.containers import MOST_ITEMS, common, element_of, repeated, sequence
from ..values.value import DTYPES, Container, Undetermined, Value
from .sources import number_of


def held(node: Node, *names: str) -> Container:
    """The input of that name, which is to be a sequence.

    Raises:
        CostError: where it is a tensor.
    """
    value = node.value(*names)
    if not isinstance(value, Container):
        if value.shape is None:
            raise Undetermined
        raise node.error(f"needs a sequence as its input {names[0]!r}, got a tensor of shape {value.shape}")
    return value


def _place(node: Node, count: int, default: int, last: int) -> int | None:
    """A position in a sequence of ``count`` items, at most ``last``, from the front; None where only data tells it."""
    value = node.get("position")
    if value is None:
        return default
    if value.data is None or is_symbolic(place := value.data.ravel()[0]):
        return None
    if not -count <= place <= last:
        raise node.error(f"has position {place}, but its sequence has {count} items")
    return int(place) + count if place < 0 else int(place)


def empty(node: Node) -> Sequence[Value]:
    """A sequence of nothing."""
    return [sequence((), DTYPES.get(node.args.get("dtype") or 1, "float32"))]


def construct(node: Node) -> Sequence[Value]:
    """A sequence of the inputs."""
    return [sequence(node.values("inputs"))]


def insert(node: Node) -> Sequence[Value]:
    """A sequence with one item more."""
    source, tensor = held(node, "input_sequence"), node.value("tensor")
    if source.items is not None:
        place = _place(node, count := len(source.items), count, count)
        if place is not None:
            return [sequence((*source.items[:place], tensor, *source.items[place:]))]
    length = None if source.length is None else source.length + 1
    element = common((element_of(source), tensor))
    return [Container(dtype=tensor.dtype, element=element, length=length)]


def erase(node: Node) -> Sequence[Value]:
    """A sequence with one item less."""
    source = held(node, "input_sequence")
    if source.items is not None:
        place = _place(node, count := len(source.items), count - 1, count - 1)
        if place is not None:
            return [sequence((*source.items[:place], *source.items[place + 1 :]), source.dtype)]
    length = None if source.length is None else source.length - 1
    return [Container(dtype=source.dtype, element=element_of(source), length=length)]


def at(node: Node) -> Sequence[Value]:
    """One item."""
    source = held(node, "input_sequence")
    if source.items is not None:
        place = _place(node, count := len(source.items), -1, count - 1)
        if place is not None:
            return [_same(source.items[place])]
    element = element_of(source)
    return [Value(None, source.dtype) if element is None else Value(element.shape, element.dtype)]


def _same(value: Value) -> Value:
    """A value under another name."""
    if isinstance(value, Container):
        return value
    renamed = value.viewed(value.known)
    renamed.data, renamed.identity = value.data, 0
    return renamed


def length_of(node: Node) -> Sequence[Value]:
    """How many items a sequence has."""
    length = held(node, "input_sequence").length
    return [Value((), "int64") if length is None else number_of(length)]


def split(node: Node) -> Sequence[Value]:
    """A sequence of parts: of the named lengths, of one length (the last may be shorter), or of single slices."""
    x, wanted = node.value("input"), node.get("split")
    axis = node.axis(len(x.known), "axis") or 0
    total = x.known[axis]
    before, after = x.known[:axis], x.known[axis + 1 :]
    if wanted is None:
        kept = () if not node.args.get("keepdims", 1) else (1,)
        return [repeated(Value((*before, *kept, *after), x.dtype), total)]
    if wanted.known:
        lengths = node.numbers("split") if wanted.data is not None else None
        if lengths is None:
            return [Container(dtype=x.dtype, element=_open(before, after, x), length=wanted.known[0])]
        return [sequence([Value((*before, d, *after), x.dtype) for d in lengths], x.dtype)]
    part = node.number("split") if wanted.data is not None else None
    if part is None or is_symbolic(part) or not isinstance(total, int):
        count = None if part is None else ceil_div(total, part)
        return [Container(dtype=x.dtype, element=_open(before, after, x), length=count)]
    if part < 1:
        raise node.error(f"splits into parts of length {part}")
    whole, rest = divmod(total, part)
    if not rest:
        return [repeated(Value((*before, part, *after), x.dtype), whole)]
    if whole > MOST_ITEMS:
        return [Container(dtype=x.dtype, element=_open(before, after, x), length=whole + 1)]
    lengths = (part,) * whole + (rest,)
    return [sequence([Value((*before, d, *after), x.dtype) for d in lengths], x.dtype)]


def _open(before: tuple[Dim, ...], after: tuple[Dim, ...], x: Value) -> Value:
    shape: Any = (*before, None, *after)  # None among the dimensions: they differ
    return Value(shape, x.dtype)


def joined(node: Node) -> Sequence[Value]:
    """The items of a sequence, joined along an axis, which may be a new one."""
    source, new = held(node, "input_sequence"), node.args.get("new_axis", 0)
    element = element_of(source)
    if element is None or element.shape is None:
        return [Value(None, source.dtype)]
    shape: list[Dim | None] = list(element.shape)
    rank = len(shape) + (1 if new else 0)
    axis = node.axis(rank, "axis") or 0
    if new:
        shape.insert(axis, source.length)
    elif source.items is not None:
        shape[axis] = sum(item.known[axis] for item in source.items)
    else:
        length = shape[axis]
        shape[axis] = None if length is None or source.length is None else length * source.length
    return [node.result(shape, source.dtype)]


def optional(node: Node) -> Sequence[Value]:
    """The input itself, which is then known to be there; or nothing, of a declared type."""
    value = node.inputs[0] if node.inputs else None
    if value is not None:
        return [_same(value)] if value.shape is not None or isinstance(value, Container) else [Value(None, value.dtype)]
    kind = node.args.get("type")
    dtype = "" if kind is None or not kind.HasField("tensor_type") else DTYPES.get(kind.tensor_type.elem_type, "")
    return [Container(dtype=dtype, kind="optional", items=(), length=0)]


def has_element(node: Node) -> Sequence[Value]:
    """Whether an optional holds something: known but for an optional input of the model."""
    value = node.inputs[0] if node.inputs else None
    is_optional = isinstance(value, Container) and value.kind == "optional"
    if isinstance(value, Container) and is_optional and value.items is None:
        return [Value((), "bool")]
    data: Any = np.empty((), dtype=object)
    data[()] = value is not None and not is_optional
    return [Value((), "bool", data, "const", follows_shapes=True)]


def get_element(node: Node) -> Sequence[Value]:
    """What an optional holds.

    Raises:
        CostError: where it is known to hold nothing.
    """
    value = node.value("input")
    if isinstance(value, Container) and value.kind == "optional":
        if value.items is not None:
            raise node.error("takes what an empty optional holds")
        element = value.element
        if isinstance(element, Container):
            return [element]
        return [Value(element.shape if element is not None else None, value.dtype)]
    return [_same(value)] if value.shape is not None or isinstance(value, Container) else [Value(None, value.dtype)]


RULES = {
    "SequenceEmpty": empty,
    "SequenceConstruct": construct,
    "SequenceInsert": insert,
    "SequenceErase": erase,
    "SequenceAt": at,
    "SequenceLength": length_of,
    "SplitToSequence": split,
    "ConcatFromSequence": joined,
    "Optional": optional,
    "OptionalHasElement": has_element,
    "OptionalGetElement": get_element,
}
