"""Linear models, support vector machines, tree ensembles, and preparation of their features."""

from __future__ import annotations

from collections.abc import Mapping

from costcore.ir import Cost, Dim, Layer, Operations, PerElement, covers, minimum, pattern

from ._shared import dot_products, power_operations, row_count
from .activation import softmax_operations

FEATURES: Mapping[str, PerElement] = {
    "binarize": PerElement(Operations(cmp=1), "x > threshold"),
    "impute": PerElement(Operations(cmp=1), "where(x == missing, value, x)"),
    "standardize": PerElement(Operations(mul=1, add=1), "(x - offset) * scale"),
}


@pattern("map")
@covers(FEATURES)
def calc_feature(layer: Layer) -> Cost:
    """Preparation of single features: the operations of the definition, once per element.

    Offsets ``b`` and scales ``w`` are read if they are operands.

    Source: ONNX operators Binarizer, Imputer and Scaler.

    Shapes: x[N, F], w[F]?, b[F]? -> y[N, F]
    """
    return Cost(layer["x"].size * FEATURES[layer.op].operations, layer.read, layer.written, layer.attrs)


@pattern("reduce")
def calc_max_normalize(layer: Layer) -> Cost:
    """Rows divided by their maximum: c - 1 comparisons and c divisions per row of length c.

    Source: ONNX operator Normalizer.

    Shapes: x[N, C] -> y[N, C]
    Settings: axis=(1,)
    """
    size = layer["x"].size
    count = row_count(layer["x"].shape, layer.attrs["axis"])
    return Cost(Operations(cmp=size - count, div=size), layer.read, layer.written, layer.attrs)


TRANSFORMS: Mapping[str, PerElement] = {
    "none": PerElement(Operations(), "x"),
    "logistic": PerElement(Operations(add=2, div=1, special=1), "1 / (1 + exp(-x))"),
    "probit": PerElement(Operations(mul=1, special=1), "2**0.5 * erfinv(x)"),
}

SOFTMAX_TRANSFORMS = ("softmax", "softmax_zero")


def decision_operations(layer: Layer, count: Dim, classes: Dim) -> Operations:
    """Return the operations of the ``transform`` of all scores, and with ``classify`` of the best per row."""
    transform, scores = layer.attrs.get("transform", "none"), count * classes
    soft = transform in SOFTMAX_TRANSFORMS
    operations = softmax_operations(scores, count) if soft else scores * TRANSFORMS[transform].operations
    return operations + Operations(cmp=scores - count if layer.attrs.get("classify") else 0)


@pattern("product")
def calc_linear_model(layer: Layer) -> Cost:
    """Linear classifier or regressor: the scores of a ``linear`` layer, their transform, the best class.

    ``transform`` is ``none``, ``softmax`` (as the operator; ``softmax_zero`` costs the same), ``logistic`` (4
    operations per score) or ``probit`` (2). With ``classify`` the best of C scores takes C - 1 cmp.

    Source: ONNX operators LinearClassifier and LinearRegressor.

    Shapes: x[N, F], w[C, F], b[C]? -> y[N, C]
    Settings: transform="none"
    """
    count, (classes, features) = layer["x"].size // layer["w"].shape[-1], layer["w"].shape
    macs = count * classes * features
    operations = dot_products(count * classes, macs, "b" in layer) + decision_operations(layer, count, classes)
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)


KERNELS: Mapping[str, PerElement] = {
    "linear": PerElement(Operations(), "s"),
    "poly": PerElement(Operations(fma=1), "fma(gamma, s, shift)"),
    "sigmoid": PerElement(Operations(fma=1, special=1), "tanh(fma(gamma, s, shift))"),
    "rbf": PerElement(Operations(mul=1, special=1), "exp(gamma * s)"),
}


@pattern("product")
def calc_support_vectors(layer: Layer) -> Cost:
    """Support vector machine: a kernel of every row with every support vector, then weighted sums.

    * Kernel ``linear``, ``poly`` or ``sigmoid``: a function of a dot product of length F (MACs). ``poly`` is 1 fma and
      a power, 1 mul for a ``degree`` of 2, 2 mul for 3, else 1 special.
    * Kernel ``rbf``: a function of a squared distance, F add, 1 mul, F - 1 fma.
    * Regressor: the S kernels are summed onto the intercept, S fma (MACs).
    * Classifier of C ``classes``: one sum for each of C (C - 1) / 2 pairs over the vectors of both classes, (C - 1) S
      fma in all (MACs); the sign of each sum, 1 cmp.
    * ``probability``: each sum becomes a probability, 1 fma and the 4 operations of a sigmoid. The conversion of pairs
      to classes iterates and is not counted.

    Source: Chang and Lin, LIBSVM, 2011; ONNX operators SVMClassifier and SVMRegressor.

    Shapes: x[N, F], w0[S, F], w1[S] -> y[N, 1]
    Settings: kernel="rbf", classes=1
    """
    (vectors, features), kind, classes = layer["w0"].shape, layer.attrs["kernel"], layer.attrs["classes"]
    count = layer["x"].size // features
    kernels, products = count * vectors, count * vectors * features
    operations = dot_products(kernels, products) + kernels * KERNELS[kind].operations
    if kind == "poly":
        operations += kernels * power_operations(layer.attrs.get("degree"))
    if kind == "rbf":
        operations += Operations(add=products)
    sums = kernels * (1 if classes == 1 else classes - 1)
    operations += Operations(fma=sums)
    if classes != 1:
        pairs = count * (classes * (classes - 1) // 2)
        operations += Operations(cmp=pairs)
        if layer.attrs.get("probability"):
            operations += pairs * (Operations(fma=1) + TRANSFORMS["logistic"].operations)
    operations += decision_operations(layer, count, layer.attrs.get("scores", 1))
    macs = sums + (0 if kind == "rbf" else products)
    return Cost(operations, layer.read, layer.written, layer.attrs, macs)


@pattern("opaque")
def calc_tree_ensemble(layer: Layer) -> Cost:
    """Ensemble of decision trees: every row descends from the root of each tree to a leaf.

    The count is bounded by the longest paths. Per row:

    * ``depth`` cmp, the sum of the depths of all trees;
    * ``votes`` add, the weights of one leaf per tree (cmp if ``aggregate`` is min or max);
    * for ``aggregate`` average 1 div per score;
    * the ``transform`` of the scores, and with ``classify`` the best of them, as in ``linear_model``.

    At most the elements on these paths are read: of x, of the thresholds ``w0`` and of the leaf weights ``w1``.

    Source: ONNX operator TreeEnsemble.

    Shapes: x[N, F], w0[S], w1[V] -> y[N, C]
    Settings: depth=D, votes=E, scores=C
    """
    x, attrs = layer["x"], layer.attrs
    count = x.shape[0] if x.ndim > 1 else 1
    depth, votes, scores = attrs["depth"], attrs["votes"], attrs["scores"]
    aggregate = attrs.get("aggregate", "sum")
    joined = Operations(cmp=1) if aggregate in ("min", "max") else Operations(add=1)
    operations = count * (Operations(cmp=depth) + votes * joined) + decision_operations(layer, count, scores)
    operations += Operations(div=count * scores if aggregate == "average" else 0)
    read = x.bytes_of(minimum(count * depth, x.size))
    for name, used in (("w0", depth), ("w1", votes)):
        read += layer[name].bytes_of(minimum(count * used, layer[name].size)) if name in layer else 0
    return Cost(operations, read, layer.written, layer.attrs)
