"""The order in which the axes of a view lie in memory."""

from __future__ import annotations

from collections.abc import Sequence

from costcore.dims import Dim
from costcore.ir import Layer

Order = Sequence[int]
"""Axes from the outermost to the one whose elements are neighbors in memory."""


def order_of_view(layer: Layer, order: Order | None) -> Order | None:
    """Return the order of the axes of a view; None if it is that of the axes, or unknown.

    Args:
        layer: the view.
        order: the order of the axes of what it is a view of, with the same meaning.
    """
    axes, before, after = layer.attrs.get("axes"), next(iter(layer.inputs.values())).shape, layer.outputs[0].shape
    if isinstance(axes, tuple) and sorted(axes) == list(range(len(before))):
        return [axes.index(each) for each in order or range(len(axes))]
    if order is None:
        return None
    if len(before) == len(after) and sum(a != b for a, b in zip(before, after, strict=True)) == 1:
        return order  # a part along one axis
    return _reshaped(order, before, after)


def _reshaped(order: Order, before: Sequence[Dim], after: Sequence[Dim]) -> Order | None:
    """Return the order of the axes of another shape; None if axes are merged that are no neighbors in memory."""
    sources, results = _aligned(before, after), _aligned(after, before)
    if len(sources) != len(results):
        return None
    found: list[int] = []
    left = list(order)
    while left:
        group = next(i for i, axes in enumerate(sources) if left[0] in axes)
        if left[: len(sources[group])] != sources[group]:
            return None
        del left[: len(sources[group])]
        found += results[group]
    return found if len(found) == len(after) else None


def _aligned(shape: Sequence[Dim], other: Sequence[Dim]) -> list[list[int]]:
    """Return the axes of a shape in the smallest groups that have as many elements as axes of the other shape."""
    ends, size = {1}, 1
    for each in other:
        size = size * each
        ends.add(size)
    groups: list[list[int]] = [[]]
    size = 1
    for axis, each in enumerate(shape):
        groups[-1].append(axis)
        size = size * each
        if size in ends and axis + 1 < len(shape):
            groups.append([])
    return groups
