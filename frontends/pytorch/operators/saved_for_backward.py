"""What operators keep for their backward pass beside their outputs: indices of maxima, masks of dropout.

They are written only if a backward pass can follow, or if the user asks for them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import FrameType

import torch
from torch import Tensor
from torch.nn import functional

_DROPOUTS = ("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout")

SAVING = frozenset(
    f"aten::{name}"
    for name in (
        *(f"{kind}max_pool{rank}d" for kind in ("", "adaptive_", "fractional_") for rank in (1, 2, 3)),
        *_DROPOUTS,
        *(f"{name}_" for name in _DROPOUTS),
    )
)
"""The operators that keep indices or a mask if a backward pass can follow."""

_WITHOUT_INDICES = frozenset(
    getattr(functional, f"_{kind}_max_pool{rank}d").__code__
    for kind, rank in (("adaptive", 1), ("adaptive", 2), ("adaptive", 3), ("fractional", 2), ("fractional", 3))
)
"""The functions that drop the indices, which these operators always return."""


def is_differentiated(tensor: Tensor) -> bool:
    """Return whether a backward pass can follow the operator that reads ``tensor``."""
    return bool(torch.is_grad_enabled() and tensor.requires_grad)


def indices_are_dropped() -> bool:
    """Return whether the running operator was called for its maxima alone, by ``return_indices=False``."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code not in _WITHOUT_INDICES:
        frame = frame.f_back
    return frame is not None


def saved_key(native: str, tensors: Sequence[Tensor]) -> tuple[bool, bool]:
    """Return what distinguishes calls of an operator in :data:`SAVING` beside their arguments."""
    returns_indices = "adaptive_max" in native or "fractional_max" in native
    return any(map(is_differentiated, tensors)), returns_indices and indices_are_dropped()
