"""Losses: how far a prediction ``x`` is from its ``target``.

The setting ``reduction`` is ``"none"``, ``"sum"``, ``"mean"`` or ``"batchmean"``, which differ in what is divided by.
"""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Dim, Layer, Operations, PerElement, covers, prod

from .._shared import dot_products
from ..activation.softmax import log_softmax_operations


def reduction_operations(layer: Layer, terms: Dim) -> Operations:
    """The reduction of ``terms`` losses to the output, one element as a rule: terms-1 add, 1 div more for a mean."""
    reduction = layer.attrs.get("reduction", "mean")
    if reduction == "none":
        return Operations()
    results = layer.out.size
    return Operations(add=terms - results, div=0 if reduction == "sum" else results)


LOSSES: Mapping[str, PerElement] = {
    "l1_loss": PerElement(Operations(add=2), "abs(x - target)"),
    "smooth_l1_loss": PerElement(
        Operations(mul=2, add=3, cmp=1),
        "where((e := abs(d := x - target)) < beta, d * d * (0.5 / beta), e - 0.5 * beta)",
    ),
    "huber_loss": PerElement(
        Operations(mul=3, add=3, cmp=1),
        "where((e := abs(d := x - target)) < delta, d * d * 0.5, delta * (e - 0.5 * delta))",
    ),
    "binary_cross_entropy": PerElement(
        Operations(mul=2, add=4, special=2), "-(target * log(x) + (1 - target) * log(1 - x))"
    ),
    "binary_cross_entropy_with_logits": PerElement(
        Operations(mul=1, add=4, special=2), "(1 - target) * x + log(1 + exp(-x))"
    ),
    "kl_div": PerElement(Operations(mul=1, add=1, special=1), "target * (log(target) - x)"),
    "soft_margin_loss": PerElement(Operations(mul=1, add=2, special=2), "log(1 + exp(-(target * x)))"),
    "hinge_embedding_loss": PerElement(Operations(add=1, cmp=2), "where(target == 1, x, max(margin - x, 0))"),
}


@covers(LOSSES)
def calc_elementwise_loss(layer: Layer) -> Cost:
    """Loss of single elements: for each the operations of its definition, then the reduction.

    Constants of the definition are folded and cost nothing; bounds that only guard against overflow are no part of it.
    A weight ``w`` is one mul more per element. ``binary_cross_entropy_with_logits`` with ``pos_weight`` p multiplies
    the logarithm by 1 + (p - 1) * target, 2 mul and 2 add more. ``kl_div`` with the setting ``log_target`` is
    exp(target) * (target - x), which costs the same.

    Shapes: x[N, C], target[N, C] -> y[]
    Settings: reduction="mean"
    """
    size = layer["x"].size
    operations = LOSSES[layer.op].operations
    operations += Operations(mul=1) if "w" in layer else Operations()
    operations += Operations(mul=2, add=2) if "pos_weight" in layer else Operations()
    return Cost(operations * size + reduction_operations(layer, size), layer.read, layer.written, layer.attrs)


def calc_mse_loss(layer: Layer) -> Cost:
    """Mean squared error: mean((x - target)^2).

    For n elements: n subtractions; the squares accumulate, 1 mul and n-1 fma; 1 div for the mean. With reduction
    "none" every square is a mul. A weight ``w`` is one mul more per element.

    Shapes: x[N, C], target[N, C] -> y[]
    Settings: reduction="mean"
    """
    size = layer["x"].size
    reduction = layer.attrs.get("reduction", "mean")
    squares = Operations(mul=size) if reduction == "none" else dot_products(1, size)
    operations = Operations(add=size, mul=size if "w" in layer else 0, div=1 if "mean" in reduction else 0) + squares
    return Cost(operations, layer.read, layer.written, layer.attrs)


def rows_and_classes(layer: Layer) -> tuple[Dim, Dim]:
    """Rows and classes of scores x[N, C, ...], x[C] or x[]."""
    shape = layer["x"].shape or (1,)
    axis = 1 if len(shape) > 1 else 0
    return prod(size for i, size in enumerate(shape) if i != axis), shape[axis]


def _class_weight_operations(layer: Layer, count: Dim) -> Operations:
    """Class weights: one mul a row, and for a mean the sum of the weights, count-1 add."""
    if "w" not in layer:
        return Operations()
    return Operations(mul=count, add=count - 1 if layer.attrs.get("reduction", "mean") == "mean" else 0)


