"""Cross product of vectors."""

from __future__ import annotations

from costcore.ir import Cost, Layer, Operations, pattern


@pattern("window")
def calc_cross(layer: Layer) -> Cost:
    """Cross product of vectors of three elements, with broadcasting: 2 mul and 1 add per output element.

    Shapes: x0[N, 3], x1[N, 3] -> y[N, 3]
    """
    return Cost(layer.out.size * Operations(mul=2, add=1), layer.read, layer.written, layer.attrs)
