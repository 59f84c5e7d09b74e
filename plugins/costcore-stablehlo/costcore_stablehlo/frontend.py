"""What the StableHLO frontend offers to the engine, as :class:`costcore.frontend.Frontend` describes it."""

from __future__ import annotations

from costcore.trace.recorder import Recorder
from costcore.translate import Row

from .estimate import accepts, estimate

__all__ = ["ROWS", "accepts", "capture", "estimate", "native_names"]

ROWS: tuple[Row, ...] = ()
"""None: operators are recorded as the primitives of JAX that they come from, with the rows of its plug-in."""


def capture(recorder: Recorder) -> None:
    """Return None: files are read, not run."""


def native_names(op: object) -> tuple[str, ...]:
    """Return no names: operators have those of the JAX plug-in, ``jax::dot_general``."""
    return ()
