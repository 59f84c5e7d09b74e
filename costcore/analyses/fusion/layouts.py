"""The order in which the axes of a view lie in memory."""

from __future__ import annotations

from collections.abc import Sequence

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
    is_part = len(before) == len(after) and sum(a != b for a, b in zip(before, after, strict=True)) == 1
    return order if is_part else None