def class_weight_bytes(layer: Layer, count: Dim) -> Dim:
    """Bytes by which the class weights picked, one a row, differ from all of them."""
    return layer["w"].bytes_of(count) - layer["w"].nbytes if "w" in layer else 0


def calc_nll_loss(layer: Layer) -> Cost:
    """Negative log likelihood: -x[target] of every row, x being log-probabilities, then the reduction.

    Per row the pick (free) and a negation; with class weights ``w`` one mul a row, and for the mean the sum of the
    weights picked. Reads the targets, and one element of x and of w a row, as a gather does.

    Shapes: x[N, C], target[N], w[C]? -> y[]
    Settings: reduction="mean"
    """
    x, (count, _) = layer["x"], rows_and_classes(layer)
    operations = Operations(add=count) + _class_weight_operations(layer, count) + reduction_operations(layer, count)
    read = layer.read - x.nbytes + x.bytes_of(count) + class_weight_bytes(layer, count)
    return Cost(operations, read, layer.written, layer.attrs)


def calc_cross_entropy(layer: Layer) -> Cost:
    """Softmax cross entropy: -log_softmax(x)[target] of every row, then the reduction.

    Per row of c classes: log_softmax (2c-1 add, c+1 special), the pick (free), a negation; the mean over N rows is
    N-1 add and 1 div once. Class weights ``w``: one mul a row, and for the mean the sum of the weights picked.
    Targets that are probabilities (of the shape of x): the pick is a dot product of length c instead, and weights are
    c mul a row. Setting ``label_smoothing``: per row the sum and negation of all log-probabilities, c add, and the
    blend of both losses, 2 mul and 1 add.

    Shapes: x[N, C], target[N], w[C]? -> y[]
    Settings: reduction="mean"
    """
    size, (count, classes) = layer["x"].size, rows_and_classes(layer)
    operations = log_softmax_operations(size, count) + Operations(add=count) + reduction_operations(layer, count)
    read = layer.read
    if layer["target"].ndim == layer["x"].ndim:
        operations += dot_products(count, size) + Operations(mul=size if "w" in layer else 0)
    else:
        operations += _class_weight_operations(layer, count)
        read += class_weight_bytes(layer, count)
    if layer.attrs.get("label_smoothing"):
        operations += Operations(mul=2, add=classes + 1) * count
    return Cost(operations, read, layer.written, layer.attrs)


def calc_poisson_nll_loss(layer: Layer) -> Cost:
    """Poisson negative log likelihood: exp(x) - target * x, or x - target * log(x + eps) with ``log_input`` false.

    1 special, 1 mul and 1 or 2 add per element. The setting ``full`` adds Stirling's approximation where target > 1,
    target * log(target) - target + 1/2 * log(2 pi target): 3 mul, 2 special, 2 add, and 1 cmp and 1 add to join it.

    Shapes: x[N, C], target[N, C] -> y[]
    Settings: reduction="mean", log_input=True
    """
    size = layer["x"].size
    element = Operations(mul=1, special=1, add=1 if layer.attrs.get("log_input", True) else 2)
    element += Operations(mul=3, add=3, cmp=1, special=2) if layer.attrs.get("full") else Operations()
    return Cost(element * size + reduction_operations(layer, size), layer.read, layer.written, layer.attrs)


def calc_kl_div_with_logits(layer: Layer) -> Cost:
    """Divergence of the softmax of scores from a target: sum(target * (log(target) - log_softmax(x))) of every row.

    Per row of c classes: log_softmax (2c-1 add, c+1 special), c logarithms and subtractions, a dot product of length c;
    then the reduction. What guards a logarithm against 0 is no part of it.

    Shapes: x[N, C], target[N, C] -> y[]
    Settings: reduction="mean"
    """
    size, classes = layer["x"].size, layer["x"].shape[1]
    count = size // classes
    operations = log_softmax_operations(size, count) + Operations(add=size, special=size) + dot_products(count, size)
    return Cost(operations + reduction_operations(layer, count), layer.read, layer.written, layer.attrs)


def mean_division(layer: Layer) -> Operations:
    """The division of dy by the number of terms, where the loss is a mean."""
    return Operations(div=1 if "mean" in layer.attrs.get("reduction", "mean") else 0)
