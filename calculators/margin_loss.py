"""Margin losses over classes and their gradients, and the gradient of connectionist temporal classification."""

from __future__ import annotations

from costcore.ir import Cost, Dim, Layer, Operations, prod

from .loss import reduce


def _rows(layer: Layer) -> tuple[Dim, Dim]:
    """Rows and classes of scores x[N, C], x[C] or x[]."""
    shape = layer["x"].shape or (1,)
    return prod(shape[:-1]), shape[-1]


def _share(layer: Layer) -> Operations:
    return Operations(div=1 if "mean" in layer.attrs.get("reduction", "mean") else 0)


def calc_multi_margin_loss_backward(layer: Layer) -> Cost:
    """Gradient of multi_margin_loss: dy / C where margin - x[target] + x > 0, and minus their sum at the target.

    Per row of c classes: margin - x[target] (1 add), dy / c (1 div); for each of the c-1 others 1 add, 1 cmp, and their
    sum and its sign, c-1 add. Setting ``p`` 2: each is 2 times what is left as well, 2 mul. Class weights: 1 mul a row.
    A mean divides dy by the number of rows first.

    Shapes: dy[], x[N, C], target[N] -> dx[N, C]
    Settings: reduction="mean"
    """
    count, classes = _rows(layer)
    row = Operations(add=2 * classes - 1, cmp=classes - 1, div=1, mul=1 if "w" in layer else 0)
    row += Operations(mul=2 * (classes - 1) if layer.attrs.get("p", 1) == 2 else 0)
    return Cost(row * count + _share(layer), layer.read, layer.written, layer.attrs)


def _pairs(classes: Dim) -> Dim:
    """Pairs of a target and another class, at most: half of the classes are targets."""
    return (classes // 2) * (classes - classes // 2)


def calc_multilabel_margin_loss(layer: Layer) -> Cost:
    """Margin loss of several targets a row: max(1 - x[t] + x[i], 0) over targets t and other classes i, summed, by C.

    Data says how many targets there are; the bound is half of the c classes, c^2 / 4 pairs. Per row 1 - x[t] (c/2
    add), per pair 1 add, 1 cmp and 1 add for the sum; 1 div. Which class is a target is written where it is an output.

    Source: PyTorch, MultiLabelMarginLoss.

    Shapes: x[N, C], target[N, C] -> y[], is_target[N, C]
    Settings: reduction="mean"
    """
    count, classes = _rows(layer)
    row = Operations(add=classes // 2, div=1) + _pairs(classes) * Operations(add=2, cmp=1)
    return Cost(row * count + reduce(layer, count), layer.read, layer.written, layer.attrs)


def calc_multilabel_margin_loss_backward(layer: Layer) -> Cost:
    """Gradient of multilabel_margin_loss: dy / C, where 1 - x[t] + x[i] > 0, added at i and subtracted at t.

    The bound of half of the classes as targets: per row c/2 add and 1 div, per pair 3 add and 1 cmp. A mean divides dy
    by the number of rows first.

    Shapes: dy[], x[N, C], target[N, C], is_target[N, C] -> dx[N, C]
    Settings: reduction="mean"
    """
    count, classes = _rows(layer)
    row = Operations(add=classes // 2, div=1) + _pairs(classes) * Operations(add=3, cmp=1)
    return Cost(row * count + _share(layer), layer.read, layer.written, layer.attrs)


def calc_ctc_loss_backward(layer: Layer) -> Cost:
    """Gradient of CTC for log-probabilities x: exp(x) - p, times dy, p the posterior of the classes at every step.

    The backward recursion costs what the forward one does, 3 add and 4 special for every visit of a state (2 L + 1
    states a sample, at every step); the posterior of a visit is exp(forward + backward - total), 2 add and 1 special,
    and is added to its class, 1 add. Then for every element of x its exp, a subtraction and a product. What the forward
    pass computed is there already, and read. Lengths that depend on data are taken as the largest possible.

    Source: Graves et al., "Connectionist Temporal Classification", ICML 2006.

    Shapes: dy[N], x[T, N, C], target[N, L] -> dx[T, N, C]
    """
    x = layer["x"]
    visits = x.shape[0] * (2 * layer["target"].size + prod(x.shape[1:-1]))
    operations = Operations(add=6, special=5) * visits + Operations(add=1, mul=1, special=1) * x.size
    return Cost(operations, layer.read, layer.written, layer.attrs)
