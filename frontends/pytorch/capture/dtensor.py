"""Distributed tensors: the cost of this process is counted, on its own shards."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from functools import wraps
from typing import Any

from .dispatch_mode import CaptureMode
from .replacement import replace

_SHAPE_PROPAGATION = (
    ("torch.distributed.tensor._sharding_prop", "ShardingPropagator", "_propagate_tensor_meta_non_cached"),
    ("torch.distributed._tensor._sharding_prop", "ShardingPropagator", "_propagate_tensor_meta"),
    ("torch.distributed.tensor._decompositions", "DecompShardingStrategy", "propagate_strategy"),
)
"""The methods (module, class, name) that run operators on the global shapes to infer those of a result."""


def patch_shape_propagation(stack: ExitStack, active_mode: Callable[[], CaptureMode | None]) -> None:
    """Pause the capture while PyTorch runs operators on global shapes, which compute nothing.

    Args:
        stack: undoes the patches.
        active_mode: returns the mode of the running thread.
    """
    for module, kind, name in _SHAPE_PROPAGATION:
        owner: Any = getattr(sys.modules.get(module), kind, None)
        original = getattr(owner, name, None)
        if original is not None:
            _pause_in(stack, owner, name, original, active_mode)


def _pause_in(
    stack: ExitStack, owner: Any, name: str, original: Any, active_mode: Callable[[], CaptureMode | None]
) -> None:
    @wraps(original)
    def unrecorded(*args: Any, **kwargs: Any) -> Any:
        mode = active_mode()
        with nullcontext() if mode is None else mode.paused:
            return original(*args, **kwargs)

    replace(stack, owner, name, unrecorded)
