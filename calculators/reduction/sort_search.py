"""Sorting, searching and selecting.

The work depends on data; counts are upper bounds.
"""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Dim, Layer, Operations, ceil_div, ceil_log2, covers, minimum, pattern, prod

SORTS: Mapping[str, str] = {
    "sort": "the elements in order",
    "argsort": "the positions of the elements in order",
    "quantile": "the elements at given fractions of each sorted row",
}


def sort_comparisons(n: Dim) -> Dim:
    """Return the maximum number of comparisons of a sort of n elements."""
    return n * ceil_log2(n)


def selection_comparisons(n: Dim, k: Dim) -> Dim:
    """Return the maximum number of comparisons that select the k smallest of n elements, at most those of a sort.

    Each element is compared with those selected so far, which are kept in order: ceil(log2(k + 1)) by bisection.
    """
    return n * minimum(ceil_log2(k + 1), ceil_log2(n))


def _rows_and_length(layer: Layer) -> tuple[Dim, Dim]:
    """Return the number and length of the rows along ``axis``; with None the whole input is one row."""
    shape, axis = layer["x"].shape, layer.attrs.get("axis")
    if axis is None or not shape:
        return 1, layer["x"].size
    return prod(size for i, size in enumerate(shape) if i != axis), shape[axis]


@pattern("opaque")
@covers(SORTS)
def calc_sort(layer: Layer) -> Cost:
    """Sorts along an axis: at most n * ceil(log2(n)) cmp per row of length n.

    That is the bound of a comparison sort. With ``axis=None`` the input is one row.

    Shapes: x[N, C] -> y[N, C], indices[N, C]
    Settings: axis=1
    """
    rows, n = _rows_and_length(layer)
    return Cost(Operations(cmp=rows * sort_comparisons(n)), layer.read, layer.written, layer.attrs)


SELECTIONS: Mapping[str, str] = {
    "topk": "the k largest or smallest elements of each row, in order",
    "kth_value": "the k-th smallest element of each row",
    "median": "the middle element of each row of n elements, k = ceil(n / 2)",
}


@pattern("opaque")
@covers(SELECTIONS)
def calc_selection(layer: Layer) -> Cost:
    """Selections along an axis: at most n * ceil(log2(k + 1)) cmp per row of length n.

    Each element is inserted by bisection among the k best so far. The bound is never above that of the sort, n *
    ceil(log2(n)). With ``axis=None`` the input is one row.

    Shapes: x[N, C] -> y[N, K], indices[N, K]
    Shapes of kth_value, median: x[N, C] -> y[N], indices[N]
    Settings: axis=1, k=K
    Settings of median: axis=1
    """
    rows, n = _rows_and_length(layer)
    k = layer.attrs.get("k", ceil_div(n, 2))
    return Cost(Operations(cmp=rows * selection_comparisons(n, k)), layer.read, layer.written, layer.attrs)


SORTED_AND_COUNTED: Mapping[str, str] = {
    "unique": "the distinct elements",
    "mode": "the most frequent element of each row",
}


@pattern("opaque")
@covers(SORTED_AND_COUNTED)
def calc_unique(layer: Layer) -> Cost:
    """Distinct or most frequent elements: a sort, then n - 1 cmp of neighbors, per row of length n.

    The bound of the sort is n * ceil(log2(n)) cmp. With ``axis=None`` the input is one row.

    Shapes: x[N] -> y[N]
    """
    rows, n = _rows_and_length(layer)
    return Cost(Operations(cmp=rows * (sort_comparisons(n) + n - 1)), layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_search_sorted(layer: Layer) -> Cost:
    """Position of each x among n sorted values by bisection.

    At most ceil(log2(n + 1)) cmp per element of x. ``sorted`` is one row of values, or one row for each row of x.

    Shapes: x[M], sorted[N] -> y[M]
    """
    n = layer["sorted"].shape[-1]
    return Cost(Operations(cmp=layer["x"].size * ceil_log2(n + 1)), layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_is_in(layer: Layer) -> Cost:
    """Membership of each element of x among n values, which are sorted and searched by bisection.

    n * ceil(log2(n)) cmp once, and ceil(log2(n + 1)) + 1 cmp per element of x; or n cmp per element if that is less.

    Shapes: x[M], values[N] -> y[M]
    """
    x, n = layer["x"].size, layer["values"].size
    compared = minimum(sort_comparisons(n) + x * (ceil_log2(n + 1) + 1), x * n)
    return Cost(Operations(cmp=compared), layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_nonzero(layer: Layer) -> Cost:
    """Indices of the nonzero elements: one cmp per element.

    The number of outputs depends on data; the frontend assumes it.

    Shapes: x[N, C] -> y[N*C, 2]
    """
    return Cost(Operations(cmp=layer["x"].size), layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_non_max_suppression(layer: Layer) -> Cost:
    """Boxes in order of score, except those that overlap a better one: a sort, and all pairs at most.

    * For each class of n boxes: n * ceil(log2(n)) cmp.
    * For each of its n * (n - 1) / 2 pairs: the intersection (4 max and min, 2 sub, 2 max with 0, 1 mul), the union (2
      add), their quotient and a comparison.
    * For each box its area, once: 2 sub, 1 mul.

    Shapes: x0[B, N, 4], x1[B, C, N] -> y[M, 3]
    """
    boxes, scores = layer["x0"], layer["x1"]
    n = boxes.shape[-2]
    classes = prod(scores.shape[:-1])
    pair = Operations(mul=1, add=4, div=1, cmp=7)
    operations = (
        classes * (n * (n - 1) // 2) * pair
        + Operations(cmp=classes * sort_comparisons(n))
        + prod(boxes.shape[:-1]) * Operations(mul=1, add=2)
    )
    return Cost(operations, layer.read, layer.written, layer.attrs)
