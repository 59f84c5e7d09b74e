"""Losses of regression and classification."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Dim, Layer, Operations, Pattern, PerElement, covers, pattern, prod

from .._shared import dot_products, saved_bytes
from ..activation.softmax import log_softmax_operations


def reduction_operations(layer: Layer, terms: Dim) -> Operations:
    """Return the operations of reducing ``terms`` losses to the output, which usually has one element."""
    reduction = layer.attrs.get("reduction", "mean")
    if reduction == "none":
        return Operations()
    results = layer.out.size
    return Operations(add=terms - results, div=0 if reduction == "sum" else results)


def weighted_reduction_operations(layer: Layer, terms: Dim) -> Operations:
    """Return the operations of reducing ``terms`` losses times their weights: a dot product, or products alone."""
    plain = reduction_operations(layer, terms)
    if layer.attrs.get("reduction", "mean") == "none":
        return Operations(mul=terms)
    return dot_products(layer.out.size, terms) + Operations(div=plain.div)


def loss_pattern(layer: Layer) -> Pattern:
    """Return ``map`` for a loss of every element, ``reduce`` for one that is summed."""
    return "map" if layer.attrs.get("reduction", "mean") == "none" else "reduce"


def mean_division(layer: Layer) -> Operations:
    """Return the division of dy by the number of terms, if the loss is a mean."""
    return Operations(div=1 if "mean" in layer.attrs.get("reduction", "mean") else 0)


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
        Operations(mul=2, add=6, div=1, special=3),
        "-(target * log(s := 1 / (1 + exp(-x))) + (1 - target) * log(1 - s))",
    ),
    "soft_margin_loss": PerElement(Operations(mul=1, add=2, special=2), "log(1 + exp(-(target * x)))"),
    "hinge_embedding_loss": PerElement(Operations(add=1, cmp=2), "where(target == 1, x, max(margin - x, 0))"),
}


@pattern(loss_pattern)
@covers(LOSSES)
def calc_elementwise_loss(layer: Layer) -> Cost:
    """Elementwise losses: the operations of the definition, once per element, then the reduction.

    Constants of the definition are folded and cost nothing. Bounds that only prevent overflow are not counted.
    Operations that operands and attributes add per element:

    * weight ``w``: a product, accumulated by fma (1 mul for each sum, or for each element with ``reduction`` "none");
    * ``pos_weight`` of binary_cross_entropy_with_logits, which multiplies the first logarithm: 1 mul.

    Shapes: x[N, C], target[N, C] -> y[]
    Settings: reduction="mean"
    """
    size = layer["x"].size
    operations = LOSSES[layer.op].operations
    operations += Operations(mul=1) if "pos_weight" in layer else Operations()
    reduce = weighted_reduction_operations if "w" in layer else reduction_operations
    return Cost(operations * size + reduce(layer, size), layer.read, layer.written, layer.attrs)


def _accumulated_products(layer: Layer, size: Dim) -> Operations:
    """Return the operations of a loss that is a sum of ``size`` products, or their mean, or all of them."""
    reduction = layer.attrs.get("reduction", "mean")
    if reduction == "none":
        return Operations(mul=size)
    return dot_products(1, size) + Operations(div=1 if "mean" in reduction else 0)


@pattern(loss_pattern)
def calc_kl_div(layer: Layer) -> Cost:
    """KL divergence of target probabilities from log-probabilities, sum(target * (log(target) - x)).

    For n elements: n log, n subtractions; 1 mul and n - 1 fma for the accumulated products; 1 div for the mean. With
    ``reduction`` "none" every product is a mul. With ``log_target`` it is exp(target) * (target - x), which costs the
    same.

    Shapes: x[N, C], target[N, C] -> y[]
    Settings: reduction="mean"
    """
    size = layer["x"].size
    operations = Operations(add=size, special=size) + _accumulated_products(layer, size)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern(loss_pattern)
def calc_mse_loss(layer: Layer) -> Cost:
    """Mean squared error, mean((x - target)^2).

    For n elements: n subtractions; 1 mul and n - 1 fma for the accumulated squares; 1 div for the mean. With
    ``reduction`` "none" every square is a mul. A weight ``w`` is 1 mul more per element.

    Shapes: x[N, C], target[N, C] -> y[]
    Settings: reduction="mean"
    """
    size = layer["x"].size
    operations = Operations(add=size, mul=size if "w" in layer else 0) + _accumulated_products(layer, size)
    return Cost(operations, layer.read, layer.written, layer.attrs)


def rows_and_classes(layer: Layer) -> tuple[Dim, Dim]:
    """Return the rows and classes of scores x[N, C, ...], x[C] or x[]."""
    shape = layer["x"].shape or (1,)
    axis = 1 if len(shape) > 1 else 0
    return prod(size for i, size in enumerate(shape) if i != axis), shape[axis]


def _class_weighted_reduction(layer: Layer, count: Dim) -> Operations:
    """Return the operations of class weights and the reduction; a mean also adds the weights of all rows."""
    if "w" not in layer:
        return reduction_operations(layer, count)
    is_mean = layer.attrs.get("reduction", "mean") == "mean"
    return weighted_reduction_operations(layer, count) + Operations(add=count - 1 if is_mean else 0)


def class_weight_bytes(layer: Layer, count: Dim) -> Dim:
    """Return the bytes of the class weights that are read, one per row, minus those of all class weights."""
    return layer["w"].bytes_of(count) - layer["w"].nbytes if "w" in layer else 0


@pattern("reduce")
def calc_cross_entropy(layer: Layer) -> Cost:
    """Softmax cross entropy, -log_softmax(x)[target] of every row, then the reduction.

    * Per row of c classes: log_softmax (2c - 1 add, c + 1 special), the choice of the target (no cost), a negation.
    * The mean over N rows: N - 1 add and 1 div.
    * Class weights ``w``: products that accumulate, 1 mul and N - 1 fma (N mul with ``reduction`` "none"); for the mean
      also the sum of the chosen weights, N - 1 add.
    * Targets that are probabilities (of the shape of x): a dot product of length c instead of the choice; weights are c
      mul per row.
    * ``label_smoothing``: per row the sum and negation of all log-probabilities, c add, and the blend of both losses, 2
      mul and 1 add.

    With a gradient (attribute ``saved``) the log-probabilities are written too.

    Shapes: x[N, C], target[N], w[C]? -> y[]
    Settings: reduction="mean"
    """
    size, (count, classes) = layer["x"].size, rows_and_classes(layer)
    operations = log_softmax_operations(size, count) + Operations(add=count)
    read = layer.read
    if layer["target"].ndim == layer["x"].ndim:
        operations += dot_products(count, size) + Operations(mul=size if "w" in layer else 0)
        operations += reduction_operations(layer, count)
    else:
        operations += _class_weighted_reduction(layer, count)
        read += class_weight_bytes(layer, count)
    if layer.attrs.get("label_smoothing"):
        operations += Operations(mul=2, add=classes + 1) * count
    return Cost(operations, read, layer.written + saved_bytes(layer, size), layer.attrs)


@pattern("reduce")
def calc_nll_loss(layer: Layer) -> Cost:
    """Negative log likelihood, -x[target] of every row of log-probabilities, then the reduction.

    Per row the choice of the target (no cost) and a negation. Class weights ``w`` are those of ``cross_entropy``. Read
    are the targets, and one element of x and of w per row.

    Shapes: x[N, C], target[N], w[C]? -> y[]
    Settings: reduction="mean"
    """
    x, (count, _) = layer["x"], rows_and_classes(layer)
    operations = Operations(add=count) + _class_weighted_reduction(layer, count)
    read = layer.read - x.nbytes + x.bytes_of_part(count) + class_weight_bytes(layer, count)
    return Cost(operations, read, layer.written, layer.attrs)


@pattern(loss_pattern)
def calc_poisson_nll_loss(layer: Layer) -> Cost:
    """Poisson negative log likelihood, exp(x) - target * x.

    If ``log_input`` is false, it is x - target * log(x + eps). Per element 1 special, 1 mul, and 1 or 2 add.

    The attribute ``full`` adds Stirling's approximation for target > 1, target * log(target) - target + 1/2 * log(2 pi
    target): 3 mul, 2 special, 2 add; and 1 cmp and 1 add to join it.

    Shapes: x[N, C], target[N, C] -> y[]
    Settings: reduction="mean", log_input=True
    """
    size = layer["x"].size
    element = Operations(mul=1, special=1, add=1 if layer.attrs.get("log_input", True) else 2)
    element += Operations(mul=3, add=3, cmp=1, special=2) if layer.attrs.get("full") else Operations()
    return Cost(element * size + reduction_operations(layer, size), layer.read, layer.written, layer.attrs)


@pattern("reduce")
def calc_kl_div_with_logits(layer: Layer) -> Cost:
    """KL divergence between the softmax of logits and a target distribution.

    It is sum(target * (log(target) - log_softmax(x))) of every row, then the reduction. Per row of c classes:
    log_softmax (2c - 1 add, c + 1 special), c logarithms and subtractions, a dot product of length c. Guards of the
    logarithm against 0 are not counted.

    Shapes: x[N, C], target[N, C] -> y[]
    Settings: reduction="mean"
    """
    size, classes = layer["x"].size, layer["x"].shape[1]
    count = size // classes
    operations = log_softmax_operations(size, count) + Operations(add=size, special=size) + dot_products(count, size)
    return Cost(operations + reduction_operations(layer, count), layer.read, layer.written, layer.attrs)
