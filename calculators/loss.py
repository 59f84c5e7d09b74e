"""Losses, their gradients, and metrics. A loss compares a prediction ``x`` with a ``target``.

The attribute ``reduction`` is ``"none"``, ``"sum"``, ``"mean"`` or ``"batchmean"``. A sum of n terms takes n - 1 add; a
mean divides by their number, 1 div more.
"""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Dim, Layer, Operations, Pattern, PerElement, covers, minimum, pattern, prod

from ._shared import dot_products, input_bytes, saved_bytes
from .activation import log_softmax_operations
from .reduction import norm_operations

# Losses of regression and classification.


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
    if "w" not in layer:
        return reduction_operations(layer, count)
    # A mean divides by the sum of the weights of all rows.
    is_mean = layer.attrs.get("reduction", "mean") == "mean"
    return weighted_reduction_operations(layer, count) + Operations(add=count - 1 if is_mean else 0)


def class_weight_bytes(layer: Layer, count: Dim) -> Dim:
    """Return the bytes read of class weights, one per row, minus the bytes of all class weights."""
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

    Per row the choice of the target (no cost) and a negation. Class weights ``w`` are counted as in ``cross_entropy``.
    The targets, and one element of x and of w per row, are read.

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


# Margin losses and their gradients.


def _rows_and_last_axis(layer: Layer) -> tuple[Dim, Dim]:
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
    # An upper bound: half of the classes are targets.
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


# Losses that compare pairs and triples of embeddings.


@pattern("reduce")
def calc_cosine_embedding_loss(layer: Layer) -> Cost:
    """Cosine embedding loss: 1 - cos(x0, x1) if the target is 1, else max(cos(x0, x1) - margin, 0).

    Per row the cosine as in ``cosine_similarity``, 2 add, 1 cmp for the maximum and 1 cmp for the choice; then the
    reduction.

    Shapes: x0[N, D], x1[N, D], target[N] -> y[]
    Settings: reduction="mean"
    """
    size, count = layer["x0"].size, layer["target"].size
    operations = dot_products(3 * count, 3 * size)
    operations += Operations(mul=1, add=2, div=1, cmp=4, special=2) * count + reduction_operations(layer, count)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("reduce")
def calc_triplet_margin_loss(layer: Layer) -> Cost:
    """Triplet loss of anchor, positive and negative rows, max(|x0 - x1| - |x0 - x2| + margin, 0).

    Per row two distances as in ``pairwise_distance``, 2 add, 1 cmp. The attribute ``swap`` adds the distance of x1 and
    x2 and 1 cmp for the minimum. Then the reduction.

    Shapes: x0[N, D], x1[N, D], x2[N, D] -> y[]
    Settings: reduction="mean"
    """
    size, count = layer["x0"].size, prod(layer["x0"].shape[:-1])
    distances, minima = (3, 1) if layer.attrs.get("swap") else (2, 0)
    distance = norm_operations(layer.attrs.get("p", 2), size, count) + Operations(add=2 * size)
    operations = distances * distance + Operations(add=2, cmp=1 + minima) * count + reduction_operations(layer, count)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("reduce")
def calc_squared_triplet_loss(layer: Layer) -> Cost:
    """Triplet loss of squared distances, max(|x0 - x1|^2 - |x0 - x2|^2 + margin, 0).

    Per row of c elements: 2c subtractions, two squared distances of 1 mul and c - 1 fma, 2 add, 1 cmp; then the
    reduction.

    Source: Schroff, Kalenichenko and Philbin, FaceNet, arXiv:1503.03832.

    Shapes: x0[N, C], x1[N, C], x2[N, C] -> y[]
    Settings: reduction="mean"
    """
    size, count = layer["x0"].size, layer["x0"].shape[0]
    operations = dot_products(2 * count, 2 * size) + Operations(add=2 * size)
    operations += Operations(add=2, cmp=1) * count + reduction_operations(layer, count)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("reduce")
def calc_contrastive_loss(layer: Layer) -> Cost:
    """Contrastive loss, (t d^2 + (1 - t) max(margin - d, 0)^2) / 2.

    d is the distance of two rows, and t the target. Per row of c elements:

    * c subtractions; d^2 by 1 mul and c - 1 fma; its root;
    * margin - d and the maximum;
    * t d^2 (1 mul), 1 - t, its product with the square (2 mul), the sum, and half of it.

    Then the reduction.

    Source: Hadsell, Chopra and LeCun, "Dimensionality Reduction by Learning an Invariant Mapping", CVPR 2006.

    Shapes: x0[N, C], x1[N, C], target[N] -> y[]
    Settings: reduction="mean"
    """
    size, count = layer["x0"].size, layer["target"].size
    operations = dot_products(count, size) + Operations(add=size)
    operations += Operations(mul=4, add=3, cmp=1, special=1) * count + reduction_operations(layer, count)
    return Cost(operations, layer.read, layer.written, layer.attrs)


