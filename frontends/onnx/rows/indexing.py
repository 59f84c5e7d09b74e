"""Rows of operators that read or write elements at given indices."""

from __future__ import annotations

from costcore.translate import Arguments, Row

from ..values.value import Value
from .arguments import axis


def _is_embedding(a: Arguments) -> bool:
    """Return whether a gather is an embedding: a lookup of rows in a learned matrix."""
    table, indices = a.get("data"), a.get("indices")
    return (
        isinstance(table, Value)
        and isinstance(indices, Value)
        and table.role == "param"
        and len(table.known_shape) == 2
        and indices.role == "data"
        and axis("data")(a) == 0
    )


def _constant_index(a: Arguments) -> int | None:
    """Return the index of a gather that selects one constant index of an axis; None for any other."""
    indices = a.get("indices")
    if not isinstance(indices, Value) or indices.shape != () or indices.data is None:
        return None
    found = indices.data.ravel()[0]
    return found if isinstance(found, int) else None


REDUCTION = {"reduction": lambda a: a.get("reduction", "none")}


ROWS: tuple[Row, ...] = (
    Row("ai.onnx::Gather", "embedding", {"x": "indices", "w": "data"}, when=_is_embedding),
    Row(
        "ai.onnx::Gather",
        "gather",
        {"x": "data", "indices": "indices"},
        {"axis": axis("data"), "index": _constant_index},
    ),
    Row("ai.onnx::GatherElements", "gather_elements", {"x": "data", "indices": "indices"}, {"axis": axis("data")}),
    Row("ai.onnx::GatherND", "gather_nd", {"x": "data", "indices": "indices"}),
    Row(
        "ai.onnx::ScatterND",
        "scatter_nd",
        {"x": "data", "indices": "indices", "updates": "updates"},
        REDUCTION,
    ),
    Row(
        "ai.onnx::TensorScatter",
        "tensor_scatter",
        {"x": "past_cache", "updates": "update", "indices": "write_indices"},
        {"axis": axis("past_cache")},
    ),
    Row("ai.onnx::Compress", "compress", {"x": "input", "condition": "condition"}),
    *(
        Row(
            f"ai.onnx::{op}",
            "scatter_elements",
            {"x": "data", "indices": "indices", "updates": "updates"},
            {"axis": axis("data"), **REDUCTION},
        )
        for op in ("ScatterElements", "Scatter")
    ),
    Row(
        "ai.onnx.ml::ArrayFeatureExtractor",
        "gather",
        {"x": "X", "indices": "Y"},
        {"axis": lambda a: len(a["X"].known_shape) - 1},
    ),
)
