"""Reductions of segments of different lengths."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Layer, Operations, pattern

from .gather_scatter import UPDATES

DIVISIONS: Mapping[str, Operations] = {"mean": Operations(div=1)}
"""The operations per output element, by the attribute ``reduction``; none for the others."""


@pattern("opaque")
def calc_segment_reduce(layer: Layer) -> Cost:
    """Reduction of consecutive segments along an axis, whose lengths are data.

    At most one operation per element of x, which is joined to the starting value of its segment: ``reduction`` "sum" or
    "mean" an add (mean: also a div per output element), "prod" a mul, "max" or "min" a cmp.

    Shapes: x[N, C], lengths[M] -> y[M, C]
    Settings: reduction="sum"
    """
    x, y, reduction = layer["x"], layer.out, layer.attrs["reduction"]
    joined = UPDATES[{"sum": "add", "prod": "mul"}.get(reduction, reduction)]
    operations = x.size * joined + y.size * DIVISIONS.get(reduction, Operations())
    return Cost(operations, layer.read, layer.written, layer.attrs)


SEGMENT_GRADIENTS: Mapping[str, Operations] = {
    "sum": Operations(),
    "mean": Operations(div=1),
    "max": Operations(cmp=1),
    "min": Operations(cmp=1),
    "prod": Operations(mul=1, div=1),
}
"""The operations per element of x: dy, dy / n, dy if x equals y, dy y / x."""


@pattern("opaque")
def calc_segment_reduce_backward(layer: Layer) -> Cost:
    """Gradient of segment_reduce: every element receives dy of its segment.

    Per element of x, by ``reduction``: "sum" nothing, "mean" 1 div, "max" and "min" 1 cmp (is x equal to y), "prod" 1
    mul and 1 div (dy y / x).

    Shapes: dy[M, C], y[M, C], x[N, C], lengths[M] -> dx[N, C]
    Settings: reduction="sum"
    """
    operations = layer["x"].size * SEGMENT_GRADIENTS[layer.attrs["reduction"]]
    return Cost(operations, layer.read, layer.written, layer.attrs)
