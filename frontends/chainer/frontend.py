"""What the Chainer frontend offers to the engine, as :class:`costcore.frontend.Frontend` describes it."""

from __future__ import annotations

from .capture.function_hook import Capture
from .estimate import accepts, estimate
from .naming import native_names
from .rows.table import ROWS

capture = Capture

__all__ = ["ROWS", "accepts", "capture", "estimate", "native_names"]
