"""Fast replacements for kernels of the meta device that are written in Python.

Each of those takes a millisecond, and the first ones in a process import sympy and the compiler. The replacements cover
plain cases, in which the operands determine the result. Every other call, and every invalid one, is left to the kernel
of PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from .arranging import ARRANGING
from .gradients import GRADIENTS, HALVES, are_vectors
from .interpolation import INTERPOLATION
from .lstm import lstm_layer, lstm_layer_backward
from .plain_layouts import empty, empty_like, is_contiguous, is_dense
from .pointwise import POINTWISE
from .products import addmm, baddbmm, bmm, convolution, convolution_backward, flash_attention, mm

FAST_DTYPES = (torch.float32, torch.float64)


def _dtype_of(vectors: Sequence[Tensor | None], x: Tensor) -> torch.dtype | None:
    """Return the dtype of the parameters and statistics of a normalization; None: PyTorch decides about it."""
    if x.dtype in FAST_DTYPES:
        return x.dtype
    has_single = x.dtype in HALVES and any(v is not None and v.dtype is torch.float32 for v in vectors)
    return torch.float32 if has_single else None


def _batch_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor | None,
    var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, ...] | None:
    """Return what a CPU returns: the statistics of the batch have elements in training only."""
    vectors = weight, bias, mean, var
    dtype = _dtype_of(vectors, x)
    if x.dim() < 2 or dtype is None or not is_dense(x) or not are_vectors(vectors, (x.shape[1],), dtype):
        return None
    if (mean is None or var is None) and not (training and mean is None and var is None):
        return None
    kept = x.shape[1] if training else 0
    return empty_like(x), empty((kept,), dtype), empty((kept,), dtype)


def _layer_norm(
    x: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, ...] | None:
    shape = tuple(normalized_shape)
    rank = x.dim() - len(shape)
    if x.dtype not in FAST_DTYPES or not x.is_contiguous() or tuple(x.shape[rank:]) != shape or rank < 0:
        return None
    if not are_vectors((weight, bias), shape, x.dtype):
        return None
    rows = (*x.shape[:rank], *[1] * len(shape))
    return empty_like(x), empty(rows, x.dtype), empty(rows, x.dtype)


def _group_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    batch: int,
    channels: int,
    positions: int,
    groups: int,
    eps: float,
) -> tuple[Tensor, ...] | None:
    dtype = _dtype_of((weight, bias), x)
    if dtype is None or not is_contiguous(x) or x.dim() < 2 or groups < 1 or channels % groups:
        return None
    if tuple(x.shape[:2]) != (batch, channels) or x.numel() != batch * channels * positions:
        return None
    if not are_vectors((weight, bias), (channels,), dtype):
        return None
    return empty_like(x), empty((batch, groups), dtype), empty((batch, groups), dtype)


FAST_KERNELS: Mapping[str, Callable[..., Any]] = {
    **POINTWISE,
    **ARRANGING,
    **GRADIENTS,
    **INTERPOLATION,
    "aten::mm": mm,
    "aten::addmm": addmm,
    "aten::bmm": bmm,
    "aten::baddbmm": baddbmm,
    "aten::convolution": convolution,
    "aten::convolution_backward": convolution_backward,
    "aten::_scaled_dot_product_flash_attention_for_cpu": flash_attention,
    "aten::native_batch_norm": _batch_norm,
    "aten::native_layer_norm": _layer_norm,
    "aten::native_group_norm": _group_norm,
    "aten::mkldnn_rnn_layer": lstm_layer,
    "aten::mkldnn_rnn_layer_backward": lstm_layer_backward,
}
"""Functions that return the result of an operator on meta tensors, or None, by its name in the schema and overload."""

WITHOUT_META_KERNEL = frozenset(("aten::_fused_sgd_", "aten::_fused_adagrad_", "aten::_fused_adamw_"))
"""Operators on lists of tensors that write to their operands, return nothing, and have no kernel for meta tensors."""


def unless_on_meta(run: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs one of these operators, which on meta tensors does nothing."""

    def run_unless_on_meta(parameters: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
        if not any(parameter.is_meta for parameter in parameters):
            run(parameters, *args, **kwargs)

    return run_unless_on_meta
