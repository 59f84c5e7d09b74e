"""Losses: how far a prediction ``x`` is from its ``target``.

The setting ``reduction`` is ``"none"``, ``"sum"``, ``"mean"`` or ``"batchmean"``, which differ in what is divided by.
"""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Dim, Layer, Operations, PerElement, covers, maximum, minimum, prod

from .distance import norms
from .parts import dot_products
from .softmax import log_softmax_operations


def reduce(layer: Layer, terms: Dim) -> Operations:
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
    return Cost(operations * size + reduce(layer, size), layer.read, layer.written, layer.attrs)


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


def _classes(layer: Layer) -> tuple[Dim, Dim]:
    """Rows and classes of scores x[N, C, ...], x[C] or x[]."""
    shape = layer["x"].shape or (1,)
    axis = 1 if len(shape) > 1 else 0
    return prod(size for i, size in enumerate(shape) if i != axis), shape[axis]


def _weighted(layer: Layer, count: Dim) -> Operations:
    """Class weights: one mul a row, and for a mean the sum of the weights, count-1 add."""
    if "w" not in layer:
        return Operations()
    return Operations(mul=count, add=count - 1 if layer.attrs.get("reduction", "mean") == "mean" else 0)


def _weight_read(layer: Layer, count: Dim) -> Dim:
    """Bytes by which the class weights picked, one a row, differ from all of them."""
    return layer["w"].bytes_of(count) - layer["w"].nbytes if "w" in layer else 0


def calc_nll_loss(layer: Layer) -> Cost:
    """Negative log likelihood: -x[target] of every row, x being log-probabilities, then the reduction.

    Per row the pick (free) and a negation; with class weights ``w`` one mul a row, and for the mean the sum of the
    weights picked. Reads the targets, and one element of x and of w a row, as a gather does.

    Shapes: x[N, C], target[N], w[C]? -> y[]
    Settings: reduction="mean"
    """
    x, (count, _) = layer["x"], _classes(layer)
    operations = Operations(add=count) + _weighted(layer, count) + reduce(layer, count)
    read = layer.read - x.nbytes + x.bytes_of(count) + _weight_read(layer, count)
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
    size, (count, classes) = layer["x"].size, _classes(layer)
    operations = log_softmax_operations(size, count) + Operations(add=count) + reduce(layer, count)
    read = layer.read
    if layer["target"].ndim == layer["x"].ndim:
        operations += dot_products(count, size) + Operations(mul=size if "w" in layer else 0)
    else:
        operations += _weighted(layer, count)
        read += _weight_read(layer, count)
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
    return Cost(element * size + reduce(layer, size), layer.read, layer.written, layer.attrs)


def calc_margin_ranking_loss(layer: Layer) -> Cost:
    """Margin ranking loss: max(-target * (x0 - x1) + margin, 0), 3 add, 1 mul, 1 cmp per element, then the reduction.

    Shapes: x0[N], x1[N], target[N] -> y[]
    Settings: reduction="mean"
    """
    size = layer["target"].size
    operations = Operations(mul=1, add=3, cmp=1) * size + reduce(layer, size)
    return Cost(operations, layer.read, layer.written, layer.attrs)


def calc_hinge_loss(layer: Layer) -> Cost:
    """Multi-class hinge loss, as Chainer has it: max(1 + s * x, 0) with s = -1 for the target class, else 1.

    A negation a row, 1 add and 1 cmp per element; ``norm`` "l2" squares what is left. The reduction sums over all
    elements; the mean is over the rows.

    Shapes: x[N, C], target[N] -> y[]
    Settings: norm="l1", reduction="mean"
    """
    size, (count, _) = layer["x"].size, _classes(layer)
    squares, terms = Operations(), reduce(layer, size)
    if layer.attrs.get("norm", "l1").lower() == "l2":
        summed = layer.attrs.get("reduction", "mean") != "none"
        squares = dot_products(1, size) + Operations(div=terms.div) if summed else Operations(mul=size)
        terms = Operations()
    operations = Operations(add=count + size, cmp=size) + squares + terms
    return Cost(operations, layer.read, layer.written, layer.attrs)


