"""Attention of nested tensors in the jagged layout, which PyTorch writes in Python."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
from torch.nested._internal.nested_tensor import NestedTensor

from .dispatch_mode import CaptureMode
from .replacement import replace

_FUNCTION = torch._C._nn.scaled_dot_product_attention
_OPERATOR = torch.ops.aten.scaled_dot_product_attention.default


def patch_attention(stack: ExitStack, active_mode: Callable[[], CaptureMode | None]) -> None:
    """Record attention of jagged tensors as one call; the function that computes it runs as it is.

    Args:
        stack: undoes the patch.
        active_mode: returns the mode of the running thread.
    """
    kind: Any = NestedTensor
    original = vars(kind)["__torch_function__"]

    def __torch_function__(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: N807
        run = partial(original.__func__, cls, func, types, args, kwargs)
        mode = active_mode() if func is _FUNCTION else None
        if mode is None or mode.paused.is_set or mode.is_over:
            return run()
        return mode.run_as_one_call(_OPERATOR, args, kwargs or {}, run)

    replace(stack, kind, "__torch_function__", classmethod(__torch_function__))
