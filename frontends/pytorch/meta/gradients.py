"""Operators of backward passes on the meta device: the shapes, dtypes and strides that PyTorch's own kernels give.

Each function returns None unless its operands plainly fit, so that PyTorch decides about everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from .arranging import window_counts
from .plain_layouts import INDICES, empty, empty_like, is_contiguous, is_dense

_UNARY = "threshold gelu silu hardtanh hardswish hardsigmoid leaky_relu sigmoid tanh"
_PLAIN_FLOATS = frozenset((torch.float32, torch.float64))

HALVES = frozenset((torch.bfloat16, torch.float16))
"""Dtypes that a normalization accepts together with parameters in float32."""


def unary_backward(gradient: Tensor, x: Tensor, *_: Any, **__: Any) -> Tensor | None:
    """Return the empty gradient of a function of every element."""
    is_plain = gradient.dtype in _PLAIN_FLOATS and gradient.dtype == x.dtype and gradient.shape == x.shape
    return empty_like(x) if is_plain and gradient.stride() == x.stride() and is_dense(x) else None


def softmax_backward(gradient: Tensor, result: Tensor, dim: int, dtype: torch.dtype) -> Tensor | None:
    """Return the empty gradient of softmax or log_softmax."""
    is_plain = gradient.dtype == result.dtype == dtype and _are_plain(gradient, result)
    return empty_like(result) if is_plain and -result.dim() <= dim < result.dim() else None


def batch_norm_backward(
    gradient: Tensor,
    x: Tensor,
    weight: Tensor | None,
    mean: Tensor | None,
    var: Tensor | None,
    saved_mean: Tensor | None,
    saved_scale: Tensor | None,
    training: bool,
    eps: float,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, ...] | None:
    """Return the empty gradients of input, weight and bias after training, as far as ``output_mask`` asks for them."""
    if x.dim() < 2 or not training or not output_mask[0] or not _are_plain(gradient, x):
        return None
    features = (x.shape[1],)
    vectors = (weight, mean, var, saved_mean, saved_scale)
    if saved_mean is None or saved_scale is None or not are_vectors(vectors, features, x.dtype):
        return None
    return empty(x.shape, x.dtype), *(empty(features, x.dtype) if wanted else None for wanted in output_mask[1:])


def layer_norm_backward(
    gradient: Tensor,
    x: Tensor,
    normalized_shape: Sequence[int],
    mean: Tensor,
    scale: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, ...] | None:
    """Return the empty gradients of input, weight and bias, as far as ``output_mask`` asks for them.

    They are contiguous, as on a CPU; PyTorch's own kernel for the meta device keeps the strides of the gradient, and
    up to PyTorch 2.9 gives weights in float32 gradients of the dtype of the input.
    """
    shape = tuple(normalized_shape)
    rank = x.dim() - len(shape)
    of_weights = torch.float32 if x.dtype in HALVES else x.dtype
    is_float = of_weights in _PLAIN_FLOATS and gradient.dtype == x.dtype
    is_plain = is_float and gradient.shape == x.shape and 0 not in x.shape
    if not is_plain or not shape or rank < 1 or tuple(x.shape[rank:]) != shape:
        return None
    rows = (*x.shape[:rank], *[1] * len(shape))
    if not are_vectors((mean, scale), rows, of_weights) or not are_vectors((weight, bias), shape, of_weights):
        return None
    if any(wanted and learned is None for wanted, learned in zip(output_mask[1:], (weight, bias), strict=True)):
        return None
    made = ((tuple(x.shape), x.dtype), (shape, of_weights), (shape, of_weights))
    return tuple(empty(*each) if wanted else None for each, wanted in zip(made, output_mask, strict=True))


def group_norm_backward(
    gradient: Tensor,
    x: Tensor,
    mean: Tensor,
    scale: Tensor,
    weight: Tensor | None,
    batch: int,
    channels: int,
    positions: int,
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, ...] | None:
    """Return the empty gradients of input, weight and bias, as far as ``output_mask`` asks for them.

    A CPU keeps the dtype of an input in lower precision, where PyTorch's own kernel returns that of the weight.
    """
    if not _are_plain(gradient, x, _PLAIN_FLOATS | HALVES) or x.dim() < 2 or groups < 1 or channels % groups:
        return None
    if tuple(x.shape[:2]) != (batch, channels) or x.numel() != batch * channels * positions:
        return None
    if not are_vectors((mean, scale), (batch, groups), mean.dtype) or mean.dtype not in (x.dtype, torch.float32):
        return None
    if not are_vectors((weight,), (channels,), mean.dtype):
        return None
    vector = (channels,), mean.dtype
    gradients = (tuple(x.shape), x.dtype), vector, vector
    return tuple(empty(*each) if wanted else None for each, wanted in zip(gradients, output_mask, strict=True))


def max_pool2d_backward(
    gradient: Tensor,
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    indices: Tensor,
) -> Tensor | None:
    """Return the empty gradient of the input of a pooling."""
    counts = window_counts(x, kernel, stride, padding, dilation, ceil_mode)
    if counts is None or indices.dtype is not torch.int64 or not is_contiguous(indices) or not _are_float(gradient, x):
        return None
    pooled = (*x.shape[:-2], *counts)
    is_plain = tuple(gradient.shape) == pooled == tuple(indices.shape) and is_contiguous(gradient)
    return empty(x.shape, x.dtype) if is_plain else None


def embedding_backward(
    gradient: Tensor, indices: Tensor, rows: int, padding_idx: int, scale_grad_by_freq: bool
) -> Tensor | None:
    """Return the empty gradient of a table."""
    is_plain = gradient.dtype in _PLAIN_FLOATS and is_contiguous(gradient) and indices.dtype in INDICES
    if not is_plain or not is_contiguous(indices) or gradient.shape[:-1] != indices.shape or scale_grad_by_freq:
        return None
    return empty((rows, gradient.shape[-1]), gradient.dtype)


def select_backward(gradient: Tensor, sizes: Sequence[int], dim: int, index: int) -> Tensor | None:
    """Return the empty gradient of a tensor of which one position along an axis was selected."""
    rank = len(sizes)
    if gradient.dtype not in _PLAIN_FLOATS or not -rank <= dim < rank or min(sizes) < 1:
        return None
    is_plain = -sizes[dim] <= index < sizes[dim] and gradient.shape == (*sizes[: dim % rank], *sizes[dim % rank + 1 :])
    return empty(sizes, gradient.dtype) if is_plain else None


def _are_float(gradient: Tensor, x: Tensor) -> bool:
    return x.dtype in _PLAIN_FLOATS and gradient.dtype == x.dtype


def _are_plain(gradient: Tensor, x: Tensor, dtypes: Collection[torch.dtype] = _PLAIN_FLOATS) -> bool:
    is_float = x.dtype in dtypes and gradient.dtype == x.dtype
    return is_float and gradient.shape == x.shape and is_contiguous(gradient) and is_contiguous(x)


def are_vectors(vectors: Sequence[Tensor | None], shape: tuple[int, ...], dtype: torch.dtype) -> bool:
    """Return whether all vectors that there are have a shape and a dtype."""
    return all(v is None or (tuple(v.shape) == shape and v.dtype == dtype) for v in vectors)


GRADIENTS: Mapping[str, Callable[..., Any]] = {
    **{f"aten::{name}_backward": unary_backward for name in _UNARY.split()},
    "aten::_softmax_backward_data": softmax_backward,
    "aten::_log_softmax_backward_data": softmax_backward,
    "aten::native_batch_norm_backward": batch_norm_backward,
    "aten::native_layer_norm_backward": layer_norm_backward,
    "aten::native_group_norm_backward": group_norm_backward,
    "aten::max_pool2d_with_indices_backward": max_pool2d_backward,
    "aten::embedding_dense_backward": embedding_backward,
    "aten::select_backward": select_backward,
}
"""Functions by the operator with its overload."""
