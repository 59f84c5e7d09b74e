"""Classical machine learning models: linear models, support vectors, tree ensembles. Weights are attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from costcore.numbers import Dim
from costcore.translate import Arguments, Row, Source

from ..node import Inferred, Node, Rule
from ..values import DTYPES, Shape, StoredTensor, Undetermined, Value
from . import like, node_of, optional_fact

# Shape rules.


@dataclass(frozen=True, slots=True)
class LinearWeights:
    """Weights and offsets of a linear model or a scaler; None if it has none."""

    w: Value | None
    b: Value | None


@dataclass(frozen=True, slots=True)
class SupportVectors:
    """Support vectors (in a linear machine, one vector per class), their coefficients, and offsets."""

    w0: Value | None
    w1: Value | None
    b: Value | None


@dataclass(frozen=True, slots=True)
class Trees:
    """Thresholds and votes of an ensemble, and the comparisons and votes of one row over all its trees."""

    w0: Value | None
    w1: Value | None
    depth: int
    votes: int


def weights(node: Node, name: str, shape: Shape | None = None) -> Value | None:
    """Return the weights in an attribute as a parameter of the model; None if it is empty.

    The attribute is a list of floats or a tensor; ``<name>_as_tensor`` may replace it. If its rows are longer than
    the shape says, the first weights are read, as in ONNX Runtime.

    Raises:
        CostError: if they do not fit the shape.
    """
    given, tensor = node.args.get(name), node.args.get(f"{name}_as_tensor")
    dtype, count = "float32", 0
    if tensor is None and hasattr(given, "data_type"):
        given, tensor = None, given
    if tensor is not None:
        dtype, count = DTYPES.get(tensor.data_type, "float32"), 1
        for d in tensor.dims:
            count *= d
    elif given:
        count = len(given)
    if not count:
        return None
    expected: tuple[Dim, ...] = (count,) if shape is None else shape
    value = Value(expected, dtype, None, "param", stored=StoredTensor(f"{node.proto.output[0]}.{name}", count, dtype))
    if isinstance(value.size, int) and 0 < value.size < count and count % value.known_shape[0] == 0:
        node.noted.append(f"has {count} {name} (expected {value.size} for the shape {expected}): the first are read")
    elif value.size != count:
        raise node.error(f"has {count} {name} for the shape {expected}")
    return value


def _with_stored(facts: object, outputs: Sequence[Value], *stored: Value | None) -> Inferred:
    return Inferred(outputs, facts, tuple(value for value in stored if value is not None))


def _rows_and_features(node: Node) -> tuple[Dim, Dim]:
    # The input is ``[N, F]``, or ``[F]``.
    shape = node.value("X").known_shape
    if not shape:
        raise node.error(f"needs an input of 1 or 2 dimensions (got the shape {shape})")
    return (shape[0] if len(shape) > 1 else 1), shape[-1]


def _label_dtype(node: Node) -> str:
    return "string" if node.args.get("classlabels_strings") else "int64"


def _class_count(node: Node) -> int:
    return max((len(node.args.get(f"classlabels_{kind}") or ()) for kind in ("strings", "ints", "int64s")), default=0)


def scaler(node: Node) -> Inferred:
    """Infer a float tensor of the input's shape; scales and offsets are weights."""
    w, b = weights(node, "scale"), weights(node, "offset")
    return _with_stored(LinearWeights(w, b), [node.result(node.value("X").known_shape, "float32")], w, b)


def _known_number(number: Dim) -> int:
    if not isinstance(number, int):
        raise Undetermined
    return number


def linear(node: Node) -> Inferred:
    """Infer scores of a regressor, or labels and scores of a classifier."""
    rows, features = _rows_and_features(node)
    if node.op == "LinearRegressor":
        outputs = node.args.get("targets") or 1
    else:
        outputs = _class_count(node)
        given = len(node.args.get("coefficients") or ())
        if isinstance(features, int) and features and given == features and outputs == 2:
            outputs = 1  # two classes may share one score
    w, b = weights(node, "coefficients", (outputs, features)), weights(node, "intercepts")
    if node.op == "LinearRegressor":
        results = [node.result((rows, outputs), "float32")]
    else:
        scores = node.result((rows, max(_class_count(node), 1)), "float32")
        results = [node.result((rows,), _label_dtype(node)), scores]
    return _with_stored(LinearWeights(w, b), results, w, b)


