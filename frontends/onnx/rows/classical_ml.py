"""Rows of classical machine learning models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costcore.translate import Arguments, Row, Source

from ..shapes.classical_ml import LinearWeights, SupportVectors, Trees, transform_of
from .arguments import node_of, optional_fact

NORMS = {"L1": "l1_normalize", "L2": "l2_normalize", "MAX": "max_normalize"}


def _transform(a: Arguments) -> str:
    """Return the canonical name of the transform of the scores."""
    return transform_of(node_of(a))


def _scores(a: Arguments) -> Any:
    """Return the number of scores per row."""
    made = [value for value in node_of(a).outputs if value is not None]
    return made[-1].known_shape[-1]


def _classes(a: Arguments) -> int:
    """Return the number of classes, at least 1."""
    return max((len(a.get(f"classlabels_{kind}") or ()) for kind in ("ints", "strings", "int64s")), default=0) or 1


MODES = ("average", "sum", "min", "max")


def _aggregate(a: Arguments) -> str:
    """Return the canonical name of the aggregation of the trees."""
    given = a.get("aggregate_function", "SUM")
    return MODES[given] if isinstance(given, int) else str(given).lower()


CLASSIFIES = {"classify": lambda a: True}
TREES: Mapping[str, Source] = {
    "depth": optional_fact(Trees, lambda f: f.depth),
    "votes": optional_fact(Trees, lambda f: f.votes),
    "scores": _scores,
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
    """Return the degree of a polynomial kernel, the third of its parameters."""
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
            "classes": _classes,
            "scores": _scores,
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
