"""Empty meta tensors in plain layouts, made without the kernels of PyTorch that are written in Python.

The first of those kernels that runs in a process imports sympy, and most import the compiler: 0.4 s and 1 s.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from .operands import META, broadcasts

FLOATS = frozenset((torch.float32, torch.float64, torch.bfloat16, torch.float16))
"""The dtypes that results have whose operands all have them."""

_CHANNELS_LAST = torch.channels_last

INDICES = frozenset((torch.int64, torch.int32))


def empty(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Return an empty contiguous tensor."""
    return torch.empty(tuple(shape), dtype=dtype, device=META)


def empty_like(x: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Return an empty tensor of the shape and strides of ``x``."""
    return torch.empty_strided(x.shape, x.stride(), dtype=dtype or x.dtype, device=META)


def is_contiguous(x: Tensor) -> bool:
    """Return whether ``x`` has elements and the strides of a new tensor, those of axes of length 1 included.

    PyTorch's own ``is_contiguous`` ignores these; its kernels do not agree on what they become.
    """
    return 0 not in x.shape and x.is_contiguous() and x.stride() == empty(x.shape, x.dtype).stride()


def is_dense(x: Tensor) -> bool:
    """Return whether ``x`` is contiguous, or an image with the channels last and no axis of length 0 or 1."""
    return is_contiguous(x) or (x.dim() == 4 and min(x.shape) > 1 and x.is_contiguous(memory_format=_CHANNELS_LAST))


def keeps_strides(x: Tensor) -> bool:
    """Return whether a function of every element has the strides of ``x``: it is dense, with its axes in any order."""
    return is_dense(x) or (_has_one_order(x) and _in_order_of(x, x.dtype).stride() == x.stride())


def is_writable(x: Tensor) -> bool:
    """Return whether every element of ``x`` has a location of its own in memory, by its strides."""
    return 0 not in x.shape and 0 not in x.stride()


def _has_one_order(x: Tensor) -> bool:
    """Return whether the strides of ``x`` determine the order of its axes in memory."""
    steps = x.stride()
    return x.dim() > 0 and min(x.shape) > 1 and min(steps) > 0 and len({*steps}) == len(steps)


def _in_order_of(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Return an empty dense tensor with the shape of ``x``, and its axes in the same order."""
    order = sorted(range(x.dim()), key=lambda axis: -x.stride()[axis])
    return torch.empty_permuted(x.shape, order, dtype=dtype, device=META)


def _is_in_order(x: Tensor) -> bool:
    """Return whether ``x`` is contiguous, whatever the stride of a first axis of length 1 but for a smaller one."""
    has_order = all(a >= b for a, b in pairwise(x.stride()))
    return x.is_contiguous() and has_order and not {0, 1} & {*x.shape[1:]}


def joined(x: Tensor, y: Tensor, dtype: torch.dtype) -> Tensor | None:
    """Return the empty result of an element-wise operator on two tensors; None if its layout is not plain."""
    if x.shape == y.shape and x.stride() == y.stride():
        return empty_like(x, dtype) if is_dense(x) else _in_order_of(x, dtype) if _has_one_order(x) else None
    if x.shape == y.shape and _has_one_order(x) and min(y.stride()) > 0:
        return _in_order_of(x, dtype)
    if x.shape == y.shape and (is_contiguous(x) or is_contiguous(y)) and _is_in_order(x) and _is_in_order(y):
        return empty(x.shape, dtype)
    if not (is_contiguous(x) and is_contiguous(y)):
        return None
    larger, smaller = (x, y) if broadcasts(y.shape, x.shape) else (y, x)
    return empty(larger.shape, dtype) if broadcasts(smaller.shape, larger.shape) else None
