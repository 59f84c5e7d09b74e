"""The order in which the axes of a view lie in memory."""

from __future__ import annotations

from collections.abc import Sequence

from costcore.ir import Layer, prod
from costcore.numbers.dims import Dim
from costcore.numbers.symbolic import magnitude

Order = Sequence[int]
"""Axes from the outermost to the one whose elements are neighbors in memory."""


def order_of_view(layer: Layer, order: Order | None) -> Order | None:
    """Return the order of the axes of a view; None if it is that of the axes, or unknown.

    Args:
        layer: the view.
        order: the order of the axes of what it is a view of, with the same meaning.
    """
    before, after = next(iter(layer.inputs.values())).shape, layer.outputs[0].shape
    axes, axis = layer.attrs.get("axes"), layer.attrs.get("axis")
    if order is not None and len(order) != len(before):  # of a value that a file says is read in another shape
        order = None
    if isinstance(axes, tuple) and sorted(axes) == list(range(len(before))):
        return [axes.index(each) for each in order or range(len(axes))]
    if order is None:
        return None
    if len(before) == len(after) and sum(a != b for a, b in zip(before, after, strict=True)) == 1:
        return order
    if isinstance(axis, int) and after == before[:axis] + before[axis + 1 :]:
        return [each - (each > axis) for each in order if each != axis]
    return _of_reshaped(before, after, order)


def _of_reshaped(before: Sequence[Dim], after: Sequence[Dim], order: Order) -> Order | None:
    """Return the order of axes, each of which is a part of an axis before, or made of several that are neighbors."""
    ones = [axis for axis, size in enumerate(after) if size == 1]
    left = [axis for axis, size in enumerate(before) if size != 1]
    right = [axis for axis, size in enumerate(after) if size != 1]
    parts: dict[int, list[int]] = {}
    runs: dict[int, list[int]] = {}
    while left and right:
        old, new = [left.pop(0)], [right.pop(0)]
        while (a := prod(before[i] for i in old)) != (b := prod(after[i] for i in new)):
            shorter, rest = (old, left) if magnitude(a) < magnitude(b) else (new, right)
            if not rest:
                return None
            shorter.append(rest.pop(0))
        parts[old[0]], runs[old[0]] = new, old
    memory = [axis for axis in order if before[axis] != 1]
    found = list(ones)
    while memory:
        run = runs.get(memory[0], [])
        if not run or memory[: len(run)] != run:
            return None
        found += parts[run[0]]
        del memory[: len(run)]
    return found
