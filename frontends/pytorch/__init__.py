"""The PyTorch frontend: records what PyTorch runs, and runs modules on the meta device, without weights."""

from __future__ import annotations

if __name__ != "costcore.frontends.pytorch":
    raise ImportError("import costcore.frontends.pytorch, not frontends.pytorch")

from .capture.context import capture
from .estimate import accepts, estimate
from .naming import native_names
from .rows.table import ROWS

__all__ = ["ROWS", "accepts", "capture", "estimate", "native_names"]