# Connectionist temporal classification (CTC) and its gradients.
#
# A target of L labels has 2 L + 1 states; all of them are visited at every step. Lengths that depend on data are
# assumed to be the largest possible.


@pattern("opaque")
def calc_ctc_loss(layer: Layer) -> Cost:
    """CTC loss of log-probabilities: the forward recursion in logarithms over all steps.

    * Per visit of a state: it joins three states, log(exp + exp + exp), and adds its log-probability, 4 special and 3
      add.
    * Per sample: the loss joins two states and is negated, 3 special and 2 add.

    x is read once, or one element per state and step if that is less.

    Source: Graves et al., "Connectionist Temporal Classification", ICML 2006.

    Shapes: x[T, N, C], target[N, L] -> y[]
    Settings: reduction="mean"
    """
    x = layer["x"]
    samples = prod(x.shape[1:-1])
    visits = x.shape[0] * (2 * layer["target"].size + samples)
    operations = Operations(add=3, special=4) * visits + Operations(add=2, special=3) * samples
    read = layer.read - x.nbytes + x.bytes_of_part(minimum(visits, x.size))
    return Cost(operations + reduction_operations(layer, samples), read, layer.written, layer.attrs)


@pattern("opaque")
def calc_ctc_loss_backward(layer: Layer) -> Cost:
    """Gradient of CTC for log-probabilities x: exp(x) - p, times dy, with the posterior p of the classes.

    * The backward recursion, as the forward one: 3 add and 4 special per visit of a state.
    * The posterior of a visit, exp(forward + backward - total): 2 add and 1 special; added to its class, 1 add.
    * Per element of x: its exp, a subtraction and a product.

    Results of the forward pass are given, and read.

    Source: Graves et al., "Connectionist Temporal Classification", ICML 2006.

    Shapes: dy[N], x[T, N, C], target[N, L] -> dx[T, N, C]
    """
    x = layer["x"]
    visits = x.shape[0] * (2 * layer["target"].size + prod(x.shape[1:-1]))
    operations = Operations(add=6, special=5) * visits + Operations(add=1, mul=1, special=1) * x.size
    return Cost(operations, layer.read, layer.written, layer.attrs)


def _state_visits(layer: Layer) -> tuple[Dim, Dim]:
    # 2 L + 1 states of every sample at every step.
    steps, samples, _ = layer["x"].shape
    return steps * (2 * layer["target"].size + samples), samples


@pattern("opaque")
def calc_ctc_loss_with_logits(layer: Layer) -> Cost:
    """CTC loss of logits: the log_softmax of every step, then the forward recursion as in ``ctc_loss``.

    * Per step and sample of C logits: C exp, 2C - 1 add, 1 log.
    * Per visit of a state: 3 add and 4 special.
    * Per sample: 2 add and 3 special.

    Source: Graves et al., "Connectionist Temporal Classification", ICML 2006.

    Shapes: x[T, N, C], target[N, L] -> y[]
    Settings: reduction="mean"
    """
    x, (visits, samples) = layer["x"], _state_visits(layer)
    operations = log_softmax_operations(x.size, x.shape[0] * samples) + Operations(add=3, special=4) * visits
    operations += Operations(add=2, special=3) * samples + reduction_operations(layer, samples)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("opaque")
def calc_ctc_loss_with_logits_backward(layer: Layer) -> Cost:
    """Gradient of CTC for the logits, (softmax(x) - p) dy, with the posterior p of the classes per step.

    * The backward recursion, as the forward one: 3 add and 4 special per visit of a state.
    * The posterior of a visit, exp(forward + backward - total): 2 add and 1 special; added to its class, 1 add.
    * Per logit: exp of its log-probability, a subtraction, and a product with dy. If ``reduction`` is "mean", dy is
      divided by N first (1 div).

    Log-probabilities and the recursion of the forward pass are given.

    Shapes: dy[], x[T, N, C], target[N, L] -> dx[T, N, C]
    Settings: reduction="mean"
    """
    visits, _ = _state_visits(layer)
    operations = Operations(add=6, special=5) * visits + Operations(add=1, mul=1, special=1) * layer["x"].size
    operations += Operations(div=1 if layer.attrs.get("reduction", "mean") == "mean" else 0)
    return Cost(operations, layer.read, layer.written, layer.attrs)


