"""Tensors that are spread over several devices: what is counted is the cost of this process, on its own shards."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from typing import Any

from .dispatch_mode import CaptureMode

_LOOK_AHEAD = (
    ("torch.distributed.tensor._sharding_prop", "ShardingPropagator", "_propagate_tensor_meta_non_cached"),
    ("torch.distributed.tensor._decompositions", "DecompShardingStrategy", "propagate_strategy"),
)
"""What runs operators of the global shapes, the first time only, to learn shapes and placements of a result."""


def let_look_ahead_unseen(stack: ExitStack, running: Callable[[], CaptureMode | None]) -> None:
    """Keep out of sight what PyTorch runs to look ahead, and not to compute.

    Args:
        stack: what puts it back.
        running: the capture of the thread that asks.
    """
    for module, kind, name in _LOOK_AHEAD:
        owner: Any = getattr(sys.modules.get(module), kind, None)
        original = getattr(owner, name, None)
        if original is not None:
            _pause_in(stack, owner, name, original, running)


def _pause_in(
    stack: ExitStack, owner: Any, name: str, original: Any, running: Callable[[], CaptureMode | None]
) -> None:
    @wraps(original)
    def unseen(*args: Any, **kwargs: Any) -> Any:
        session = running()
        if session is None:
            return original(*args, **kwargs)
        before, session.is_paused = session.is_paused, True
        try:
            return original(*args, **kwargs)
        finally:
            session.is_paused = before

    def restore() -> None:
        if getattr(owner, name) is unseen:
            setattr(owner, name, original)

    setattr(owner, name, unseen)
    stack.callback(restore)
