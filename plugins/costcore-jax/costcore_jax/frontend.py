"""What the JAX frontend offers to the engine, as :class:`costcore.frontend.Frontend` describes it."""

from __future__ import annotations

from contextlib import AbstractContextManager

from jax.extend.core import Primitive

from costcore.trace.run import Recorder

from .estimate import accepts, estimate
from .rows.table import ROWS

__all__ = ["ROWS", "accepts", "capture", "estimate", "native_names"]


def capture(recorder: Recorder) -> AbstractContextManager[object] | None:
    """Return None: JAX has no hook that sees every operator of a run."""
    return None


def native_names(op: object) -> tuple[str, ...]:
    """Return the full name of a primitive, of ``jax::dot_general`` or of ``dot_general_p``."""
    if isinstance(op, Primitive):
        return (f"jax::{op.name}",)
    if isinstance(op, str) and op.startswith("jax::"):
        return (op,)
    return ()
