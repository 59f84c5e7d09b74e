"""Reductions, cumulative operators, sorting and searching."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from costcore.ir import Cost, Dim, Layer, Operations, ceil_div, ceil_log2, covers, maximum, minimum, pattern, prod

from ._shared import power_operations
from .elementwise import BINARY, UNARY

# Reductions over axes.


ADD, MUL, DIV = Operations(add=1), Operations(mul=1), Operations(div=1)

CMP, SPECIAL, FMA = Operations(cmp=1), Operations(special=1), Operations(fma=1)

NONE = Operations()


class Reduction(NamedTuple):
    """The reduction of n elements to one.

    Attributes:
        each: operations on each of the n elements.
        combine: operations that join two partial results, needed n - 1 times.
        final: operations once per result.
        definition: the expression they are counted from. It is Python over an array x of n elements, and tests execute
            it; a ``dot`` of length n is 1 mul and n - 1 fma.
    """

    each: Operations
    combine: Operations
    final: Operations
    definition: str


REDUCTIONS: Mapping[str, Reduction] = {
    "reduce_sum": Reduction(NONE, ADD, NONE, "sum(x)"),
    "reduce_nansum": Reduction(CMP, ADD, NONE, "sum(where(x == x, x, 0))"),
    "reduce_mean": Reduction(NONE, ADD, DIV, "sum(x) / n"),
    "reduce_prod": Reduction(NONE, MUL, NONE, "prod(x)"),
    "reduce_max": Reduction(NONE, CMP, NONE, "max(x)"),
    "reduce_min": Reduction(NONE, CMP, NONE, "min(x)"),
    "min_max": Reduction(NONE, 2 * CMP, NONE, "(min(x), max(x))"),
    "argmax": Reduction(NONE, CMP, NONE, "argmax(x)"),
    "argmin": Reduction(NONE, CMP, NONE, "argmin(x)"),
    "reduce_all": Reduction(NONE, CMP, NONE, "min(x)"),
    "reduce_any": Reduction(NONE, CMP, NONE, "max(x)"),
    "reduce_l1": Reduction(ADD, ADD, NONE, "sum(abs(x))"),
    "reduce_l2": Reduction(NONE, FMA, MUL + SPECIAL, "sqrt(dot(x, x))"),
    "reduce_linf": Reduction(ADD, CMP, NONE, "max(abs(x))"),
    "reduce_lp": Reduction(ADD + SPECIAL, ADD, SPECIAL, "sum(abs(x) ** p) ** (1 / p)"),
    "reduce_sum_square": Reduction(NONE, FMA, MUL, "dot(x, x)"),
    "reduce_log_sum": Reduction(NONE, ADD, SPECIAL, "log(sum(x))"),
    "reduce_log_sum_exp": Reduction(SPECIAL, ADD, SPECIAL, "log(sum(exp(x)))"),
    "count_nonzero": Reduction(CMP, ADD, NONE, "sum(where(x != 0, one, zero))"),
    "var": Reduction(ADD, ADD + FMA, 2 * DIV + MUL, "sum_square(x - sum(x) / n) / (n - correction)"),
    "std": Reduction(ADD, ADD + FMA, 2 * DIV + MUL + SPECIAL, "sqrt(sum_square(x - sum(x) / n) / (n - correction))"),
    "var_mean": Reduction(ADD, ADD + FMA, 2 * DIV + MUL, "sum_square(x - sum(x) / n) / (n - correction)"),
    "std_mean": Reduction(
        ADD, ADD + FMA, 2 * DIV + MUL + SPECIAL, "sqrt(sum_square(x - sum(x) / n) / (n - correction))"
    ),
}


def lp_reduction(p: object) -> Reduction:
    """Return the p-norm for a constant p that has no operator of its own: p = 3 needs no powers of elements."""
    return REDUCTIONS["reduce_lp"]._replace(each=ADD + power_operations(p))


@pattern("reduce")
@covers(REDUCTIONS)
def calc_reduction(layer: Layer) -> Cost:
    """Sums, means, extrema and norms over axes: the definition, once per element of y.

    Each element of y is the result of |x|/|y| elements of x.

    The sum of n elements is n - 1 additions, a maximum n - 1 comparisons, a sum of squares 1 mul and n - 1 fma, in any
    order of evaluation. Unlike implementations, ``reduce_log_sum_exp`` does not subtract the maximum first; nor does
    ``softmax``. Indices that ``argmax`` writes have their own element size. Other outputs (the mean of ``var_mean``)
    are written and add no operations. The cubes of ``reduce_lp`` with ``p`` 3 are 2 mul instead of 1 special.

    Shapes: x[N, C] -> y[N]
    """
    reduction = lp_reduction(layer.attrs.get("p")) if layer.op == "reduce_lp" else REDUCTIONS[layer.op]
    n, results = layer["x"].size, layer.out.size
    operations = n * reduction.each + (n - results) * reduction.combine + results * reduction.final
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_trace(layer: Layer) -> Cost:
    """Sum of the n elements of a matrix's diagonal: n - 1 add; only the diagonal is read.

    Shapes: x[N, N] -> y[]
    """
    x = layer["x"]
    n = x.shape[0] + x.shape[1] - maximum(x.shape[0], x.shape[1])
    return Cost(Operations(add=n - 1), x.bytes_of_part(n), layer.written, layer.attrs)


@pattern("reduce")
def calc_reduce_xor(layer: Layer) -> Cost:
    """Exclusive or of the bits of all elements along axes, a hash: n - 1 cmp for n elements.

    Shapes: x[N, C] -> y[N]
    """
    return Cost(Operations(cmp=layer["x"].size - layer.out.size), layer.read, layer.written, layer.attrs)


@pattern("map")
def calc_reduce_sum_square_backward(layer: Layer) -> Cost:
    """Gradient of reduce_sum_square, 2 x dy: 2 mul per element.

    Shapes: x[N, C], dy[N, C] -> dx[N, C]
    """
    return Cost(layer.out.size * Operations(mul=2), layer.read, layer.written, layer.attrs)


# The p-norm as a reduction, for distances, losses and lists of tensors.


NORMS: Mapping[object, str] = {
    0: "count_nonzero",
    1: "reduce_l1",
    2: "reduce_l2",
    float("inf"): "reduce_linf",
    float("-inf"): "reduce_linf",
}
"""The reduction that a p-norm is, by p; any other p is :func:`lp_reduction`."""


def norm_operations(p: object, elements: Dim, count: Dim) -> Operations:
    """Return the operations of the p-norms of ``count`` rows with ``elements`` elements in all."""
    reduction = REDUCTIONS[NORMS[p]] if p in NORMS else lp_reduction(p)
    return elements * reduction.each + (elements - count) * reduction.combine + count * reduction.final


# Cumulative operators along an axis.


class Running(NamedTuple):
    """One step of a cumulative operator, and its definition."""

    operations: Operations
    definition: str


CUMULATIVE: Mapping[str, Running] = {
    "cumsum": Running(ADD, "y[i] = y[i-1] + x[i]"),
    "cumprod": Running(MUL, "y[i] = y[i-1] * x[i]"),
    "cummax": Running(CMP, "y[i] = max(y[i-1], x[i])"),
    "cummin": Running(CMP, "y[i] = min(y[i-1], x[i])"),
}


@pattern("opaque")
@covers(CUMULATIVE)
def calc_cumulative(layer: Layer) -> Cost:
    """Cumulative sum, product or extremum along an axis: n - 1 operations per row of length n.

    ``exclusive`` omits the last element of a row: n - 2 operations. The direction does not matter. Without ``axis`` (if
    it is data) the input counts as one row, the maximum.

    Shapes: x[N, C] -> y[N, C]
    Settings: axis=1
    """
    x, axis = layer["x"], layer.attrs.get("axis")
    rows = 1 if axis is None else prod(size for i, size in enumerate(x.shape) if i != axis)
    steps = x.size - rows
    if layer.attrs.get("exclusive", False):
        steps = maximum(steps - rows, 0)
    return Cost(steps * CUMULATIVE[layer.op].operations, layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_logcumsumexp(layer: Layer) -> Cost:
    """Logarithm of a cumulative sum of exponentials: 2 special per element, n - 1 add per row of length n.

    Shapes: x[N, C] -> y[N, C]
    Settings: axis=1
    """
    x, axis = layer["x"], layer.attrs["axis"]
    rows = prod(size for i, size in enumerate(x.shape) if i != axis)
    return Cost(Operations(add=x.size - rows, special=2 * x.size), layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_linear_recurrence(layer: Layer) -> Cost:
    """Linear recurrence along ``axis``, y_0 = x0_0 and y_i = x1_i y_(i-1) + x0_i.

    One fma per step of a row.

    Shapes: x0[N, T], x1[N, T-1] -> y[N, T]
    Settings: axis=1
    """
    return Cost(Operations(fma=layer["x1"].size), layer.read, layer.written, layer.attrs)


# Sorting, searching and selecting.
#
# The work depends on data; counts are upper bounds.


SORTS: Mapping[str, str] = {
    "sort": "the elements in order",
    "argsort": "the positions of the elements in order",
    "quantile": "the elements at given fractions of each sorted row",
}


def sort_comparisons(n: Dim) -> Dim:
    """Return the maximum number of comparisons of a sort of n elements."""
    return n * ceil_log2(n)


def selection_comparisons(n: Dim, k: Dim) -> Dim:
    """Return the maximum comparisons to select the k smallest of n elements; never more than for a sort.

    Each element is inserted by bisection among the sorted elements selected so far: ceil(log2(k + 1)).
    """
    return n * minimum(ceil_log2(k + 1), ceil_log2(n))


def _rows_and_length(layer: Layer) -> tuple[Dim, Dim]:
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
    """Boxes that overlap no box with a higher score: a sort, and at most all pairs.

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


