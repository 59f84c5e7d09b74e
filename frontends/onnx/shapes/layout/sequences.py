"""Shapes of operators that split a tensor into a sequence and join a sequence into a tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from costcore.numbers.dims import Dim, ceil_div, is_symbolic

from ...graph.node import Node, Rule
from ...values.containers import MOST_ITEMS, element_of, repeated_sequence, sequence
from ...values.value import Container, Value
from ..text.sequences import sequence_input


def split_to_sequence(node: Node) -> Sequence[Value]:
    """Infer a sequence of parts: of the given sizes, of one size (the last may be smaller), or of single slices."""
    x, wanted = node.value("input"), node.get("split")
    axis = node.axis(len(x.known_shape), "axis") or 0
    total = x.known_shape[axis]
    before, after = x.known_shape[:axis], x.known_shape[axis + 1 :]
    if wanted is None:
        kept = () if not node.args.get("keepdims", 1) else (1,)
        return [repeated_sequence(Value((*before, *kept, *after), x.dtype), total)]
    if wanted.known_shape:
        lengths = node.numbers("split") if wanted.data is not None else None
        if lengths is None:
            return [
                Container(dtype=x.dtype, element=_part_of_unknown_size(before, after, x), length=wanted.known_shape[0])
            ]
        return [sequence([Value((*before, d, *after), x.dtype) for d in lengths], x.dtype)]
    part = node.number("split") if wanted.data is not None else None
    if part is None or is_symbolic(part) or not isinstance(total, int):
        count = None if part is None else ceil_div(total, part)
        return [Container(dtype=x.dtype, element=_part_of_unknown_size(before, after, x), length=count)]
    if part < 1:
        raise node.error(f"splits into parts of size {part}")
    whole, rest = divmod(total, part)
    if not rest:
        return [repeated_sequence(Value((*before, part, *after), x.dtype), whole)]
    if whole > MOST_ITEMS:
        return [Container(dtype=x.dtype, element=_part_of_unknown_size(before, after, x), length=whole + 1)]
    lengths = (part,) * whole + (rest,)
    return [sequence([Value((*before, d, *after), x.dtype) for d in lengths], x.dtype)]


def _part_of_unknown_size(before: tuple[Dim, ...], after: tuple[Dim, ...], x: Value) -> Value:
    """Return a part of unknown size."""
    shape: Any = (*before, None, *after)  # None: parts differ in this dimension
    return Value(shape, x.dtype)


def concat_from_sequence(node: Node) -> Sequence[Value]:
    """Infer the items of a sequence, joined along an axis, which may be a new one."""
    source, new = sequence_input(node, "input_sequence"), node.args.get("new_axis", 0)
    element = element_of(source)
    if element is None or element.shape is None:
        return [Value(None, source.dtype)]
    shape: list[Dim | None] = list(element.shape)
    rank = len(shape) + (1 if new else 0)
    axis = node.axis(rank, "axis") or 0
    if new:
        shape.insert(axis, source.length)
    elif source.items is not None:
        shape[axis] = sum(item.known_shape[axis] for item in source.items)
    else:
        length = shape[axis]
        shape[axis] = None if length is None or source.length is None else length * source.length
    return [node.result(shape, source.dtype)]


RULES: Mapping[str, Rule] = {
    "ai.onnx::SplitToSequence": split_to_sequence,
    "ai.onnx::ConcatFromSequence": concat_from_sequence,
}
"""Rules by full operator name."""
