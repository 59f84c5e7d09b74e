"""Attention on the meta device, as a CPU computes it.

On the meta device PyTorch decomposes ``scaled_dot_product_attention`` into matrix products. A CPU runs one fused
kernel, whose output has other strides (so that other copies follow), and whose backward pass is one operator.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from .contents import without_capture
from .operands import broadcasts

NAME = "aten::scaled_dot_product_attention"


def is_allowed() -> bool:
    """Return whether ``sdpa_kernel`` leaves the fused kernel to a CPU.

    Without any kernel that a CPU has, the program is written for a device that has one of the others, all fused.
    """
    return torch.backends.cuda.flash_sdp_enabled() or not torch.backends.cuda.math_sdp_enabled()


@cache
def _fuses(rank: int, grouped: bool) -> bool:
    """Return whether a CPU uses the fused kernel for operands of this rank, or for one head of keys of two of queries.

    It does for heads that are grouped on purpose since PyTorch 2.7, for others and for three axes since 2.15.
    """
    with without_capture(), sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
        x, key = (torch.empty((1, heads, 1, 8)[-rank:], device="cpu") for heads in (2, 1 if rank == 4 else 2))
        choice = torch._fused_sdp_choice(x, key, key, **({"enable_gqa": True} if grouped else {}))
    return bool(choice == SDPBackend.FLASH_ATTENTION.value)


def is_fused(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> bool:
    """Return whether a CPU runs attention of these operands as one fused kernel."""
    operands = (query, key, value)
    if (
        not is_allowed()
        or dropout_p
        or any(x.dim() != query.dim() or x.stride(-1) != 1 or 0 in x.shape for x in operands)
    ):
        return False
    if query.dim() == 3 and _fuses(3, False):
        query, key, value, attn_mask = _with_batch(query, key, value, attn_mask)
        return is_fused(query, key, value, attn_mask, is_causal=is_causal)
    if query.dim() != 4:
        return False
    heads = key.shape[1] if enable_gqa or key.shape[1] == 1 else query.shape[1]
    like = (query.shape[0], heads, query.shape[3])
    if any((x.shape[0], x.shape[1], x.shape[3]) != like for x in (key, value)) or query.shape[1] % heads:
        return False
    if query.shape[1] != heads and not _fuses(4, enable_gqa):
        return False
    if key.shape[2] != value.shape[2] or any(x.dtype != query.dtype for x in (key, value)):
        return False
    if attn_mask is None:
        return True
    return (
        not (attn_mask.requires_grad or is_causal)
        and attn_mask.dim() in (2, 4)
        and broadcasts(attn_mask.shape, (*query.shape[:3], key.shape[2]))
        and attn_mask.dtype in (torch.bool, torch.float32, query.dtype)
    )


def fused_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    **settings: Any,
) -> Tensor | None:
    """Return the output of the fused kernel; None if a CPU would not use it, or operands have data."""
    if not (query.is_meta and query.is_floating_point()):
        return None
    if not is_fused(query, key, value, attn_mask, dropout_p, is_causal, **settings):
        return None
    if attn_mask is not None and attn_mask.dtype is torch.bool:
        attn_mask = attn_mask.new_empty(attn_mask.shape, dtype=query.dtype)
    kernel: Any = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    *operands, mask = _with_batch(query, key, value, attn_mask)
    output: Tensor = kernel(*operands, 0.0, is_causal, attn_mask=mask, scale=settings.get("scale"))[0]
    return output if query.dim() == 4 else output.squeeze(0)


def _with_batch(*operands: Any) -> Any:
    """Return the operands with a batch of 1 before three axes."""
    return tuple(x.unsqueeze(0) if x is not None and x.dim() == 3 else x for x in operands)
