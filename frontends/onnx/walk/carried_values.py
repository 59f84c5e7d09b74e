"""Values that bodies of loops take in, carry on and hand out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from costcore.numbers.dims import Dim, is_symbolic

from ..graph.node import Node
from ..graph.scope import Scope
from ..values.containers import after_loop, common_element, inside_loop
from ..values.value import Container, Value
from .walker import Walker


def body_scope(scope: Scope, body: Any, inputs: Sequence[Value]) -> Scope:
    """Return the scope of a loop's body: its inputs, and the values around it."""
    inner = Scope(scope)
    inner.values.update((entry.name, value) for entry, value in zip(body.input, inputs, strict=False))
    return inner


def truth(*condition: Value) -> bool | None:
    """Return a condition if it is known; an omitted one is True."""
    if not condition:
        return True
    return None if condition[0].data is None else bool(condition[0].data.ravel()[0])


def computed(value: Value) -> Value:
    """Return the value as one that depends on data."""
    return value if isinstance(value, Container) else Value(value.shape, value.dtype)


def numeric(value: Value) -> Value:
    """Return the value as one that the run computes; its elements stay known if they are numbers."""
    if isinstance(value, Container):
        return value
    is_number = value.data is not None and not any(map(is_symbolic, value.data.flat))
    return Value(value.shape, value.dtype, value.data if is_number else None)


def scalar(dtype: str, number: Any) -> Value:
    """Return one number that the run computes."""
    data: Any = np.empty((), dtype=object)
    data[()] = number
    return Value((), dtype, data)


def entering(value: Value, length: Dim) -> Value:
    """Return a carried value as the body of a loop sees it: a sequence has ``length`` items by then."""
    return inside_loop(value, length) if isinstance(value, Container) else computed(value)


def stacked(value: Value, times: Dim, axis: int = 0) -> Value:
    """Return the outputs of all iterations, joined along a new axis."""
    if value.shape is None:
        return Value(None, value.dtype)
    shape = list(value.shape)
    shape.insert(axis if axis >= 0 else len(shape) + 1 + axis, times)
    return Value(tuple(shape), value.dtype)


def carried_out(
    walker: Walker, node: Node, before: Sequence[Value], after: Sequence[Value], items: Dim = 0, times: Dim = 0
) -> list[Value | None]:
    """Return the carried values after the last iteration; a dimension that changes is unknown.

    Args:
        walker: the walk.
        node: the loop.
        before: the values before the first iteration.
        after: the values after one iteration.
        items: the length of carried sequences in the body.
        times: the number of iterations.
    """
    found: list[Value | None] = []
    for i, (first, last) in enumerate(zip(before, after, strict=False)):
        if isinstance(first, Container) and isinstance(last, Container):
            found.append(after_loop(first, last, items, times))
            continue
        if first.shape is None or last.shape is None or len(first.shape) != len(last.shape):
            found.append(Value(None, last.dtype))
            continue
        merged = common_element((first, last)) or last
        merged.dtype = last.dtype
        why = "the shape of a carried value changes between iterations: its first shape is counted"
        found.append(with_symbols(walker, node, i, merged, why))
    return found


def with_symbols(walker: Walker, node: Node, i: int, value: Value, why: str) -> Value:
    """Return output ``i`` with a symbol for every unknown dimension; ``why`` is the assumption to add."""
    if value.shape is None or None not in value.shape:
        return value
    walker.recording.assume(why, node.label)
    name = node.proto.output[i]
    shape = tuple(walker.dims.fresh(f"{name}_{axis}") if d is None else d for axis, d in enumerate(value.shape))
    return Value(shape, value.dtype)
