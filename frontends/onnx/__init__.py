"""The ONNX frontend: reads a model's graph, never runs it, and never looks at its weights."""

from .estimate import accepts, capture, estimate, native_names
from .operators import ROWS

__all__ = ["ROWS", "accepts", "capture", "estimate", "native_names"]
