"""Metrics, which have no gradient."""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations, pattern, prod

from .._shared import dot_products


def _elements_and_rows(layer: Layer) -> tuple[Dim, Dim]:
    """Return the elements of the scores x[N, C, ...], and the number of rows of C."""
    return layer["x"].size, layer["target"].size


@pattern("reduce")
def calc_accuracy(layer: Layer) -> Cost:
    """Share of the rows whose largest score is at their target, sum(argmax(x) == target) / N.

    Per row of c scores c - 1 cmp for the largest and 1 cmp with the target; N - 1 add and 1 div. With the attribute
    ``ignore_index`` rows with that target are excluded: per row 2 cmp (the comparison and the choice), N - 1 add for
    their number, 2 subtractions.

    Shapes: x[N, C], target[N] -> y[]
    """
    size, count = _elements_and_rows(layer)
    operations = Operations(cmp=size, add=count - 1, div=1)
    if layer.attrs.get("ignore_index") is not None:
        operations += Operations(cmp=2 * count, add=count + 1)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("reduce")
def calc_binary_accuracy(layer: Layer) -> Cost:
    """Share of the scores whose sign agrees with their target, 0 or 1; targets of -1 are excluded.

    Per element the sign, its comparison with the target, and the comparison of the target with -1 (3 cmp); two counts
    of n - 1 add; their quotient, and before it 1 cmp of the divisor with 1.

    Shapes: x[N], target[N] -> y[]
    """
    n = layer["x"].size
    return Cost(Operations(cmp=3 * n + 1, add=2 * n - 2, div=1), layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_classification_summary(layer: Layer) -> Cost:
    """Precision, recall, F score and support of every class.

    * Per row of c scores: c - 1 cmp for the largest, 1 cmp with the ignored label, 2 choices by it, 1 cmp with the
      target and 1 choice; three counts by class, 1 add each.
    * Per class: two quotients, and (1 + b^2) p r / (b^2 p + r), 3 mul, 1 add, 1 div. Constants are folded.

    Shapes: x[N, C], target[N] -> precision[C], recall[C], score[C], support[C]
    """
    (size, count), classes = _elements_and_rows(layer), layer.out.size
    operations = Operations(cmp=size + 4 * count, add=3 * count) + Operations(mul=3, add=1, div=3) * classes
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("reduce")
def calc_r2_score(layer: Layer) -> Cost:
    """Coefficient of determination per column, 1 - sum((t - x)^2) / sum((t - mean(t))^2), with target t.

    * Per column of n elements: two sums of squares (1 mul, n - 1 fma and n subtractions each), the mean (n - 1 add, 1
      div), the quotient and the subtraction, 2 cmp for a divisor of 0.
    * ``reduction`` "mean": the mean of all columns.

    Shapes: x[N, C], target[N, C] -> y[]
    Settings: reduction="mean"
    """
    size, columns = layer["x"].size, prod(layer["x"].shape[1:])
    operations = dot_products(2 * columns, 2 * size) + Operations(add=3 * size, div=2 * columns, cmp=2 * columns)
    if layer.attrs.get("reduction", "mean") == "mean":
        operations += Operations(add=columns - 1, div=1)
    return Cost(operations, layer.read, layer.written, layer.attrs)
