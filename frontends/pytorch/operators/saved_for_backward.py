"""What operators keep for their backward pass beside their outputs: indices, masks, statistics.

They are written only if a backward pass can follow, or if the user asks for them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import FrameType

import torch
from torch import Tensor
from torch.nn import functional

from ..meta import sdpa
from ..tensors import dtype_name

_DROPOUTS = ("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout")

_FAKE_QUANTIZATIONS = (
    "fake_quantize_per_tensor_affine_cachemask",
    "fake_quantize_per_channel_affine_cachemask",
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
)

_KEEPING_OPERANDS = ("rrelu_with_noise", "rrelu_with_noise_", "embedding_bag", "_embedding_bag")

_KEEPING_STATISTICS = (
    *("batch_norm", "native_batch_norm", "_native_batch_norm_legit", "instance_norm"),
    *("layer_norm", "native_layer_norm", "group_norm", "native_group_norm", "_weight_norm_interface"),
    "cross_entropy_loss",
)

_BY_OPERAND = frozenset(
    f"aten::{name}"
    for name in (
        "scaled_dot_product_attention",
        "_scaled_dot_product_flash_attention_for_cpu_backward",
        "mkldnn_rnn_layer_backward",
    )
)
"""The operators for which it matters which operand needs a gradient."""

SAVING = _BY_OPERAND | frozenset(
    f"aten::{name}"
    for name in (
        *(f"{kind}max_pool{rank}d" for kind in ("", "adaptive_", "fractional_") for rank in (1, 2, 3)),
        *_DROPOUTS,
        *_FAKE_QUANTIZATIONS,
        *_KEEPING_STATISTICS,
        *_KEEPING_OPERANDS,
        *(f"{name}_" for name in _DROPOUTS),
    )
)
"""The operators that keep something if a backward pass can follow."""

_WITHOUT_INDICES = frozenset(
    getattr(functional, f"_{kind}_max_pool{rank}d").__code__
    for kind, rank in (("adaptive", 1), ("adaptive", 2), ("adaptive", 3), ("fractional", 2), ("fractional", 3))
)
"""The functions that drop the indices, which these operators always return."""


def is_differentiated(tensor: Tensor) -> bool:
    """Return whether a backward pass can follow the operator that reads ``tensor``."""
    return bool(torch.is_grad_enabled() and tensor.requires_grad)


def any_is_differentiated(*values: object) -> bool:
    """Return whether a backward pass can follow the operator that reads these values, some of them tensors."""
    return torch.is_grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in values)


def statistics_dtype(x: Tensor, weight: Tensor | None = None) -> str:
    """Return the dtype of the statistics of a norm or of attention: on a CPU that of the weight, else float32 at least.

    Args:
        x: the operand whose statistics they are.
        weight: the weight; None if there is none.
    """
    if x.dtype not in (torch.float16, torch.bfloat16):
        return dtype_name(x.dtype)
    return dtype_name(x.dtype if weight is None else weight.dtype) if x.is_cpu else "float32"


def indices_are_dropped() -> bool:
    """Return whether the running operator was called for its maxima alone, by ``return_indices=False``."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code not in _WITHOUT_INDICES:
        frame = frame.f_back
    return frame is not None


def saved_key(native: str, tensors: Sequence[Tensor]) -> tuple[bool, ...]:
    """Return what distinguishes calls of an operator in :data:`SAVING` beside their arguments."""
    if native in _BY_OPERAND:
        return any_is_differentiated(*tensors), sdpa.is_allowed(), *[x.requires_grad for x in tensors]
    returns_indices = "adaptive_max" in native or "fractional_max" in native
    return any_is_differentiated(*tensors), returns_indices and indices_are_dropped()
