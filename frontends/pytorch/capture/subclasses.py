"""Tensors that code makes instances of a subclass, which PyTorch before 2.5 refuses inside any dispatch mode."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from typing import Any

from torch import Tensor

from ..meta.contents import without_capture
from .dispatch_mode import CaptureMode
from .replacement import replace

_REFUSED = "already associated to a python object"
"""How PyTorch refuses an alias that a dispatch mode has seen."""


def patch_conversion(stack: ExitStack, active_mode: Callable[[], CaptureMode | None]) -> None:
    """Let ``Tensor.as_subclass``, and so functions of subclasses, work in a thread that captures.

    Args:
        stack: undoes the patch.
        active_mode: returns the mode of the running thread.
    """
    original = Tensor.as_subclass

    @wraps(original)
    def as_subclass(tensor: Tensor, cls: Any) -> Any:
        try:
            return original(tensor, cls)
        except RuntimeError as error:
            mode = active_mode()
            if mode is None or _REFUSED not in str(error):
                raise
        with without_capture():
            made = original(tensor, cls)
        for log in mode.recording.logs:
            log.identities.register_alias(made, tensor)
        return made

    replace(stack, Tensor, "as_subclass", as_subclass)
