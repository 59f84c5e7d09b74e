"""Storages whose size code changes by hand, as sharded training does to free parameters, which no operator shows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from typing import Any

import torch

from .dispatch_mode import CaptureMode
from .replacement import replace


def patch_resizing(stack: ExitStack, active_mode: Callable[[], CaptureMode | None]) -> None:
    """Let the memory ledgers of the running thread know when a storage is resized.

    Args:
        stack: undoes the patch.
        active_mode: returns the mode of the running thread.
    """
    original = torch.UntypedStorage.resize_

    @wraps(original)
    def resize(storage: torch.UntypedStorage, *args: Any) -> Any:
        was_empty = not storage.nbytes()
        result = original(storage, *args)
        mode = active_mode()
        if mode is not None:
            for ledger in mode.ledgers:
                ledger.see_size(storage, was_empty)
        return result

    replace(stack, torch.UntypedStorage, "resize_", resize)
