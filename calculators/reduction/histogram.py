"""Counts of integers, and histograms of points in one or several dimensions."""

from __future__ import annotations

from costcore.ir import Cost, Layer, Operations, ceil_log2, pattern, prod


@pattern("opaque")
def calc_bin_count(layer: Layer) -> Cost:
    """Frequency of each integer, or the sum of its weights: one add per element of x.

    Shapes: x[N] -> y[M]
    """
    return Cost(Operations(add=layer["x"].size), layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_histogram(layer: Layer) -> Cost:
    """Histogram over equal bins.

    The bin is ``floor((x - lowest) * scale)``: 1 add, 1 mul, 1 cmp (the rounding) per element; 1 add to its count.

    Shapes: x[N] -> y[M]
    """
    return Cost(layer["x"].size * Operations(mul=1, add=2, cmp=1), layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_binned_histogram(layer: Layer) -> Cost:
    """Histogram of points with D coordinates over a grid of bins, equal ones or between given edges.

    * Equal bins (``equal``): 2 add, 1 mul, 1 cmp per coordinate.
    * Given edges: bisection, ceil(log2(n + 1)) cmp per coordinate.
    * The count, or the sum of weights: 1 add per point.
    * ``density``: the counts divided by their sum and by the volumes of the bins, per bin 1 add, 1 div and D mul.

    ``bins`` gives the number of bins along each coordinate.

    Shapes: x[N, 2] -> y[K, K]
    Settings: bins=(K, K), equal=True
    """
    x, bins = layer["x"], layer.attrs["bins"]
    points = x.size // len(bins)
    if layer.attrs.get("equal"):
        operations = x.size * Operations(mul=1, add=2, cmp=1)
    else:
        operations = Operations(cmp=points * sum(ceil_log2(n + 1) for n in bins))
    operations += Operations(add=points)
    if layer.attrs.get("density"):
        operations += prod(bins) * Operations(add=1, div=1, mul=len(bins))
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_bin_edges(layer: Layer) -> Cost:
    """Edges of equal bins over the range of points: least and largest of each coordinate, 2 (n - 1) cmp.

    If the range is given (``ranged``), there are no operations, and the points are not read.

    Shapes: x[N, 2] -> edges0[K], edges1[K]
    """
    x = layer["x"]
    if layer.attrs.get("ranged"):
        return Cost(Operations(), 0, layer.written, layer.attrs)
    columns = x.shape[-1]
    return Cost(Operations(cmp=2 * (x.size - columns)), layer.read, layer.written, layer.attrs)
