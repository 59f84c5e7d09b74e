"""Sequences, maps and optionals: values that hold values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from costcore.numbers.dims import Dim

from .declared_types import declared_shape
from .dimensions import Dimensions
from .value import DTYPES, Container, Value

MOST_ITEMS = 1024
"""Of longer sequences only the length is kept, and what their items have in common."""


def sequence(items: Iterable[Value], dtype: str = "") -> Container:
    """Return the sequence of ``items``."""
    values = tuple(items)
    return Container(dtype=values[0].dtype if values else dtype, items=values, length=len(values))


def repeated_sequence(element: Value | None, length: Dim | None, dtype: str = "") -> Container:
    """Return a sequence of ``length`` values like ``element``."""
    if element is not None and isinstance(length, int) and length <= MOST_ITEMS and has_known_shape(element):
        return sequence([element] * length, element.dtype)
    return Container(dtype=element.dtype if element is not None else dtype, element=element, length=length)


def has_known_shape(value: Value) -> bool:
    """Return True if all dimensions of a value are known."""
    return value.shape is not None and None not in value.shape


def common_element(values: Iterable[Value | None]) -> Value | None:
    """Return what all of ``values`` have in common, None if there are none; dimensions that differ are None."""
    found: Value | None = None
    for value in values:
        if value is None or isinstance(value, Container):
            continue
        if found is None:
            found = Value(value.shape, value.dtype)
        elif found.shape is None or value.shape is None or len(found.shape) != len(value.shape):
            found.shape = None
        else:
            shape: Any = tuple(a if a == b else None for a, b in zip(found.shape, value.shape, strict=True))
            found.shape = shape
    return found


def element_of(container: Container) -> Value | None:
    """Return what all items of a container have in common."""
    return container.element if container.items is None else common_element(container.items)


def inside_loop(container: Container, length: Dim | None) -> Container:
    """Return a container as a loop's body sees it in the middle of the run, with ``length`` items."""
    return Container(dtype=container.dtype, kind=container.kind, element=element_of(container), length=length)


def after_loop(first: Container, last: Container, items: Dim, times: Dim) -> Container:
    """Return a container after a loop whose body received it with ``items`` items and returned ``last``."""
    length = None
    if last.length is not None and first.length is not None and last.items is None:
        added = last.length - items
        length = first.length + times * added if isinstance(added, int) or added.is_Integer else None
    if last.items is not None:
        return last
    element = common_element((element_of(first), element_of(last)))
    return Container(dtype=last.dtype or first.dtype, kind=first.kind, element=element, length=length)


def declared_value(kind: Any, dims: Dimensions, name: str) -> Value:
    """Return a value of a declared_value type (``TypeProto``); unknown lengths of containers become symbols."""
    if kind.HasField("tensor_type"):
        tensor = kind.tensor_type
        shape: Any = declared_shape(tensor, dims)  # the first reader replaces None among the dimensions
        return Value(shape, DTYPES.get(tensor.elem_type, "float32"))
    if kind.HasField("sequence_type"):
        element = declared_value(kind.sequence_type.elem_type, dims, name)
        return Container(dtype=element.dtype, element=element, length=dims.fresh(f"{name}_length"))
    if kind.HasField("optional_type"):
        element = declared_value(kind.optional_type.elem_type, dims, name)
        return Container(dtype=element.dtype, kind="optional", element=element)
    if kind.HasField("map_type"):
        element = declared_value(kind.map_type.value_type, dims, name)
        return Container(dtype=element.dtype, kind="map", element=element, length=dims.fresh(f"{name}_length"))
    return Value(None, "float32")
