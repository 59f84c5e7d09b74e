"""The frontend of Chainer: see :class:`costcore.frontend.Frontend` for what each of these is."""

from __future__ import annotations

from . import compat  # noqa: F401 - mends Chainer where that is needed, so it comes first
from .capture.function_hook import Capture
from .estimate import accepts, estimate
from .naming import native_names
from .rows.table import ROWS

capture = Capture

__all__ = ["ROWS", "accepts", "capture", "estimate", "native_names"]