# Counts of integers, and histograms of points in one or several dimensions.


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


# Comparisons and tests of whole tensors.


@pattern("reduce")
def calc_all_equal(layer: Layer) -> Cost:
    """Equality of two tensors: n cmp, and n - 1 cmp to join them. Tensors of different shapes are not read.

    Shapes: x0[N, C], x1[N, C] -> y[]
    """
    if layer["x0"].shape != layer["x1"].shape:
        return Cost(Operations(), 0, 0, layer.attrs)
    return Cost(Operations(cmp=2 * layer["x0"].size - 1), layer.read, layer.written, layer.attrs)


@pattern("reduce")
def calc_all_close(layer: Layer) -> Cost:
    """Equality of two tensors up to a tolerance: ``isclose`` of every element, and n - 1 cmp to join them.

    Shapes: x0[N, C], x1[N, C] -> y[]
    """
    n = layer["x0"].size
    operations = n * BINARY["isclose"].operations + Operations(cmp=n - 1)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("reduce")
def calc_all_true(layer: Layer) -> Cost:
    """Test that a mask satisfies a condition of the framework: one cmp per element.

    Shapes: x[N, C] -> y[]
    """
    return Cost(Operations(cmp=layer["x"].size), layer.read, layer.written, layer.attrs)


@pattern("reduce")
def calc_all_finite(layer: Layer) -> Cost:
    """Test that all elements of all operands are finite.

    ``test`` of each of n elements, and n - 1 cmp to join them. ``test`` is ``isfinite``, ``isinf`` (1 add, 1 cmp) or
    ``isnan`` (1 cmp).

    Shapes: x0[N, C], x1[M] -> y[]
    """
    n = sum(x.size for x in layer.inputs.values())
    operations = n * UNARY[layer.attrs.get("test", "isfinite")].operations + Operations(cmp=n - 1)
    return Cost(operations, layer.read, layer.written, layer.attrs)


