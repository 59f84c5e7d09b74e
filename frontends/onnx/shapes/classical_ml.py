"""Shapes of classical machine learning models, whose weights are attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from costcore.numbers.dims import Dim

from ..graph.node import Inferred, Node, Rule
from ..values.value import DTYPES, Shape, StoredTensor, Undetermined, Value
from .rules import like


@dataclass(frozen=True, slots=True)
class LinearWeights:
    """Weights and offsets of a linear model or a scaler; None if it has none."""

    w: Value | None
    b: Value | None


@dataclass(frozen=True, slots=True)
class SupportVectors:
    """Support vectors, or the vector of each class of a linear machine, their coefficients, and offsets."""

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
    """Return the weights that an attribute holds, a parameter of the model; None if it holds none.

    An attribute of floats may have a twin for other types, ``<name>_as_tensor``, or be a tensor. If it holds as many
    rows as the shape has, but longer ones, the first weights are read, as ONNX Runtime does.

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


def _with(facts: object, outputs: Sequence[Value], *stored: Value | None) -> Inferred:
    """Return outputs with their facts, and with those weights that the node holds."""
    return Inferred(outputs, facts, tuple(value for value in stored if value is not None))


def _features(node: Node) -> tuple[Dim, Dim]:
    """Return the number of rows and features of the input ``[N, F]``, or ``[F]``."""
    shape = node.value("X").known_shape
    if not shape:
        raise node.error(f"needs an input of 1 or 2 dimensions (got the shape {shape})")
    return (shape[0] if len(shape) > 1 else 1), shape[-1]


def _labels(node: Node) -> str:
    """Return the dtype of the class labels."""
    return "string" if node.args.get("classlabels_strings") else "int64"


def _class_count(node: Node) -> int:
    """Return the number of classes."""
    return max((len(node.args.get(f"classlabels_{kind}") or ()) for kind in ("strings", "ints", "int64s")), default=0)


def scaler(node: Node) -> Inferred:
    """Infer a float tensor of the input's shape; scales and offsets are weights."""
    w, b = weights(node, "scale"), weights(node, "offset")
    return _with(LinearWeights(w, b), [node.result(node.value("X").known_shape, "float32")], w, b)


def _determined(number: Dim) -> int:
    """Return the number; raise ``Undetermined`` if it is symbolic."""
    if not isinstance(number, int):
        raise Undetermined
    return number


def linear(node: Node) -> Inferred:
    """Infer scores of a regressor, or labels and scores of a classifier."""
    rows, features = _features(node)
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
        results = [node.result((rows,), _labels(node)), scores]
    return _with(LinearWeights(w, b), results, w, b)


def support_vectors(node: Node) -> Inferred:
    """Infer scores of a regressor, or labels and scores of a classifier."""
    rows, features = _features(node)
    given = len(node.args.get("support_vectors") or ())
    classes = _class_count(node) if node.op == "SVMClassifier" else 1
    if given:
        count = given // max(_determined(features), 1)
        w0, w1 = weights(node, "support_vectors", (count, features)), weights(node, "coefficients")
    else:  # a linear machine has one vector per class
        count = len(node.args.get("coefficients") or ()) // max(_determined(features), 1)
        w0, w1 = weights(node, "coefficients", (count, features)), None
    b = weights(node, "rho")
    if node.op == "SVMRegressor":
        results = [node.result((rows, 1), "float32")]
    else:
        proba = bool(node.args.get("prob_a"))
        pairs = classes * (classes - 1) // 2
        scores = node.result((rows, classes if proba or not given else max(pairs, classes)), "float32")
        results = [node.result((rows,), _labels(node)), scores]
    return _with(SupportVectors(w0, w1, b), results, w0, w1, b)


def trees(node: Node) -> Inferred:
    """Infer scores of targets, or labels and scores of classes."""
    rows, _ = _features(node)
    if node.op == "TreeEnsemble":
        w0, w1 = weights(node, "nodes_splits"), weights(node, "leaf_weights")
        results = [node.result((rows, node.args.get("n_targets") or 1), node.value("X").dtype)]
        return _with(Trees(w0, w1, *_new_depths(node)), results, w0, w1)
    kind = "class" if node.op == "TreeEnsembleClassifier" else "target"
    w0, w1 = weights(node, "nodes_values"), weights(node, f"{kind}_weights")
    if kind == "target":
        results = [node.result((rows, node.args.get("n_targets") or 1), "float32")]
    else:
        results = [node.result((rows,), _labels(node)), node.result((rows, _class_count(node)), "float32")]
    return _with(Trees(w0, w1, *_old_depths(node, kind)), results, w0, w1)


def _deepest(node: Node, roots: Sequence[Any], children: Mapping[Any, Sequence[Any]]) -> int:
    """Return the sum of the depths of trees: comparisons from each root to its deepest leaf.

    Raises:
        CostError: if a tree has a cycle.
    """
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


def _new_depths(node: Node) -> tuple[int, int]:
    """Return comparisons and votes per row, for trees written as interior nodes and leaves."""
    sides = [
        (node.args.get(f"nodes_{side}nodeids") or (), node.args.get(f"nodes_{side}leafs") or ())
        for side in ("true", "false")
    ]
    roots = node.args.get("tree_roots") or ()
    count = min(len(part) for pair in sides for part in pair)
    children = {i: [ids[i] for ids, leafs in sides if not leafs[i]] for i in range(count)}
    return _deepest(node, roots, children), len(roots)


def _old_depths(node: Node, kind: str) -> tuple[int, int]:
    """Return comparisons and votes per row, for trees written as nodes with a mode.

    A leaf may vote for several classes.
    """
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
    return _deepest(node, list(roots.values()), children), sum(most.values())


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
