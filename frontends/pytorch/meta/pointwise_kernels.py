"""Empty meta tensors in the layouts of PyTorch's results, and fast replacements of element-wise meta kernels.

See :mod:`.fast_kernels`. If a replacement returns None, PyTorch's own kernel runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from .values import META, broadcasts

# Empty meta tensors in plain layouts


FLOATS = frozenset((torch.float32, torch.float64, torch.bfloat16, torch.float16))
"""Floating-point dtypes: if all operands have the same one, so does the result."""

_CHANNELS_LAST = torch.channels_last

INDICES = frozenset((torch.int64, torch.int32))


def empty(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Return an empty contiguous tensor."""
    return torch.empty(tuple(shape), dtype=dtype, device=META)


def empty_like(x: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Return an empty tensor of the shape and strides of ``x``."""
    return torch.empty_strided(x.shape, x.stride(), dtype=dtype or x.dtype, device=META)


def is_contiguous(x: Tensor) -> bool:
    """Return whether ``x`` has elements, and exactly the strides of a new tensor, also along axes of length 1.

    PyTorch's ``is_contiguous`` ignores axes of length 1, and its kernels give these axes different strides.
    """
    return 0 not in x.shape and x.is_contiguous() and x.stride() == empty(x.shape, x.dtype).stride()


def has_plain_layout(x: Tensor) -> bool:
    """Return whether ``x`` is contiguous, or an image with the channels last and no axis of length 0 or 1."""
    return is_contiguous(x) or (x.dim() == 4 and min(x.shape) > 1 and x.is_contiguous(memory_format=_CHANNELS_LAST))


def keeps_strides(x: Tensor) -> bool:
    """Return whether element-wise results have the strides of ``x``: it has no gaps; its axes may be in any order."""
    return has_plain_layout(x) or (has_one_order(x) and _in_order_of(x, x.dtype).stride() == x.stride())


def is_dense(x: Tensor) -> bool:
    """Return whether ``x`` has no gaps and no overlaps, whatever the strides of axes of length 1."""
    steps = sorted((step, size) for step, size in zip(x.stride(), x.shape, strict=True) if size > 1)
    expected = 1
    for step, size in steps:
        if step != expected:
            return False
        expected *= size
    return 0 not in x.shape


def is_writable(x: Tensor) -> bool:
    """Return whether no two elements of ``x`` share memory, by its strides."""
    return 0 not in x.shape and 0 not in x.stride()


def into(kernel: Callable[..., Tensor | None]) -> Callable[..., Tensor | None]:
    """Return the kernel of an operator that writes the result of ``kernel`` to ``out``."""

    def run(*args: Any, out: Tensor, **options: Any) -> Tensor | None:
        result = kernel(*args, **options)
        fits = result is not None and (result.shape, result.dtype) == (out.shape, out.dtype)
        return out if fits and is_writable(out) else None

    return run


def has_one_order(x: Tensor) -> bool:
    """Return whether the strides of ``x`` determine the order of its axes."""
    sizes, steps = x.shape, x.stride()
    if not sizes or min(sizes) < 1 or min(steps) < 1:
        return False
    if min(sizes) > 1:
        return len({*steps}) == len(steps)
    # PyTorch ignores the strides of axes of length 1 in a contiguous tensor, and in no other.
    is_plain = x.is_contiguous() or (len(sizes) == 4 and x.is_contiguous(memory_format=_CHANNELS_LAST))
    return not is_plain and len(sizes) < 5 and len({*zip(steps, sizes, strict=True)}) == len(steps)


def _in_order_of(x: Tensor, dtype: torch.dtype) -> Tensor:
    # If two axes have equal strides, the longer one is the outer one.
    order = sorted(range(x.dim()), key=lambda axis: (-x.stride()[axis], -x.shape[axis]))
    return torch.empty_permuted(x.shape, order, dtype=dtype, device=META)


def _is_in_order(x: Tensor) -> bool:
    # A first axis of length 1 may have any stride that is not smaller than the next.
    has_order = all(a >= b for a, b in pairwise(x.stride()))
    return x.is_contiguous() and has_order and not {0, 1} & {*x.shape[1:]}


def _plain(dtype: torch.dtype, *tensors: Tensor) -> Tensor | None:
    """Return the empty result of an element-wise operator on tensors of one shape, if they all have one plain layout.

    PyTorch ignores their strides along axes of length 1. Its Python kernels for the meta device do not.
    """
    shape = tensors[0].shape
    if 0 in shape:
        return None
    if all(x.is_contiguous() for x in tensors):
        return empty(shape, dtype)
    if len(shape) == 4 and all(x.is_contiguous(memory_format=_CHANNELS_LAST) for x in tensors):
        return torch.empty(shape, dtype=dtype, device=META, memory_format=_CHANNELS_LAST)
    return None


def joined(x: Tensor, y: Tensor, dtype: torch.dtype) -> Tensor | None:
    """Return the empty result of an element-wise operator on two tensors; None if its layout is not plain."""
    if x.shape == y.shape and (plain := _plain(dtype, x, y)) is not None:
        return plain
    if x.shape == y.shape and x.stride() == y.stride():
        return empty_like(x, dtype) if has_plain_layout(x) else _in_order_of(x, dtype) if has_one_order(x) else None
    if min(x.shape, default=0) > 1 and has_one_order(x) and broadcasts(y.shape, x.shape):
        return _in_order_of(x, dtype)  # the first operand decides, whatever the strides of the second
    if x.shape == y.shape and (is_contiguous(x) or is_contiguous(y)) and _is_in_order(x) and _is_in_order(y):
        return empty(x.shape, dtype)
    if not (is_contiguous(x) and is_contiguous(y)):
        return None
    rank = max(x.dim(), y.dim())
    sizes = [*zip(*((1,) * (rank - each.dim()) + tuple(each.shape) for each in (x, y)), strict=True)]
    return empty([max(pair) for pair in sizes], dtype) if all(a == b or 1 in (a, b) for a, b in sizes) else None


# Element-wise operators


_UNARY = """
relu sigmoid tanh silu mish gelu elu leaky_relu hardtanh hardswish hardsigmoid
neg abs exp log sqrt rsqrt reciprocal erf sin cos
log1p log2 expm1 floor ceil round sign tan clamp clamp_min clamp_max celu
"""

_WHOLE = ("add", "sub", "mul")
"""Arithmetic whose results on integers are integers."""

_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


def unary(x: Tensor, *_: Any, **__: Any) -> Tensor | None:
    """Return the empty result of an element-wise function."""
    if x.dtype not in FLOATS:
        return None
    plain = _plain(x.dtype, x)
    return _with_number(x, x.dtype) if plain is None else plain


def _with_number(x: Tensor, dtype: torch.dtype) -> Tensor | None:
    # PyTorch takes a number as a 0-d tensor. The result then has the axes in the order of the strides of ``x``.
    if 0 in x.shape or 0 in x.stride():
        return None
    return empty(x.shape, dtype) if is_contiguous(x) else _in_order_of(x, dtype) if is_dense(x) else None


def whole_unary(x: Tensor) -> Tensor | None:
    """Return the result of :func:`unary`, and for integer tensors an integer result."""
    return unary(x) if x.dtype not in INDICES else empty_like(x) if has_plain_layout(x) else None


def unary_in_place(x: Tensor, *_: Any, **__: Any) -> Tensor | None:
    """Return the operand, which the operator writes to."""
    return x if x.dtype in FLOATS and is_writable(x) else None


def like(x: Tensor, *_: Any, **options: Any) -> Tensor | None:
    """Return an empty tensor like ``x``, for ``zeros_like`` and similar, if no option changes its dtype or layout."""
    given = {name for name, value in options.items() if value is not None and value is not False}
    is_same = given <= {"device", "dtype", "memory_format"} and options.get("dtype") in (None, x.dtype)
    is_kept = options.get("memory_format") in (None, torch.preserve_format)
    is_here = options.get("device") is None or torch.device(options["device"]).type == "meta"
    if not (is_same and is_kept and is_here) or 0 in x.shape:
        return None
    return empty_like(x) if is_dense(x) else None


def drawn_like(x: Tensor, **options: Any) -> Tensor | None:
    """Return the result of :func:`like`, for random numbers."""
    return like(x, **options) if x.dtype in FLOATS else None


def arithmetic(x: Tensor, y: Tensor | float, *, alpha: float = 1) -> Tensor | None:
    """Return the empty result of arithmetic between a floating-point tensor and another one, or a number."""
    if not _is_float(x) or type(alpha) not in (int, float):
        return None
    if isinstance(y, Tensor):
        if y.dtype == x.dtype:
            return joined(x, y, x.dtype)
        return joined(x, y, torch.promote_types(x.dtype, y.dtype)) if _is_float(y) and x.dim() and y.dim() else None
    return _with_number(x, x.dtype) if type(y) in (int, float) else None


def prelu(x: Tensor, weight: Tensor) -> Tensor | None:
    """Return an empty tensor like ``x``, for a weight of the same dtype that broadcasts to it."""
    fits = x.dtype in FLOATS and weight.dtype == x.dtype and broadcasts(weight.shape, x.shape)
    return empty_like(x) if fits and is_dense(x) else None


def whole_arithmetic(x: Tensor, y: Tensor | float, alpha: float = 1) -> Tensor | None:
    """Return the result of :func:`arithmetic`, also for two integer tensors, or a mask and a tensor.

    The result has the wider dtype.
    """
    if isinstance(x, Tensor) and x.dtype is torch.bool and isinstance(y, Tensor) and y.dtype in (*FLOATS, *INDICES):
        return joined(x, y, y.dtype) if x.dim() and y.dim() and type(alpha) is int else None
    if not isinstance(x, Tensor) or x.dtype not in INDICES or type(alpha) is not int:
        return arithmetic(x, y, alpha=alpha)
    if isinstance(y, Tensor):
        are_whole = y.dtype in INDICES and bool(x.dim() and y.dim())  # a 0-d tensor does not affect the dtype
        return joined(x, y, torch.promote_types(x.dtype, y.dtype)) if are_whole else None
    return empty_like(x) if type(y) is int and has_plain_layout(x) else None


def difference(x: Tensor, y: Tensor | float, alpha: float = 1) -> Tensor | None:
    """Return the result of :func:`whole_arithmetic`; masks cannot be subtracted."""
    is_mask = any(isinstance(each, Tensor) and each.dtype is torch.bool for each in (x, y))
    return None if is_mask else whole_arithmetic(x, y, alpha)


def arithmetic_in_place(x: Tensor, y: Tensor | float, *, alpha: float = 1) -> Tensor | None:
    """Return the operand, which the operator writes to."""
    if not _is_float(x) or not is_writable(x) or type(alpha) not in (int, float):
        return None
    fits = y.dtype == x.dtype and broadcasts(y.shape, x.shape) if isinstance(y, Tensor) else type(y) in (int, float)
    return x if fits else None


def whole_arithmetic_in_place(x: Tensor, y: Tensor | float, alpha: float = 1) -> Tensor | None:
    """Return the result of :func:`arithmetic_in_place`, also for integers."""
    if x.dtype not in INDICES or type(alpha) is not int:
        return arithmetic_in_place(x, y, alpha=alpha)
    fits = y.dtype == x.dtype and broadcasts(y.shape, x.shape) if isinstance(y, Tensor) else type(y) is int
    return x if fits and has_plain_layout(x) else None


def divide(x: Tensor, y: float) -> Tensor | None:
    """Return the empty quotient of a floating-point tensor, which may be expanded, and a number."""
    if not _is_float(x) or type(y) not in (int, float):
        return None
    steps = [step for step in x.stride() if step]
    is_expanded = 0 not in x.shape and all(a > b for a, b in pairwise(steps))
    return empty_like(x) if has_plain_layout(x) else empty(x.shape, x.dtype) if is_expanded else None


def combine_in_place(x: Tensor, y: Tensor, z: Tensor | float, *, value: float = 1) -> Tensor | None:
    """Return the operand that ``addcmul_`` and similar write to; optimizers use these operators."""
    if not _is_float(x) or not has_plain_layout(x) or type(value) not in (int, float):
        return None
    tensors = (y, z) if isinstance(z, Tensor) else (y,)
    return x if all(other.dtype == x.dtype and other.shape == x.shape for other in tensors) else None


def power(x: Tensor, exponent: float) -> Tensor | None:
    """Return the empty power of every element."""
    return empty_like(x) if _is_float(x) and has_plain_layout(x) and type(exponent) in (int, float) else None


def comparison(x: Tensor, y: Tensor | float) -> Tensor | None:
    """Return the empty result of a comparison with a tensor of the same dtype, or with a number."""
    if isinstance(y, Tensor):
        return joined(x, y, torch.bool) if isinstance(x, Tensor) and y.dtype == x.dtype else None
    is_plain = type(y) in (int, float) if _is_float(x) else type(y) is int and x.dtype in INDICES
    return _with_number(x, torch.bool) if is_plain else None


def masked_fill(x: Tensor, mask: Tensor, value: float) -> Tensor | None:
    """Return an empty tensor like ``x``, for a mask that broadcasts to it."""
    if not _is_float(x) or mask.dtype is not torch.bool or type(value) not in (int, float):
        return None
    is_plain = is_contiguous(x) and is_contiguous(mask) and broadcasts(mask.shape, x.shape)
    return empty_like(x) if is_plain else None


def test(x: Tensor) -> Tensor | None:
    """Return the empty mask of a test of every element."""
    return empty_like(x, torch.bool) if has_plain_layout(x) and x.dtype in (*FLOATS, *INDICES, torch.bool) else None


def negation(x: Tensor) -> Tensor | None:
    """Return an empty mask like ``x``."""
    return test(x) if x.dtype is torch.bool else None


def logic(x: Tensor, y: Tensor) -> Tensor | None:
    """Return the empty result of logic on two masks."""
    return joined(x, y, torch.bool) if x.dtype is y.dtype is torch.bool else None


def where(mask: Tensor, x: Tensor, y: Tensor) -> Tensor | None:
    """Return the empty result of a choice between two tensors of the same dtype, or a tensor and a number."""
    chosen = y if x.dim() == 0 else x
    is_plain = x.dtype == y.dtype or (_is_float(x) and _is_float(y) and x.dim() * y.dim() == 0 < chosen.dim())
    if mask.dtype is not torch.bool or not is_plain or not all(map(is_contiguous, (mask, x, y))):
        return None
    shape = max(mask.shape, x.shape, y.shape, key=lambda each: (len(each), each.numel()))
    return empty(shape, chosen.dtype) if all(broadcasts(each.shape, shape) for each in (mask, x, y)) else None


def _is_float(x: object) -> bool:
    return isinstance(x, Tensor) and x.dtype in FLOATS


POINTWISE: Mapping[str, Callable[..., Any]] = {
    **{f"aten::{name}": unary for name in _UNARY.split()},
    **{f"aten::{name}_": unary_in_place for name in _UNARY.split()},
    **{f"aten::{name}": whole_unary for name in ("neg", "abs")},
    "aten::softplus": unary,
    "aten::_prelu_kernel": prelu,
    "aten::maximum": whole_arithmetic,
    "aten::minimum": whole_arithmetic,
    **{f"aten::{name}": test for name in ("isnan", "isinf", "logical_not")},
    "aten::bitwise_not": negation,
    **{f"aten::{name}_like": like for name in ("empty", "zeros", "ones", "full")},
    **{f"aten::{name}_like": drawn_like for name in ("rand", "randn")},
    **{f"aten::{name}.Tensor": whole_arithmetic for name in _WHOLE},
    "aten::sub.Tensor": difference,
    **{f"aten::{name}_.Tensor": whole_arithmetic_in_place for name in _WHOLE},
    **{f"aten::{name}.Scalar": whole_arithmetic for name in _WHOLE},
    **{f"aten::{name}_.Scalar": whole_arithmetic_in_place for name in _WHOLE},
    **{f"aten::{name}.out": into(arithmetic) for name in ("mul", "div")},
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
    "aten::where.self": where,
    **{f"aten::{name}": logic for name in ("bitwise_and.Tensor", "bitwise_or.Tensor", "logical_and", "logical_or")},
}
"""Replacements by operator and overload."""