# Negative sampling and its gradients.


def _indexed_products(layer: Layer) -> tuple[Dim, Dim, Dim]:
    # Pairs of rows of x and w (sampled words, or nodes of all paths), their products, and the bytes read of w.
    pairs = layer["indices"].size
    products = pairs * layer["x"].shape[1]
    return pairs, products, layer["w"].bytes_of(products)


@pattern("opaque")
def calc_negative_sampling_loss(layer: Layer) -> Cost:
    """Negative sampling: log(1 + exp(-x w_t)) of the target t plus log(1 + exp(x w_k)) of all samples k.

    ``indices`` contains the target and the samples of every row. For each index:

    * one dot product of length D (MACs);
    * exp, 1 add and log.

    Each row also takes one negation. The terms are summed over all rows, or per row with ``reduction`` "none". Drawing
    samples costs nothing. One row of w is read per index.

    Source: Mikolov et al., arXiv:1310.4546.

    Shapes: x[N, D], target[N], w[V, D], indices[N, K] -> y[]
    Settings: reduction="sum"
    """
    pairs, products, rows = _indexed_products(layer)
    operations = dot_products(pairs, products) + Operations(add=1, special=2) * pairs
    operations += Operations(add=layer["x"].shape[0] + pairs - layer.out.size)
    return Cost(operations, layer.read - layer["w"].nbytes + rows, layer.written, layer.attrs, products)


@pattern("opaque")
def calc_negative_sampling_loss_backward(layer: Layer) -> Cost:
    """Gradients of negative sampling, g = dy / (1 + exp(-f)) for each score f, dx = g w, dw_k += g x.

    * The scores are computed again as dot products (f of the target, and its g, negated).
    * exp, a negation, 1 add and 1 div per score.
    * dx is a dot product over the samples of a row; the products of dw are added to zeros.

    Shapes: dy[], x[N, D], w[V, D], indices[N, K] -> dx[N, D], dw[V, D]
    """
    pairs, products, rows = _indexed_products(layer)
    x = layer["x"]
    operations = dot_products(pairs, products) + Operations(add=2, div=1, special=1) * pairs
    operations += Operations(add=2 * x.shape[0]) + dot_products(x.size, products) + Operations(fma=products)
    read = input_bytes(layer, "dy", "x", "indices") + rows
    return Cost(operations, read, layer.written, layer.attrs, 3 * products)


# Hierarchical softmax over a binary tree, and its gradients.


@pattern("opaque")
def calc_hierarchical_softmax_loss(layer: Layer) -> Cost:
    """Hierarchical softmax: the sum of log(1 + exp(-c x w_i)) over the nodes i on the path to the target of each row.

    ``indices`` contains the nodes of the paths of all rows, L in all, and ``codes`` the direction c at each of them, 1
    or -1. The lengths of the paths depend on the targets. For each node:

    * one dot product of length D (MACs);
    * its product with the code, a negation, exp, 1 add and log.

    Then a sum of L terms. One row of w is read per node.

    Source: Morin and Bengio, "Hierarchical Probabilistic Neural Network Language Model", AISTATS 2005.

    Shapes: x[N, D], target[N], w[V, D], indices[L], codes[L] -> y[]
    """
    nodes, products, rows = _indexed_products(layer)
    operations = dot_products(nodes, products) + Operations(mul=1, add=2, special=2) * nodes
    operations += Operations(add=nodes - 1)
    return Cost(operations, layer.read - layer["w"].nbytes + rows, layer.written, layer.attrs, products)


@pattern("opaque")
def calc_hierarchical_softmax_loss_backward(layer: Layer) -> Cost:
    """Gradients of hierarchical softmax, g = -dy c / (1 + exp(c f)) for each score f, dx = g w, dw_i += g x.

    * The scores are computed again as dot products.
    * 2 products with the code, exp, 1 add and 1 div per score; dy is negated once.
    * dx is a dot product over the path of a row; the products of dw are added to zeros.

    Shapes: dy[], x[N, D], target[N], w[V, D], indices[L], codes[L] -> dx[N, D], dw[V, D]
    """
    nodes, products, rows = _indexed_products(layer)
    operations = dot_products(nodes, products) + Operations(mul=2, add=1, div=1, special=1) * nodes
    operations += Operations(add=1) + dot_products(layer["x"].size, products) + Operations(fma=products)
    read = input_bytes(layer, "dy", "x", "target", "indices", "codes") + rows
    return Cost(operations, read, layer.written, layer.attrs, 3 * products)


