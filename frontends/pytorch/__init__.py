"""The PyTorch frontend: records the operators of a run, and estimates modules on the meta device."""

from __future__ import annotations

if __name__ != "costcore.frontends.pytorch":
    raise ImportError("import costcore.frontends.pytorch, not frontends.pytorch")

from .capture.context import capture
from .estimate import accepts, estimate
from .naming import native_names
from .rows import ROWS

__all__ = ["ROWS", "accepts", "capture", "estimate", "native_names"]