def calc_multi_margin_loss(layer: Layer) -> Cost:
    """Multi-class margin loss: sum over the wrong classes of max(margin - x[target] + x, 0), divided by C.

    Per row of c classes: 1 add for margin - x[target]; for each of c-1 others 1 add and 1 cmp, summed c-2 add; 1 div.
    Setting ``p`` 2: the c-1 terms are squared, 1 mul and c-2 fma in place of the sum. Class weights: 1 mul a row.

    Shapes: x[N, C], target[N] -> y[]
    Settings: reduction="mean"
    """
    count, classes = _classes(layer)
    row = Operations(add=classes, cmp=classes - 1, div=1, mul=1 if "w" in layer else 0)
    row += dot_products(1, classes - 1) if layer.attrs.get("p", 1) == 2 else Operations(add=classes - 2)
    read = layer.read + _weight_read(layer, count)
    return Cost(row * count + reduce(layer, count), read, layer.written, layer.attrs)


def calc_cosine_similarity(layer: Layer) -> Cost:
    """Cosine of the angle between x0 and x1 along ``axis``: x0 . x1 / sqrt((x0 . x0) * (x1 . x1)).

    Per row three dot products, 1 mul, a square root, 1 max against eps (cmp), 1 div.

    Shapes: x0[N, D], x1[N, D] -> y[N]
    Settings: axis=1
    """
    count = layer.out.size
    length = layer["x0"].shape[layer.attrs["axis"]] if layer["x0"].shape else 1
    operations = dot_products(3 * count, 3 * count * length) + Operations(mul=1, div=1, cmp=1, special=1) * count
    return Cost(operations, layer.read, layer.written, layer.attrs)


def calc_cosine_embedding_loss(layer: Layer) -> Cost:
    """Cosine embedding loss: 1 - cos(x0, x1) where target is 1, else max(cos(x0, x1) - margin, 0).

    Per row the cosine as in cosine_similarity, 2 add, 1 cmp for the maximum and 1 for the choice; then the reduction.

    Shapes: x0[N, D], x1[N, D], target[N] -> y[]
    Settings: reduction="mean"
    """
    size, count = layer["x0"].size, layer["target"].size
    operations = dot_products(3 * count, 3 * size)
    operations += Operations(mul=1, add=2, div=1, cmp=3, special=1) * count + reduce(layer, count)
    return Cost(operations, layer.read, layer.written, layer.attrs)


def calc_pairwise_distance(layer: Layer) -> Cost:
    """Distance of the rows of x0 and x1, the p-norm of x0 - x1 + eps: 2c add, then for p = 2 1 mul, c-1 fma and a root.

    Other norms are those of ``pairwise_distances``.

    Shapes: x0[N, D], x1[N, D] -> y[N]
    """
    size, count = maximum(layer["x0"].size, layer["x1"].size), layer.out.size
    operations = norms(layer.attrs.get("p", 2), size, count) + Operations(add=2 * size)
    return Cost(operations, layer.read, layer.written, layer.attrs)


def calc_triplet_margin_loss(layer: Layer) -> Cost:
    """Triplet loss: max(|x0 - x1| - |x0 - x2| + margin, 0) of anchor, positive and negative rows.

    Per row two distances as in pairwise_distance, 2 add, 1 cmp. The setting ``swap`` adds the distance of x1 and x2
    and a minimum (cmp). Then the reduction.

    Shapes: x0[N, D], x1[N, D], x2[N, D] -> y[]
    Settings: reduction="mean"
    """
    size, count = layer["x0"].size, prod(layer["x0"].shape[:-1])
    distances, minima = (3, 1) if layer.attrs.get("swap") else (2, 0)
    distance = norms(layer.attrs.get("p", 2), size, count) + Operations(add=2 * size)
    operations = distances * distance + Operations(add=2, cmp=1 + minima) * count + reduce(layer, count)
    return Cost(operations, layer.read, layer.written, layer.attrs)


def calc_ctc_loss(layer: Layer) -> Cost:
    """Connectionist temporal classification, the forward recursion in logarithms over all steps.

    A target of L labels has 2 L + 1 states; every state of every step joins three others, log(exp + exp + exp), and
    adds its log-probability: 4 special, 3 add. The loss of a sample joins two states and negates: 3 special, 2 add.
    Lengths that depend on data are taken as the largest possible. Reads x once, or one element per state and step where
    that is less.

    Source: Graves et al., "Connectionist Temporal Classification", ICML 2006.

    Shapes: x[T, N, C], target[N, L] -> y[]
    Settings: reduction="mean"
    """
    x = layer["x"]
    samples = prod(x.shape[1:-1])
    visits = x.shape[0] * (2 * layer["target"].size + samples)
    operations = Operations(add=3, special=4) * visits + Operations(add=2, special=3) * samples
    read = layer.read - x.nbytes + x.bytes_of(minimum(visits, x.size))
    return Cost(operations + reduce(layer, samples), read, layer.written, layer.attrs)