# Losses that decorrelate features, and their gradients.


def _centering(elements: Dim, columns: Dim) -> Operations:
    # Per column of n elements: n - 1 add and 1 div for the mean, n subtractions.
    return Operations(add=2 * elements - columns, div=columns)


def _covariance_operations(layer: Layer, rows: Dim, products: Dim) -> Operations:
    operations = dot_products(products, products * rows) + Operations(div=products)
    if layer.attrs.get("reduction") == "half_squared_sum":
        operations += dot_products(1, products) + Operations(mul=1)
    return operations


@pattern("opaque")
def calc_cross_covariance(layer: Layer) -> Cost:
    """Covariance of every column of x0 with every column of x1; as a loss, half the sum of its squares.

    * Both operands are centered.
    * Each of C_0 C_1 dot products has the length of a column, N (MACs), and is divided by N.
    * ``reduction`` "half_squared_sum": the squares are accumulated and halved.

    Source: Cheung et al., "Discovering Hidden Factors of Variation in Deep Networks", arXiv:1412.6583.

    Shapes: x0[N, C_0], x1[N, C_1] -> y[]
    Settings: reduction="half_squared_sum"
    """
    x0, x1 = layer["x0"], layer["x1"]
    rows, products = x0.shape[0], x0.shape[1] * x1.shape[1]
    operations = (
        _centering(x0.size, x0.shape[1])
        + _centering(x1.size, x1.shape[1])
        + _covariance_operations(layer, rows, products)
    )
    return Cost(operations, layer.read, layer.written, layer.attrs, products * rows)


@pattern("opaque")
def calc_decov_loss(layer: Layer) -> Cost:
    """Covariance of all pairs of columns with a zero diagonal; as a loss, half the sum of its squares.

    Source: Cogswell et al., "Reducing Overfitting in Deep Networks by Decorrelating Representations", arXiv:1511.06068.

    Shapes: x[N, C] -> y[]
    Settings: reduction="half_squared_sum"
    """
    rows, columns = layer["x"].shape
    products = columns * columns
    operations = _centering(layer["x"].size, columns) + _covariance_operations(layer, rows, products)
    return Cost(operations, layer.read, layer.written, layer.attrs, products * rows)


@pattern("opaque")
def calc_decov_loss_backward(layer: Layer) -> Cost:
    """Gradient of decov_loss, 2 h cov dy / N, from the centered columns h and their covariance.

    One matrix product; dy / N is 1 div, and the factors 2 and dy / N are 2 mul per element. With ``reduction`` "none"
    dy is a matrix, and the product is with (dy + dy^T) / N: C^2 div and C^2 add.

    Shapes: dy[], x[N, C] -> dx[N, C]
    Settings: reduction="half_squared_sum"
    """
    size, columns = layer["x"].size, layer["x"].shape[1]
    operations = dot_products(size, size * columns)
    if layer.attrs.get("reduction") == "half_squared_sum":
        operations += Operations(mul=2 * size, div=1)
    else:
        operations += Operations(add=columns * columns, div=columns * columns)
    return Cost(operations, layer.read, layer.written, layer.attrs, size * columns)


# Gradients of losses for the prediction.


@pattern("map")
def calc_cross_entropy_backward(layer: Layer) -> Cost:
    """Gradient of softmax cross entropy, (softmax(x) - one_hot(target)) dy.

    The log-probabilities ``y`` of the forward pass are given.

    * Per row of c classes: c exp, 1 subtraction at the target, c mul.
    * A mean divides dy by the number of rows first, 1 div.
    * Class weights multiply dy: 1 mul per row.
    * Targets that are probabilities, and label smoothing: c subtractions per row instead of 1.

    Shapes: dy[], y[N, C], target[N] -> dx[N, C]
    Settings: reduction="mean"
    """
    size, target = layer.out.size, layer["target"]
    count = prod(n for i, n in enumerate(layer.out.shape) if i != min(1, layer.out.ndim - 1))
    is_dense = target.ndim == layer.out.ndim or bool(layer.attrs.get("label_smoothing"))
    operations = Operations(add=size if is_dense else count, mul=size, special=size) + mean_division(layer)
    operations += Operations(mul=count if "w" in layer else 0)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("map")
