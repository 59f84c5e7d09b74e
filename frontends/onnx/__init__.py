"""The ONNX frontend: counts a model from its graph, without running it or reading its weights."""

from __future__ import annotations

from costcore.translate import Row

from .estimate import accepts, capture, estimate, native_names
from .inference import all_rows

__all__ = ["ROWS", "accepts", "capture", "estimate", "native_names"]

ROWS: tuple[Row, ...]


def __getattr__(name: str) -> object:
    if name != "ROWS":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = all_rows()
    return value
