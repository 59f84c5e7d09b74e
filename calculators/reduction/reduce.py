"""Reductions over axes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from costcore.ir import Cost, Layer, Operations, covers, maximum, pattern

from .._shared import power_operations

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
    """Sum of a matrix's diagonal: one addition less than it has elements; only the diagonal is read.

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
