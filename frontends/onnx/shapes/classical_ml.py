"""Shapes of classical machine learning models, whose weights are attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from costcore.dims import Dim

from ..graph.node import Node, Rule
from ..values.value import DTYPES, STORED, Shape, Stored, Undetermined, Value
from .rules import like


def weights(node: Node, operand: str, name: str, shape: Shape | None = None) -> int:
    """How many weights an attribute holds; the node's cache keeps them as a parameter of the model under ``operand``.

    An attribute of floats may have a twin for other types, ``<name>_as_tensor``, or be a tensor.

    Raises:
        CostError: where they do not fit the shape.
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
        return 0
    kept: tuple[Dim, ...] = (count,) if shape is None else shape
    held = Value(kept, dtype, None, "param", stored=Stored(f"{node.proto.output[0]}.{name}", count, dtype))
    if held.size != count:
        raise node.error(f"has {count} {name} for the shape {kept}")
    node.cache.setdefault(STORED, []).append(held)
    node.cache[operand] = held
    return count


def _features(node: Node) -> tuple[Dim, Dim]:
    """Rows and features of the input ``[N, F]``, or ``[F]``."""
    shape = node.value("X").known
    if not shape:
        raise node.error("needs an input of 1 or 2 dimensions")
    return (shape[0] if len(shape) > 1 else 1), shape[-1]


def _labels(node: Node) -> str:
    return "string" if node.args.get("classlabels_strings") else "int64"


def _class_count(node: Node) -> int:
    return max((len(node.args.get(f"classlabels_{kind}") or ()) for kind in ("strings", "ints", "int64s")), default=0)


def scaler(node: Node) -> Sequence[Value]:
    """The shape of the input, in floats; scales and offsets are weights."""
    weights(node, "w", "scale")
    weights(node, "b", "offset")
    return [node.result(node.value("X").known, "float32")]


def _told(number: Dim) -> int:
    if not isinstance(number, int):
        raise Undetermined
    return number


def linear(node: Node) -> Sequence[Value]:
    """Labels and scores, or scores."""
    rows, features = _features(node)
    if node.op == "LinearRegressor":
        outputs = node.args.get("targets") or 1
    else:
        outputs = _class_count(node)
        given = len(node.args.get("coefficients") or ())
        if isinstance(features, int) and features and given == features and outputs == 2:
            outputs = 1  # two classes may have one score between them
    weights(node, "w", "coefficients", (outputs, features))
    weights(node, "b", "intercepts")
    scores = node.result((rows, outputs), "float32")
    if node.op == "LinearRegressor":
        return [scores]
    scores = node.result((rows, max(_class_count(node), 1)), "float32")
    return [node.result((rows,), _labels(node)), scores]


def support_vectors(node: Node) -> Sequence[Value]:
    """Labels and scores, or scores."""
    rows, features = _features(node)
    given = len(node.args.get("support_vectors") or ())
    classes = _class_count(node) if node.op == "SVMClassifier" else 1
    if given:
        count = given // max(_told(features), 1)
        weights(node, "w0", "support_vectors", (count, features))
        weights(node, "w1", "coefficients")
    else:  # a linear machine holds one vector a class
        count = len(node.args.get("coefficients") or ()) // max(_told(features), 1)
        weights(node, "w0", "coefficients", (count, features))
    weights(node, "b", "rho")
    if node.op == "SVMRegressor":
        return [node.result((rows, 1), "float32")]
    proba = bool(node.args.get("prob_a"))
    pairs = classes * (classes - 1) // 2
    return [
        node.result((rows,), _labels(node)),
        node.result((rows, classes if proba or not given else max(pairs, classes)), "float32"),
    ]


def trees(node: Node) -> Sequence[Value]:
    """Scores of targets, or labels and scores of classes."""
    rows, _ = _features(node)
    if node.op == "TreeEnsemble":
        weights(node, "w0", "nodes_splits")
        weights(node, "w1", "leaf_weights")
        depth, count = _new_depths(node)
        node.cache["depth"], node.cache["votes"] = depth, count
        return [node.result((rows, node.args.get("n_targets") or 1), node.value("X").dtype)]
    kind = "class" if node.op == "TreeEnsembleClassifier" else "target"
    weights(node, "w0", "nodes_values")
    weights(node, "w1", f"{kind}_weights")
    node.cache["depth"], node.cache["votes"] = _old_depths(node, kind)
    if kind == "target":
        return [node.result((rows, node.args.get("n_targets") or 1), "float32")]
    return [node.result((rows,), _labels(node)), node.result((rows, _class_count(node)), "float32")]


def _deepest(node: Node, roots: Sequence[Any], children: Mapping[Any, Sequence[Any]]) -> int:
    """The sum of the depths of trees: comparisons from each root to its deepest leaf.

    Raises:
        CostError: where a tree has a cycle.
    """
    total = 0
    for root in roots:
        level, depth, seen = [root], 0, 0
        while level := [node_id for node_id in level if node_id in children]:
            depth, seen = depth + 1, seen + len(level)
            if seen > len(children):
                raise node.error("has a tree whose branches lead back to it")
            level = [child for node_id in level for child in children[node_id]]
        total += depth
    return total


def _new_depths(node: Node) -> tuple[int, int]:
    """Comparisons and votes a row, of trees written as interior nodes and leaves."""
    sides = [
        (node.args.get(f"nodes_{side}nodeids") or (), node.args.get(f"nodes_{side}leafs") or ())
        for side in ("true", "false")
    ]
    roots = node.args.get("tree_roots") or ()
    count = min(len(part) for pair in sides for part in pair)
    children = {i: [ids[i] for ids, leafs in sides if not leafs[i]] for i in range(count)}
    return _deepest(node, roots, children), len(roots)


def _old_depths(node: Node, kind: str) -> tuple[int, int]:
    """Comparisons and votes a row, of trees written as nodes with a mode; a leaf may vote for several classes."""
    names = [node.args.get(f"nodes_{name}") or () for name in ("treeids", "nodeids", "modes", "truenodeids")]
    children: dict[tuple[int, int], list[tuple[int, int]]] = {}
    roots: dict[int, tuple[int, int]] = {}
    for tree, at, mode, yes, no in zip(*names, node.args.get("nodes_falsenodeids") or (), strict=False):
        roots.setdefault(tree, (tree, at))
        if mode != "LEAF":
            children[tree, at] = [(tree, yes), (tree, no)]
    held: dict[tuple[int, int], int] = {}
    for leaf in zip(node.args.get(f"{kind}_treeids") or (), node.args.get(f"{kind}_nodeids") or (), strict=False):
        held[leaf] = held.get(leaf, 0) + 1
    most: dict[int, int] = {}
    for (tree, _), votes in held.items():
        most[tree] = max(most.get(tree, 0), votes)
    return _deepest(node, list(roots.values()), children), sum(most.values())


def transform_of(node: Node) -> str:
    """The transform of the scores, by its neutral name."""
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
