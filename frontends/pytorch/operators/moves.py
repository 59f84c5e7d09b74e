"""Moves between devices.

A model names devices, ``x.to(device)``. In an estimate its tensors are on the meta device, and some that it makes are
not; in a run all of them are on one device, and nothing is moved.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

MOVE = torch.ops.aten._to_copy.default
"""The operator that moves, casts or copies a tensor."""


def is_move(
    x: Tensor,
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,
    device: Any = None,
    memory_format: torch.memory_format | None = None,
    **_: Any,
) -> bool:
    """Return whether ``_to_copy`` with these arguments moves a tensor to or from the meta device, and no more."""
    if device is None or (torch.device(device).type == "meta") == x.is_meta:
        return False
    if dtype not in (None, x.dtype) or layout not in (None, x.layout):
        return False
    is_preserved = memory_format in (None, torch.preserve_format)
    return is_preserved or x.is_contiguous(memory_format=memory_format or torch.contiguous_format)
