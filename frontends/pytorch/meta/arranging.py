"""Reductions, windows and data movement on the meta device: the shapes that PyTorch's own kernels give.

Each function returns None unless its operands plainly fit, so that PyTorch decides about everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from .plain_layouts import FLOATS, INDICES, empty, empty_like, is_contiguous, is_dense


def reduction(
    x: Tensor, dim: Sequence[int] | None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Tensor | None:
    """Return the empty sum or mean of a contiguous tensor along some axes."""
    if x.dtype not in FLOATS or not is_contiguous(x) or dtype not in (None, x.dtype) or not dim or not x.dim():
        return None
    axes = {axis % x.dim() for axis in dim if -x.dim() <= axis < x.dim()}
    if len(axes) != len(dim):
        return None
    sizes = [1 if i in axes else size for i, size in enumerate(x.shape) if keepdim or i not in axes]
    return empty(sizes, x.dtype)


def softmax(x: Tensor, dim: int, half_to_float: bool) -> Tensor | None:
    """Return an empty tensor like ``x``."""
    is_plain = x.dtype in (torch.float32, torch.float64) and is_contiguous(x) and not half_to_float
    return empty_like(x) if is_plain and -x.dim() <= dim < x.dim() else None


def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor | None:
    """Return the empty concatenation of tensors of one dtype; those of images must be contiguous."""
    first = tensors[0] if len(tensors) else None
    if first is None or not first.dim() or not -first.dim() <= dim < first.dim():
        return None
    if any(x.dtype != first.dtype or x.dim() != first.dim() or not (x.dim() < 4 or is_contiguous(x)) for x in tensors):
        return None
    dim %= first.dim()
    if any(0 in x.shape or [*x.shape[:dim], *x.shape[dim + 1 :]] != _others(first, dim) for x in tensors):
        return None
    return empty((*first.shape[:dim], sum(x.shape[dim] for x in tensors), *first.shape[dim + 1 :]), first.dtype)


def clone(x: Tensor, *, memory_format: torch.memory_format | None = None) -> Tensor | None:
    """Return an empty tensor like ``x``, or contiguous if asked for."""
    if memory_format is torch.contiguous_format and 0 not in x.shape:
        return empty(x.shape, x.dtype)
    return empty_like(x) if memory_format in (None, torch.preserve_format) and is_dense(x) else None


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor | None:
    """Return contiguous tensors of one shape and dtype, empty, along a new axis."""
    first = tensors[0] if len(tensors) else None
    if first is None or not -first.dim() - 1 <= dim <= first.dim() or 0 in first.shape:
        return None
    if any(x.dtype != first.dtype or x.shape != first.shape or not is_contiguous(x) for x in tensors):
        return None
    dim %= first.dim() + 1
    return empty((*first.shape[:dim], len(tensors), *first.shape[dim:]), first.dtype)


def embedding(
    weight: Tensor,
    indices: Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor | None:
    """Return empty rows of a table."""
    is_plain = weight.dim() == 2 and weight.dtype in FLOATS and weight.is_contiguous() and indices.dtype in INDICES
    return empty((*indices.shape, weight.shape[1]), weight.dtype) if is_plain and indices.is_contiguous() else None


def arange(end: int, **options: Any) -> Tensor | None:
    """Return an empty tensor of the integers below ``end``."""
    dtype = options.pop("dtype", None) or torch.int64
    device = options.pop("device", None)
    is_meta = device is not None and torch.device(device).type == "meta"
    if type(end) is not int or end < 0 or dtype is not torch.int64 or not is_meta or any(options.values()):
        return None
    return empty((end,), dtype)


def filled(sizes: Sequence[int], *, dtype: torch.dtype | None = None, **options: Any) -> Tensor | None:
    """Return an empty tensor, for ``zeros`` and ``ones``."""
    device = options.pop("device", None)
    is_meta = device is not None and torch.device(device).type == "meta"
    if not is_meta or any(options.values()) or any(type(size) is not int or size < 0 for size in sizes):
        return None
    return empty(sizes, dtype or torch.get_default_dtype())


def max_pool2d(
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> tuple[Tensor, Tensor] | None:
    """Return the empty maxima of windows, and their empty indices."""
    sizes = window_counts(x, kernel, stride, padding, dilation, ceil_mode)
    if sizes is None:
        return None
    return empty((*x.shape[:-2], *sizes), x.dtype), empty((*x.shape[:-2], *sizes), torch.int64)


def avg_pool2d(
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor | None:
    """Return the empty means of windows."""
    sizes = window_counts(x, kernel, stride, padding, (1,), ceil_mode)
    return None if sizes is None or divisor_override is not None else empty((*x.shape[:-2], *sizes), x.dtype)


def adaptive_avg_pool2d(x: Tensor, sizes: Sequence[int]) -> Tensor | None:
    """Return the empty means of as many windows as asked for."""
    is_plain = x.dim() == 4 and x.dtype in FLOATS and is_contiguous(x)
    return empty((*x.shape[:-2], *sizes), x.dtype) if is_plain and len(sizes) == 2 and min(sizes) > 0 else None


def roll(x: Tensor, shifts: Sequence[int], dims: Sequence[int] = ()) -> Tensor | None:
    """Return an empty tensor like ``x``."""
    is_plain = is_contiguous(x) and len(shifts) == len(dims) > 0
    return empty_like(x) if is_plain and all(-x.dim() <= dim < x.dim() for dim in dims) else None


def _others(x: Tensor, dim: int) -> list[int]:
    return [*x.shape[:dim], *x.shape[dim + 1 :]]


def window_counts(x: Tensor, *settings: Any) -> list[int] | None:
    """Return how many windows fit along both axes of a contiguous batch of images; None if PyTorch may refuse them."""
    kernel, stride, padding, dilation, ceil_mode = settings
    is_plain = x.dim() == 4 and x.dtype in FLOATS and is_contiguous(x)
    values = [[*v] * (2 // len(v)) for v in (kernel, stride or kernel, padding, dilation) if len(v) in (1, 2)]
    if not is_plain or len(values) != 4:
        return None
    counts = [_window_count(ceil_mode, *axis) for axis in zip(x.shape[2:], *values, strict=True)]
    return counts if min(counts) > 0 else None


def _window_count(ceil_mode: bool, size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    if min(kernel, stride, dilation) < 1 or not 0 <= padding <= kernel // 2:
        return 0
    span = size + 2 * padding - dilation * (kernel - 1) - 1
    count = (span + (stride - 1 if ceil_mode else 0)) // stride + 1
    starts_outside = ceil_mode and (count - 1) * stride >= size + padding
    return count - 1 if starts_outside else count


ARRANGING: Mapping[str, Callable[..., Any]] = {
    "aten::mean.dim": reduction,
    "aten::sum.dim_IntList": reduction,
    "aten::_softmax": softmax,
    "aten::_log_softmax": softmax,
    "aten::cat": cat,
    "aten::clone": clone,
    "aten::stack": stack,
    "aten::embedding": embedding,
    "aten::arange": arange,
    "aten::zeros": filled,
    "aten::ones": filled,
    "aten::roll": roll,
    "aten::max_pool2d_with_indices": max_pool2d,
    "aten::avg_pool2d": avg_pool2d,
    "aten::_adaptive_avg_pool2d": adaptive_avg_pool2d,
}
"""Functions by the operator with its overload."""
