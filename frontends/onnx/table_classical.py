"""Rows of the ``ai.onnx.ml`` operators."""

from __future__ import annotations

from typing import Any

from costcore.translate import Arguments, Row

from .settings import node
from .shapes.classical import transform_of

NORMS = {"L1": "l1_normalize", "L2": "l2_normalize", "MAX": "max_normalize"}


def _held(name: str) -> Any:
    """What the rule of shapes kept: a weight, or a number."""
    return lambda a: node(a).cache.get(name)


def _transform(a: Arguments) -> str:
    return transform_of(node(a))


def _scores(a: Arguments) -> Any:
    """Scores a row."""
    made = [value for value in node(a).outputs if value is not None]
    return made[-1].known[-1]


def _classes(a: Arguments) -> int:
    return max((len(a.get(f"classlabels_{kind}") or ()) for kind in ("ints", "strings", "int64s")), default=0) or 1


MODES = ("average", "sum", "min", "max")


def _aggregate(a: Arguments) -> str:
    given = a.get("aggregate_function", "SUM")
    return MODES[given] if isinstance(given, int) else str(given).lower()


CLASSIFIES = {"classify": lambda a: True}
TREES = {"depth": _held("depth"), "votes": _held("votes"), "scores": _scores, "transform": _transform}

MODEL = {"x": "X", "w": _held("w"), "b": _held("b")}
VECTORS = {"x": "X", "w0": _held("w0"), "w1": _held("w1"), "b": _held("b")}
ENSEMBLE = {"x": "X", "w0": _held("w0"), "w1": _held("w1")}
MACHINE = {"kernel": lambda a: str(a.get("kernel_type", "LINEAR")).lower(), "transform": _transform}

BY_NAME: tuple[tuple[Any, ...], ...] = (
    ("ArrayFeatureExtractor", "gather", {"x": "X", "indices": "Y"}, {"axis": lambda a: len(a["X"].known) - 1}),
    ("Binarizer", "binarize", {"x": "X"}, {"threshold": "threshold"}),
    ("CastMap", "lookup"),
    ("CategoryMapper", "lookup", {"x": "X"}),
    ("DictVectorizer", "lookup"),
    ("FeatureVectorizer", "concat", {"x*": "X"}, {"axis": lambda a: 1}),
    ("Imputer", "impute", {"x": "X"}),
    ("LabelEncoder", "lookup", {"x": "X"}),
    ("LinearClassifier", "linear_model", MODEL, {"transform": _transform, **CLASSIFIES}),
    ("LinearRegressor", "linear_model", MODEL, {"transform": _transform}),
    ("OneHotEncoder", "one_hot", {"x": "X"}),
    (
        "SVMClassifier",
        "support_vectors",
        VECTORS,
        {
            **MACHINE,
            **CLASSIFIES,
            "classes": _classes,
            "scores": _scores,
            "probability": lambda a: bool(a.get("prob_a")),
        },
    ),
    ("SVMRegressor", "support_vectors", VECTORS, {**MACHINE, "classes": lambda a: 1}),
    ("Scaler", "standardize", MODEL),
    ("TreeEnsemble", "tree_ensemble", ENSEMBLE, {**TREES, "aggregate": _aggregate}),
    ("TreeEnsembleRegressor", "tree_ensemble", ENSEMBLE, {**TREES, "aggregate": _aggregate}),
    ("TreeEnsembleClassifier", "tree_ensemble", ENSEMBLE, {**TREES, **CLASSIFIES}),
    ("ZipMap", "container"),
)

ROWS: tuple[Row, ...] = (
    *(Row(f"ai.onnx.ml::{native}", *rest) for native, *rest in BY_NAME),
    Row(
        "ai.onnx.ml::Normalizer",
        lambda a: NORMS.get(a.get("norm", "MAX"), "max_normalize"),
        {"x": "X"},
        {"axis": lambda a: (len(a["X"].known) - 1,)},
        ops=tuple(NORMS.values()),
    ),
)
"""The rows of this family."""
