"""Reductions over ragged rows: segments that lengths or offsets tell, and bags of an embedding."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Layer, Operations

from .gather_scatter import UPDATES

DIVISIONS: Mapping[str, Operations] = {"mean": Operations(div=1)}


def calc_segment_reduce(layer: Layer) -> Cost:
    """Reduction of consecutive segments along an axis, whose lengths are data: at most one operation per element of x.

    ``reduction`` is "sum" or "mean" (add; a division per output element), "prod" (mul), "max" or "min" (cmp). Each
    element is joined to what its segment starts from.

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
"""What is done for each element of x: dy, dy / n, dy where x is y, dy y / x."""


def calc_segment_reduce_backward(layer: Layer) -> Cost:
    """Gradient of segment_reduce: dy of its segment to each element; divided (mean), where x is y (max, min), dy y / x.

    Per element of x: nothing for "sum", 1 div for "mean", 1 cmp for "max" and "min", 1 mul and 1 div for "prod".

    Shapes: dy[M, C], y[M, C], x[N, C], lengths[M] -> dx[N, C]
    Settings: reduction="sum"
    """
    operations = layer["x"].size * SEGMENT_GRADIENTS[layer.attrs["reduction"]]
    return Cost(operations, layer.read, layer.written, layer.attrs)