def support_vectors(node: Node) -> Inferred:
    """Infer scores of a regressor, or labels and scores of a classifier."""
    rows, features = _rows_and_features(node)
    given = len(node.args.get("support_vectors") or ())
    classes = _class_count(node) if node.op == "SVMClassifier" else 1
    if given:
        count = given // max(_known_number(features), 1)
        w0, w1 = weights(node, "support_vectors", (count, features)), weights(node, "coefficients")
    else:  # a linear machine has one vector per class
        count = len(node.args.get("coefficients") or ()) // max(_known_number(features), 1)
        w0, w1 = weights(node, "coefficients", (count, features)), None
    b = weights(node, "rho")
    if node.op == "SVMRegressor":
        results = [node.result((rows, 1), "float32")]
    else:
        proba = bool(node.args.get("prob_a"))
        pairs = classes * (classes - 1) // 2
        scores = node.result((rows, classes if proba or not given else max(pairs, classes)), "float32")
        results = [node.result((rows,), _label_dtype(node)), scores]
    return _with_stored(SupportVectors(w0, w1, b), results, w0, w1, b)


def trees(node: Node) -> Inferred:
    """Infer scores of targets, or labels and scores of classes."""
    rows, _ = _rows_and_features(node)
    if node.op == "TreeEnsemble":
        w0, w1 = weights(node, "nodes_splits"), weights(node, "leaf_weights")
        results = [node.result((rows, node.args.get("n_targets") or 1), node.value("X").dtype)]
        return _with_stored(Trees(w0, w1, *_comparisons_and_votes(node)), results, w0, w1)
    kind = "class" if node.op == "TreeEnsembleClassifier" else "target"
    w0, w1 = weights(node, "nodes_values"), weights(node, f"{kind}_weights")
    if kind == "target":
        results = [node.result((rows, node.args.get("n_targets") or 1), "float32")]
    else:
        results = [node.result((rows,), _label_dtype(node)), node.result((rows, _class_count(node)), "float32")]
    return _with_stored(Trees(w0, w1, *_comparisons_and_votes_of_modes(node, kind)), results, w0, w1)


def _sum_of_depths(node: Node, roots: Sequence[Any], children: Mapping[Any, Sequence[Any]]) -> int:
    # Comparisons from each root to its deepest leaf.
    total = 0
    for root in roots:
        level, depth, seen = [root], 0, 0
        while level := [node_id for node_id in level if node_id in children]:
            depth, seen = depth + 1, seen + len(level)
            if seen > len(children):
                raise node.error("has a tree with a cycle")
            level = [child for node_id in level for child in children[node_id]]
        total += depth
    return total


def _comparisons_and_votes(node: Node) -> tuple[int, int]:
    # Trees written as interior nodes and leaves (``TreeEnsemble``).
    sides = [
        (node.args.get(f"nodes_{side}nodeids") or (), node.args.get(f"nodes_{side}leafs") or ())
        for side in ("true", "false")
    ]
    roots = node.args.get("tree_roots") or ()
    count = min(len(part) for pair in sides for part in pair)
    children = {i: [ids[i] for ids, leafs in sides if not leafs[i]] for i in range(count)}
    return _sum_of_depths(node, roots, children), len(roots)


def _comparisons_and_votes_of_modes(node: Node, kind: str) -> tuple[int, int]:
    # Trees written as nodes with a mode. A leaf may vote for several classes.
    names = [node.args.get(f"nodes_{name}") or () for name in ("treeids", "nodeids", "modes", "truenodeids")]
    children: dict[tuple[int, int], list[tuple[int, int]]] = {}
    roots: dict[int, tuple[int, int]] = {}
    for tree, at, mode, yes, no in zip(*names, node.args.get("nodes_falsenodeids") or (), strict=False):
        roots.setdefault(tree, (tree, at))
        if mode != "LEAF":
            children[tree, at] = [(tree, yes), (tree, no)]
    counts: dict[tuple[int, int], int] = {}
    for leaf in zip(node.args.get(f"{kind}_treeids") or (), node.args.get(f"{kind}_nodeids") or (), strict=False):
        counts[leaf] = counts.get(leaf, 0) + 1
    most: dict[int, int] = {}
    for (tree, _), votes in counts.items():
        most[tree] = max(most.get(tree, 0), votes)
    return _sum_of_depths(node, list(roots.values()), children), sum(most.values())


def transform_of(node: Node) -> str:
    """Return the canonical name of the transform of the scores."""
    given = node.args.get("post_transform", "NONE")
    if isinstance(given, int):
        return ("none", "softmax", "logistic", "softmax_zero", "probit")[given] if 0 <= given < 5 else "none"
    return str(given).lower()


