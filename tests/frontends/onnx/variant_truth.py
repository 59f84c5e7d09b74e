"""What a node of a generated model returns, by onnx's reference evaluator, and how our reading of it differs."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from onnx import ModelProto
from onnx.reference import ReferenceEvaluator
from onnx.shape_inference import InferenceError, infer_shapes

from tests.frontends.onnx.corpus import SETTINGS, difference, read_case, stripped
from tests.frontends.onnx.variants import Case


def true_outputs(case: Case) -> list[Any] | None:
    """Return what the reference evaluator computes; None if it cannot."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            found: list[Any] = list(ReferenceEvaluator(case.model).run(None, case.inputs))
        except Exception:  # it checks little: any error of numpy may be one of the node
            return None
    return found


def agreed_outputs(case: Case) -> list[Any] | None:
    """Return what the reference evaluator computes, if onnx's strict inference finds the same shapes; else None.

    None, too, for padding that is given twice, which the standard excludes, and releases of onnx read differently.
    """
    for node in case.model.graph.node:
        settings = {each.name: each.s for each in node.attribute}
        if "pads" in settings and settings.get("auto_pad", b"NOTSET") != b"NOTSET":
            return None
    truth, model = true_outputs(case), ModelProto()
    if truth is None or any(isinstance(array, (list, tuple)) for array in truth):
        return None
    model.CopyFrom(case.model)
    try:
        inferred = infer_shapes(stripped(model), strict_mode=True)
    except InferenceError:
        return None
    for entry, array in zip(inferred.graph.output, truth, strict=True):
        dims = [d.dim_value if d.HasField("dim_value") else None for d in entry.type.tensor_type.shape.dim]
        if len(dims) != np.ndim(array) or any(a not in (None, b) for a, b in zip(dims, np.shape(array), strict=True)):
            return None
    return truth


def fault(case: Case, truth: list[Any]) -> str:
    """Return why a node is refused, not counted, or of another shape; ``""`` if none of these.

    A node whose window is larger than its input may return nothing; here it is refused.
    """
    model = ModelProto()
    model.CopyFrom(case.model)
    given = {
        name: array if array.dtype.kind in "iub" or name in SETTINGS else array.shape
        for name, array in ((name, np.asarray(x)) for name, x in case.inputs.items())
    }
    reading = read_case(case.name, stripped(model), given, truth)
    if "larger than its padded input" in reading.error and not all(np.size(array) for array in truth):
        return ""
    if reading.error or reading.unpriced:
        return reading.error or f"not counted: {reading.unpriced[0]}"
    wrong = [
        f"{name} has the shape {value.shape}, not {np.shape(array)}"
        for name, value, array in reading.outputs
        if difference(value, array) == "wrong"
    ]
    return "; ".join(wrong)
