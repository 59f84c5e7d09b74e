"""Margin losses and their gradients."""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations, pattern, prod

from .._shared import dot_products
from .losses import (
    class_weight_bytes,
    mean_division,
    reduction_operations,
    rows_and_classes,
    weighted_reduction_operations,
)


def _rows_and_last_axis(layer: Layer) -> tuple[Dim, Dim]:
    """Return the rows and classes of scores x[N, C], x[C] or x[]."""
    shape = layer["x"].shape or (1,)
    return prod(shape[:-1]), shape[-1]


@pattern("reduce")
def calc_margin_ranking_loss(layer: Layer) -> Cost:
    """Margin ranking loss, max(-target * (x0 - x1) + margin, 0), then the reduction.

    3 add, 1 mul and 1 cmp per element.

    Shapes: x0[N], x1[N], target[N] -> y[]
    Settings: reduction="mean"
    """
    size = layer["target"].size
    operations = Operations(mul=1, add=3, cmp=1) * size + reduction_operations(layer, size)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("reduce")
def calc_hinge_loss(layer: Layer) -> Cost:
    """Multi-class hinge loss of Chainer, max(1 + s * x, 0) with s = -1 for the target class, else 1.

    A negation per row; 1 add and 1 cmp per element; ``norm`` "l2" squares the result. The reduction sums over all
    elements; the mean is over the rows.

    Shapes: x[N, C], target[N] -> y[]
    Settings: norm="l1", reduction="mean"
    """
    size, (count, _) = layer["x"].size, rows_and_classes(layer)
    squares, terms = Operations(), reduction_operations(layer, size)
    if layer.attrs.get("norm", "l1").lower() == "l2":
        summed = layer.attrs.get("reduction", "mean") != "none"
        squares = dot_products(1, size) + Operations(div=terms.div) if summed else Operations(mul=size)
        terms = Operations()
    operations = Operations(add=count + size, cmp=size) + squares + terms
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("reduce")
def calc_multi_margin_loss(layer: Layer) -> Cost:
    """Multi-class margin loss: the sum of max(margin - x[target] + x, 0) over the other classes, divided by C.

    * Per row of c classes: 1 add for margin - x[target].
    * For each of c - 1 other classes: 1 add and 1 cmp.
    * The sum: c - 2 add; 1 div.
    * ``p`` 2: the terms are squared, 1 mul and c - 2 fma instead of the sum.
    * Class weights: products that accumulate in the reduction.

    Shapes: x[N, C], target[N] -> y[]
    Settings: reduction="mean"
    """
    count, classes = rows_and_classes(layer)
    row = Operations(add=classes, cmp=classes - 1, div=1)
    row += dot_products(1, classes - 1) if layer.attrs.get("p", 1) == 2 else Operations(add=classes - 2)
    read = layer.read + class_weight_bytes(layer, count)
    reduce = weighted_reduction_operations if "w" in layer else reduction_operations
    return Cost(row * count + reduce(layer, count), read, layer.written, layer.attrs)


@pattern("opaque")
def calc_multi_margin_loss_backward(layer: Layer) -> Cost:
    """Gradient of multi_margin_loss.

    It is dy / C if margin - x[target] + x > 0, and the negative sum of these at the target.

    * Per row of c classes: margin - x[target] (1 add) and dy / c (1 div).
    * For each of the c - 1 other classes: 1 add and 1 cmp.
    * The sum and its sign: c - 1 add.
    * ``p`` 2: each term is multiplied by twice the margin, 2 mul.
    * Class weights: 1 mul per row.
    * A mean divides dy by the number of rows first.

    Shapes: dy[], x[N, C], target[N] -> dx[N, C]
    Settings: reduction="mean"
    """
    count, classes = _rows_and_last_axis(layer)
    row = Operations(add=2 * classes - 1, cmp=classes - 1, div=1, mul=1 if "w" in layer else 0)
    row += Operations(mul=2 * (classes - 1) if layer.attrs.get("p", 1) == 2 else 0)
    return Cost(row * count + mean_division(layer), layer.read, layer.written, layer.attrs)


def _target_pairs(classes: Dim) -> Dim:
    """Return the pairs of a target and another class, at most: half of the classes are targets."""
    return (classes // 2) * (classes - classes // 2)


@pattern("opaque")
def calc_multilabel_margin_loss(layer: Layer) -> Cost:
    """Margin loss of several targets per row: the sum of max(1 - x[t] + x[i], 0), divided by C.

    It runs over targets t and other classes i. The number of targets depends on data; the count assumes half of the c
    classes, c^2 / 4 pairs, the maximum. Per row 1 - x[t] (c/2 add); per pair 1 add, 1 cmp and 1 add for the sum;
    1 div. The flags of target classes are written if they are an output.

    Source: PyTorch, MultiLabelMarginLoss.

    Shapes: x[N, C], target[N, C] -> y[], is_target[N, C]
    Settings: reduction="mean"
    """
    count, classes = _rows_and_last_axis(layer)
    row = Operations(add=classes // 2, div=1) + _target_pairs(classes) * Operations(add=2, cmp=1)
    return Cost(row * count + reduction_operations(layer, count), layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_multilabel_margin_loss_backward(layer: Layer) -> Cost:
    """Gradient of multilabel_margin_loss: dy / C if 1 - x[t] + x[i] > 0, added at i and subtracted at t.

    The count assumes that half of the classes are targets: per row c/2 add and 1 div, per pair 3 add and 1 cmp. A mean
    divides dy by the number of rows first.

    Shapes: dy[], x[N, C], target[N, C], is_target[N, C] -> dx[N, C]
    Settings: reduction="mean"
    """
    count, classes = _rows_and_last_axis(layer)
    row = Operations(add=classes // 2, div=1) + _target_pairs(classes) * Operations(add=3, cmp=1)
    return Cost(row * count + mean_division(layer), layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_hinge_loss_backward(layer: Layer) -> Cost:
    """Gradient of hinge_loss: s dy if 1 + s x > 0, with s = -1 for the target class, else 1.

    * The margin again: 1 add and 1 cmp per element, a negation per row.
    * dy or 0: 1 cmp per element; its sign: 1 add per row.
    * ``norm`` "l2": 2 dy times the margin instead, 2 mul per element.
    * ``reduction`` mean: 1 div of dy.

    Shapes: dy[], x[N, C], target[N] -> dx[N, C]
    Settings: norm="l1", reduction="mean"
    """
    size, count = layer["x"].size, layer["target"].size
    is_l2 = layer.attrs.get("norm", "l1").lower() == "l2"
    element = Operations(add=1, cmp=1) + (Operations(mul=2) if is_l2 else Operations(cmp=1))
    operations = element * size + Operations(add=2 * count)
    operations += Operations(div=1 if layer.attrs.get("reduction", "mean") == "mean" else 0)
    return Cost(operations, layer.read, layer.written, layer.attrs)
