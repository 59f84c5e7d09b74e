"""Flex attention, counted as attention between all pairs."""

from __future__ import annotations

from inspect import signature
from typing import Any, get_args

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

FLEX = "flex_attention"

FLEX_ARGUMENTS = ("query", "key", "value", "score_mod", "block_mask", "scale")

FLEX_ROW = "aten::scaled_dot_product_attention"
"""The operator whose row it is translated by."""

FLEX_ASSUMPTION = "flex_attention is costed as attention between all pairs, without its score and mask functions"


def flex_on_meta(
    operator: Any, query: Tensor, key: Tensor, value: Tensor, score_mod: Any, mask: Any, scale: float
) -> Any:
    """Return what ``flex_attention`` returns, on the meta device, which PyTorch does not support.

    Beside the output these are one or, in later versions, two numbers of every row.
    """
    output = scaled_dot_product_attention(query, key, value, scale=scale, enable_gqa=query.shape[-3] != key.shape[-3])
    row = query.new_empty(query.shape[:-1], dtype=torch.float32)
    returned = get_args(signature(type(operator).__call__).return_annotation)
    return (output, *[torch.empty_like(row) for _ in returned[1:]])
