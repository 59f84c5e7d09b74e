"""What the Core ML frontend offers to the engine, as :class:`costcore.frontend.Frontend` describes it."""

from __future__ import annotations

from costcore.trace.recorder import Recorder

from .estimate import accepts, estimate
from .rows import ROWS

__all__ = ["ROWS", "accepts", "capture", "estimate", "native_names"]


def capture(recorder: Recorder) -> None:
    """Return None: files are read, not run."""


def native_names(op: object) -> tuple[str, ...]:
    """Return the full name of an operator, of ``coreml::conv``; other names belong to other frontends."""
    return (op,) if isinstance(op, str) and op.startswith("coreml::") else ()