# Reductions of every tensor of a list, as optimizers run them.


@pattern("opaque")
def calc_foreach_norm(layer: Layer) -> Cost:
    """The norm of every tensor of a list.

    * ``p=2`` (default): for n elements 1 mul, n - 1 fma and a root.
    * ``p=1``: n absolute values and n - 1 additions.
    * Another ``p``: an absolute value and a power per element, n - 1 additions and a root.

    Shapes: x0[N], x1[M] -> y0[], y1[]
    """
    n, count = sum(x.size for x in layer.inputs.values()), len(layer.outputs)
    return Cost(norm_operations(layer.attrs.get("p", 2), n, count), layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_foreach_powsum(layer: Layer) -> Cost:
    """The sum of powers of every tensor of a list: ``foreach_norm`` without the root.

    Shapes: x0[N], x1[M] -> y0[], y1[]
    """
    n, count, p = sum(x.size for x in layer.inputs.values()), len(layer.outputs), layer.attrs.get("p", 2)
    operations = norm_operations(p, n, count) + Operations(special=0 if p in NORMS and p != 2 else -count)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_foreach_max(layer: Layer) -> Cost:
    """The largest element of every tensor of a list: n - 1 cmp for n elements.

    Shapes: x0[N], x1[M] -> y0[], y1[]
    """
    operations = Operations(cmp=sum(x.size for x in layer.inputs.values()) - len(layer.outputs))
    return Cost(operations, layer.read, layer.written, layer.attrs)