RULES: Mapping[str, Rule] = {
    "ai.onnx.ml::Binarizer": like("X"),
    "ai.onnx.ml::Imputer": like("X"),
    "ai.onnx.ml::LinearClassifier": linear,
    "ai.onnx.ml::LinearRegressor": linear,
    "ai.onnx.ml::Normalizer": like("X", dtype="float32"),
    "ai.onnx.ml::SVMClassifier": support_vectors,
    "ai.onnx.ml::SVMRegressor": support_vectors,
    "ai.onnx.ml::Scaler": scaler,
    "ai.onnx.ml::TreeEnsemble": trees,
    "ai.onnx.ml::TreeEnsembleClassifier": trees,
    "ai.onnx.ml::TreeEnsembleRegressor": trees,
}
"""Rules by full operator name."""


# Rows.


NORMS = {"L1": "l1_normalize", "L2": "l2_normalize", "MAX": "max_normalize"}


def _transform(a: Arguments) -> str:
    return transform_of(node_of(a))


def _score_count(a: Arguments) -> Any:
    made = [value for value in node_of(a).outputs if value is not None]
    return made[-1].known_shape[-1]


MODES = ("average", "sum", "min", "max")


def _aggregate(a: Arguments) -> str:
    given = a.get("aggregate_function", "SUM")
    return MODES[given] if isinstance(given, int) else str(given).lower()


CLASSIFIES = {"classify": lambda a: True}

TREES: Mapping[str, Source] = {
    "depth": optional_fact(Trees, lambda f: f.depth),
    "votes": optional_fact(Trees, lambda f: f.votes),
    "scores": _score_count,
    "transform": _transform,
}

MODEL: Mapping[str, Source] = {
    "x": "X",
    "w": optional_fact(LinearWeights, lambda f: f.w),
    "b": optional_fact(LinearWeights, lambda f: f.b),
}

VECTORS: Mapping[str, Source] = {
    "x": "X",
    "w0": optional_fact(SupportVectors, lambda f: f.w0),
    "w1": optional_fact(SupportVectors, lambda f: f.w1),
    "b": optional_fact(SupportVectors, lambda f: f.b),
}

ENSEMBLE: Mapping[str, Source] = {
    "x": "X",
    "w0": optional_fact(Trees, lambda f: f.w0),
    "w1": optional_fact(Trees, lambda f: f.w1),
}


def _degree(a: Arguments) -> Any:
    # The third parameter of the kernel.
    parameters = list(a.get("kernel_params") or [])
    return parameters[2] if a.get("kernel_type") == "POLY" and len(parameters) > 2 else None


MACHINE: Mapping[str, Source] = {
    "kernel": lambda a: str(a.get("kernel_type", "LINEAR")).lower(),
    "degree": _degree,
    "transform": _transform,
}

ROWS: tuple[Row, ...] = (
    Row("ai.onnx.ml::Binarizer", "binarize", {"x": "X"}, {"threshold": "threshold"}),
    Row("ai.onnx.ml::Imputer", "impute", {"x": "X"}),
    Row("ai.onnx.ml::LinearClassifier", "linear_model", MODEL, {"transform": _transform, **CLASSIFIES}),
    Row("ai.onnx.ml::LinearRegressor", "linear_model", MODEL, {"transform": _transform}),
    Row(
        "ai.onnx.ml::SVMClassifier",
        "support_vectors",
        VECTORS,
        {
            **MACHINE,
            **CLASSIFIES,
            "classes": lambda a: _class_count(node_of(a)) or 1,
            "scores": _score_count,
            "probability": lambda a: bool(a.get("prob_a")),
        },
    ),
    Row("ai.onnx.ml::SVMRegressor", "support_vectors", VECTORS, {**MACHINE, "classes": lambda a: 1}),
    Row("ai.onnx.ml::Scaler", "standardize", MODEL),
    Row("ai.onnx.ml::TreeEnsemble", "tree_ensemble", ENSEMBLE, {**TREES, "aggregate": _aggregate}),
    Row("ai.onnx.ml::TreeEnsembleRegressor", "tree_ensemble", ENSEMBLE, {**TREES, "aggregate": _aggregate}),
    Row("ai.onnx.ml::TreeEnsembleClassifier", "tree_ensemble", ENSEMBLE, {**TREES, **CLASSIFIES}),
    Row(
        "ai.onnx.ml::Normalizer",
        lambda a: NORMS.get(a.get("norm", "MAX"), "max_normalize"),
        {"x": "X"},
        {"axis": lambda a: (len(a["X"].known_shape) - 1,)},
        ops=tuple(NORMS.values()),
    ),
)
