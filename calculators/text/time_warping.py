"""Dynamic time warping."""

from __future__ import annotations

from costcore.ir import Cost, Layer, Operations, pattern


@pattern("opaque")
def calc_time_warping(layer: Layer) -> Cost:
    """Cheapest path through a matrix of costs.

    Every element plus the least of three sums: 1 add and 2 cmp. The reconstruction of the path is index arithmetic.

    Source: Sakoe and Chiba, IEEE TASSP 26, 1978.

    Shapes: x[M, N] -> y[2, L]
    """
    return Cost(layer["x"].size * Operations(add=1, cmp=2), layer.read, layer.written, layer.attrs)
