"""Element-wise operators on the meta device: the shapes, dtypes and strides that PyTorch's own kernels give.

Each function returns None unless its operands plainly fit, so that PyTorch decides about everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from .operands import broadcasts
from .plain_layouts import (
    FLOATS,
    INDICES,
    empty,
    empty_like,
    is_contiguous,
    is_dense,
    is_writable,
    joined,
    keeps_strides,
)

_UNARY = """
relu sigmoid tanh silu mish gelu elu leaky_relu hardtanh hardswish hardsigmoid
neg abs exp log sqrt rsqrt reciprocal erf sin cos
"""
_WHOLE = ("add", "sub", "mul")
"""Arithmetic whose results on integers are integers."""
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


def unary(x: Tensor, *_: Any, **__: Any) -> Tensor | None:
    """Return the empty result of a function of every element."""
    return empty_like(x) if _is_plain_float(x) else None


def unary_in_place(x: Tensor, *_: Any, **__: Any) -> Tensor | None:
    """Return the operand, which the operator writes to."""
    return x if x.dtype in (torch.float32, torch.float64) and is_writable(x) else None


def like(x: Tensor, **options: Any) -> Tensor | None:
    """Return an empty tensor like ``x``, for ``zeros_like`` and the like without options that change it."""
    given = {name for name, value in options.items() if value is not None and value is not False}
    is_same = given <= {"device", "dtype", "memory_format"} and options.get("dtype") in (None, x.dtype)
    is_kept = options.get("memory_format") in (None, torch.preserve_format)
    is_here = options.get("device") is None or torch.device(options["device"]).type == "meta"
    return empty_like(x) if is_same and is_kept and is_here and is_dense(x) else None


def arithmetic(x: Tensor, y: Tensor | float, *, alpha: float = 1) -> Tensor | None:
    """Return the empty result of an arithmetic operator on floating-point operands of one dtype, or a number."""
    if not _is_float(x) or type(alpha) not in (int, float):
        return None
    if isinstance(y, Tensor):
        return joined(x, y, x.dtype) if y.dtype == x.dtype else None
    return empty_like(x) if type(y) in (int, float) and keeps_strides(x) else None


def whole_arithmetic(x: Tensor, y: Tensor | float, *, alpha: float = 1) -> Tensor | None:
    """Return the same as :func:`arithmetic`, also for integers and an integer."""
    is_whole = isinstance(x, Tensor) and x.dtype in INDICES and type(y) is type(alpha) is int
    return (empty_like(x) if is_dense(x) else None) if is_whole else arithmetic(x, y, alpha=alpha)


def arithmetic_in_place(x: Tensor, y: Tensor | float, *, alpha: float = 1) -> Tensor | None:
    """Return the operand, which the operator writes to."""
    if not _is_float(x) or not is_writable(x) or type(alpha) not in (int, float):
        return None
    fits = y.dtype == x.dtype and broadcasts(y.shape, x.shape) if isinstance(y, Tensor) else type(y) in (int, float)
    return x if fits else None


def whole_arithmetic_in_place(x: Tensor, y: Tensor | float, *, alpha: float = 1) -> Tensor | None:
    """Return the same as :func:`arithmetic_in_place`, also for integers and an integer."""
    is_whole = x.dtype in INDICES and type(y) is type(alpha) is int
    return (x if is_dense(x) else None) if is_whole else arithmetic_in_place(x, y, alpha=alpha)


def divide(x: Tensor, y: float) -> Tensor | None:
    """Return the empty quotient of a floating-point tensor, which may be expanded, and a number."""
    if not _is_float(x) or type(y) not in (int, float):
        return None
    steps = [step for step in x.stride() if step]
    is_expanded = 0 not in x.shape and all(a > b for a, b in pairwise(steps))
    return empty_like(x) if is_dense(x) else empty(x.shape, x.dtype) if is_expanded else None


def combine_in_place(x: Tensor, y: Tensor, z: Tensor | float, *, value: float = 1) -> Tensor | None:
    """Return the operand that ``addcmul_`` and the like write to, which a step of an optimizer does."""
    if not _is_float(x) or not is_dense(x) or type(value) not in (int, float):
        return None
    tensors = (y, z) if isinstance(z, Tensor) else (y,)
    return x if all(other.dtype == x.dtype and other.shape == x.shape for other in tensors) else None


def power(x: Tensor, exponent: float) -> Tensor | None:
    """Return the empty power of every element."""
    return empty_like(x) if _is_float(x) and is_dense(x) and type(exponent) in (int, float) else None


def comparison(x: Tensor, y: Tensor | float) -> Tensor | None:
    """Return the empty result of a comparison with a tensor of the same dtype, or of floating-point and a number."""
    if isinstance(y, Tensor):
        return joined(x, y, torch.bool) if isinstance(x, Tensor) and y.dtype == x.dtype else None
    is_plain = _is_float(x) and is_dense(x) and type(y) in (int, float)
    return empty_like(x, torch.bool) if is_plain else None


def masked_fill(x: Tensor, mask: Tensor, value: float) -> Tensor | None:
    """Return an empty tensor like ``x``, of which a mask selects elements."""
    if not _is_float(x) or mask.dtype is not torch.bool or type(value) not in (int, float):
        return None
    is_plain = is_contiguous(x) and is_contiguous(mask) and broadcasts(mask.shape, x.shape)
    return empty_like(x) if is_plain else None


def _is_float(x: object) -> bool:
    return isinstance(x, Tensor) and x.dtype in FLOATS


def _is_plain_float(x: Tensor) -> bool:
    return x.dtype in (torch.float32, torch.float64) and keeps_strides(x)


POINTWISE: Mapping[str, Callable[..., Any]] = {
    **{f"aten::{name}": unary for name in _UNARY.split()},
    **{f"aten::{name}_": unary_in_place for name in _UNARY.split()},
    "aten::softplus": unary,
    "aten::_prelu_kernel": arithmetic,
    **{f"aten::{name}_like": like for name in ("empty", "zeros", "ones")},
    **{f"aten::{name}.Tensor": whole_arithmetic for name in _WHOLE},
    **{f"aten::{name}_.Tensor": whole_arithmetic_in_place for name in _WHOLE},
    **{f"aten::{name}.Scalar": whole_arithmetic for name in _WHOLE},
    **{f"aten::{name}_.Scalar": whole_arithmetic_in_place for name in _WHOLE},
    "aten::div.Tensor": arithmetic,
    "aten::div_.Tensor": arithmetic_in_place,
    "aten::div_.Scalar": arithmetic_in_place,
    "aten::div.Scalar": divide,
    "aten::addcmul_": combine_in_place,
    "aten::addcdiv_": combine_in_place,
    "aten::lerp_.Scalar": combine_in_place,
    **{f"aten::{name}.{kind}": comparison for name in _COMPARISONS for kind in ("Tensor", "Scalar")},
    "aten::pow.Tensor_Scalar": power,
    "aten::masked_fill.Scalar": masked_fill,
}
"""Functions by the operator with its overload."""
