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


@cache
def _fuses_grouped_heads() -> bool:
    """Return whether a CPU uses the fused kernel for fewer heads of keys than of queries: not before PyTorch 2.7."""
    with without_capture(), sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
        x, key = (torch.empty(1, heads, 1, 8, device="cpu") for heads in (2, 1))
        choice = torch._fused_sdp_choice(x, key, key, enable_gqa=True)
    return bool(choice == SDPBackend.FLASH_ATTENTION.value)


def fused_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor | None:
    """Return the output of the fused kernel; None if a CPU would not use it, or operands have data."""
    operands = (query, key, value)
    if (
        not (query.is_meta and query.is_floating_point())
        or dropout_p
        or any(x.dim() != 4 or x.stride(-1) != 1 or 0 in x.shape for x in operands)
    ):
        return None
    heads = query.shape[1] if not enable_gqa else key.shape[1]
    like = (query.shape[0], heads, query.shape[3])
    if any((x.shape[0], x.shape[1], x.shape[3]) != like for x in (key, value)) or query.shape[1] % heads:
        return None
    if query.shape[1] != heads and not _fuses_grouped_heads():
        return None
    if key.shape[2] != value.shape[2] or any(x.dtype != query.dtype for x in (key, value)):
        return None
    if attn_mask is not None:
        if attn_mask.requires_grad or attn_mask.dim() not in (2, 4) or is_causal:
            return None
        if not broadcasts(attn_mask.shape, (*query.shape[:3], key.shape[2])):
            return None
        if attn_mask.dtype is torch.bool:
            attn_mask = attn_mask.new_empty(attn_mask.shape, dtype=query.dtype)
        elif attn_mask.dtype not in (torch.float32, query.dtype):
            return None
    kernel: Any = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    output: Tensor = kernel(query, key, value, 0.0, is_causal, attn_mask=attn_mask, scale=scale)[0]
    return output
