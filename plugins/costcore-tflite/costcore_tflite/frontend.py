"""What the TensorFlow Lite frontend offers to the engine, as :class:`costcore.frontend.Frontend` describes it."""

from __future__ import annotations

from costcore.trace.recorder import Recorder

from .estimate import accepts, estimate
from .model import OPERATORS
from .rows.table import ROWS

__all__ = ["ROWS", "accepts", "capture", "estimate", "native_names"]


def capture(recorder: Recorder) -> None:
    """Return None: files are read, not run."""


def native_names(op: object) -> tuple[str, ...]:
    """Return the full name of an operator, of ``CONV_2D``, ``tflite::CONV_2D`` or ``tflite::MyCustomOperator``."""
    if not isinstance(op, str):
        return ()
    if op.startswith("tflite::"):
        return (op,)
    return (f"tflite::{op}",) if op in OPERATORS.values() else ()