def calc_nll_loss_backward(layer: Layer) -> Cost:
    """Gradient of the negative log likelihood: -dy at the target of every row, zero elsewhere.

    The sign is 1 add per element of dy. A mean divides dy by the number of rows, 1 div. Class weights take 1 mul per
    row. dy, the targets and one weight per row are read; dx is written completely.

    Shapes: dy[], target[N] -> dx[N, C]
    Settings: reduction="mean"
    """
    count = layer["target"].size
    operations = Operations(add=layer["dy"].size, mul=count if "w" in layer else 0) + mean_division(layer)
    read = input_bytes(layer, "dy", "target") + (layer["w"].bytes_of(count) if "w" in layer else 0)
    return Cost(operations, read, layer.written, layer.attrs)


LOSS_GRADIENTS: Mapping[str, PerElement] = {
    "l1_loss_backward": PerElement(
        Operations(mul=1, add=1, cmp=2), "where((d := x - target) > 0, 1, where(d < 0, -1, 0)) * dy"
    ),
    "smooth_l1_loss_backward": PerElement(
        Operations(mul=2, add=1, cmp=2), "min(max((x - target) * (1 / beta), -1), 1) * dy"
    ),
    "huber_loss_backward": PerElement(Operations(mul=1, add=1, cmp=2), "min(max(x - target, -delta), delta) * dy"),
    "mse_loss_backward": PerElement(Operations(mul=2, add=1), "(x - target) * 2 * dy"),
    "binary_cross_entropy_backward": PerElement(Operations(mul=2, add=2, div=1), "(x - target) / (x * (1 - x)) * dy"),
    "binary_cross_entropy_with_logits_backward": PerElement(
        Operations(mul=1, add=3, div=1, special=1), "(1 / (1 + exp(-x)) - target) * dy"
    ),
    "kl_div_backward": PerElement(Operations(mul=1, add=1), "-target * dy"),
    "soft_margin_loss_backward": PerElement(
        Operations(mul=2, add=2, div=1, special=1), "-(target / (1 + exp(target * x))) * dy"
    ),
    "hinge_embedding_loss_backward": PerElement(
        Operations(add=2, cmp=2), "where(target == 1, dy, where(margin - x > 0, -dy, 0))"
    ),
}


@pattern("map")
@covers(LOSS_GRADIENTS)
def calc_elementwise_loss_backward(layer: Layer) -> Cost:
    """Gradients of elementwise losses: the operations of the derivative, times dy, once per element.

    A mean divides dy by the number of terms first, 1 div. Operations that operands and attributes add per element:

    * weight ``w``: 1 mul;
    * ``pos_weight`` p of binary_cross_entropy_with_logits, (1 - t) - (1 + (p - 1) t) (1 - sigmoid(x)): 2 mul and 4 add;
    * ``log_target`` of kl_div: 1 exp.

    Shapes: dy[], x[N, C], target[N, C] -> dx[N, C]
    Settings: reduction="mean"
    """
    operations = LOSS_GRADIENTS[layer.op].operations + Operations(mul=1 if "w" in layer else 0)
    operations += Operations(mul=2, add=4) if "pos_weight" in layer else Operations()
    operations += Operations(special=1) if layer.attrs.get("log_target") else Operations()
    return Cost(operations * layer["x"].size + mean_division(layer), layer.read, layer.written, layer.attrs)


# Metrics (without a gradient).


@pattern("reduce")
def calc_accuracy(layer: Layer) -> Cost:
    """Share of the rows with the largest score at their target, sum(argmax(x) == target) / N.

    Per row of c scores c - 1 cmp for the largest and 1 cmp with the target; N - 1 add and 1 div. With the attribute
    ``ignore_index`` rows with that target are excluded: per row 2 cmp (the comparison and the choice), N - 1 add for
    their number, 2 subtractions.

    Shapes: x[N, C], target[N] -> y[]
    """
    size, count = layer["x"].size, layer["target"].size
    operations = Operations(cmp=size, add=count - 1, div=1)
    if layer.attrs.get("ignore_index") is not None:
        operations += Operations(cmp=2 * count, add=count + 1)
    return Cost(operations, layer.read, layer.written, layer.attrs)


@pattern("reduce")
def calc_binary_accuracy(layer: Layer) -> Cost:
    """Share of the scores with the sign of their target, 0 or 1; targets of -1 are excluded.

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
    size, count, classes = layer["x"].size, layer["target"].size, layer.out.size
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
