"""Fast replacements for meta kernels that PyTorch implements in Python.

PyTorch's kernels take a millisecond each, and the first call in a process may import sympy. Each replacement returns
*empty* results: meta tensors with the same shapes, dtypes and strides. It returns None for operands that it does not
support: PyTorch then runs the call, and raises the error if it is invalid.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from .pointwise_kernels import (
    FLOATS,
    INDICES,
    POINTWISE,
    empty,
    empty_like,
    has_one_order,
    has_plain_layout,
    into,
    is_contiguous,
    joined,
    keeps_strides,
)
from .replacements import has_channels_last, lstm_layer, lstm_layer_backward, with_channels_last
from .values import broadcasts

# Interpolation of images


_INTERPOLATIONS = ("nearest2d", "bilinear2d", "bicubic2d")


def upsample(x: Tensor, output_size: Sequence[int], *_: Any, **__: Any) -> Tensor | None:
    """Return the empty image, resized."""
    is_plain = x.dim() == 4 and x.dtype in FLOATS and is_contiguous(x) and len(output_size) == 2
    return empty((*x.shape[:2], *output_size), x.dtype) if is_plain and min(output_size) > 0 else None


def upsample_backward(
    gradient: Tensor, output_size: Sequence[int], input_size: Sequence[int], *_: Any, **__: Any
) -> Tensor | None:
    """Return the empty gradient of the image."""
    if gradient.dtype not in FLOATS or not is_contiguous(gradient) or len(input_size) != 4 or min(input_size) < 1:
        return None
    is_plain = tuple(gradient.shape) == (*input_size[:2], *output_size)
    return empty(input_size, gradient.dtype) if is_plain else None


INTERPOLATION: Mapping[str, Callable[..., Any]] = {
    **{f"aten::upsample_{name}": upsample for name in _INTERPOLATIONS},
    **{f"aten::upsample_{name}_backward": upsample_backward for name in _INTERPOLATIONS},
}
"""Replacements by operator and overload."""


# Reductions, windows and data movement


def reduction(
    x: Tensor, dim: Sequence[int] | None = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Tensor | None:
    """Return the empty sum or mean of a contiguous tensor along some axes."""
    if x.dtype not in FLOATS or not is_contiguous(x) or dtype not in (None, x.dtype) or not dim or not x.dim():
        return None
    axes = {axis % x.dim() for axis in dim if -x.dim() <= axis < x.dim()}
    if len(axes) != len(dim):
        return None
    sizes = [1 if i in axes else size for i, size in enumerate(x.shape) if keepdim or i not in axes]
    return empty(sizes, x.dtype)


def whole_reduction(x: Tensor, *, dtype: torch.dtype | None = None) -> Tensor | None:
    """Return the empty sum or mean of all elements."""
    return empty((), x.dtype) if x.dtype in FLOATS and dtype in (None, x.dtype) and 0 not in x.shape else None


def mask_reduction(x: Tensor, dim: int, keepdim: bool = False) -> Tensor | None:
    """Return the empty mask of ``any`` or ``all`` along an axis."""
    if x.dtype is not torch.bool or not is_contiguous(x) or not -x.dim() <= dim < x.dim():
        return None
    sizes = [1 if i == dim % x.dim() else size for i, size in enumerate(x.shape) if keepdim or i != dim % x.dim()]
    return empty(sizes, torch.bool)


def norm(x: Tensor, order: float = 2, dim: Sequence[int] | None = None, keepdim: bool = False, **options: Any) -> Any:
    """Return the empty norm of a contiguous tensor along some axes."""
    return reduction(x, dim, keepdim, **options) if order == 2 else None


def spread(
    x: Tensor, dim: Sequence[int] | None = None, *, correction: float | None = None, keepdim: bool = False
) -> Tensor | None:
    """Return the empty variance or standard deviation of a contiguous tensor along some axes."""
    return reduction(x, dim, keepdim) if type(correction) in (int, type(None)) else None


def softmax(x: Tensor, dim: int, half_to_float: bool | torch.dtype | None = None) -> Tensor | None:
    """Return an empty tensor like ``x``, if the last argument asks for no other dtype."""
    is_plain = x.dtype in (torch.float32, torch.float64) and is_contiguous(x) and not half_to_float
    return empty_like(x) if is_plain and -x.dim() <= dim < x.dim() else None


def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor | None:
    """Return the empty concatenation of tensors of one dtype; images must have the channels first."""
    dtypes = {x.dtype for x in tensors}
    tensors = [x for x in tensors if x.shape != (0,)]  # ``cat`` skips empty vectors
    first = tensors[0] if tensors else None
    if first is None or len(dtypes) > 1 or not first.dim() or not -first.dim() <= dim < first.dim():
        return None
    if any(x.dim() != first.dim() or not _has_channels_first(x) for x in tensors):
        return None
    dim %= first.dim()
    others = [*first.shape[:dim], *first.shape[dim + 1 :]]
    if any(0 in x.shape or [*x.shape[:dim], *x.shape[dim + 1 :]] != others for x in tensors):
        return None
    return empty((*first.shape[:dim], sum(x.shape[dim] for x in tensors), *first.shape[dim + 1 :]), first.dtype)


def _has_channels_first(x: Tensor) -> bool:
    return x.dim() < 4 or is_contiguous(x) or (x.dim() == 4 and 0 not in x.shape and x.stride()[1] > x.stride()[3] > 0)


def clone(x: Tensor, *, memory_format: torch.memory_format | None = None) -> Tensor | None:
    """Return an empty tensor like ``x``, or a contiguous one if requested."""
    if memory_format is torch.contiguous_format and 0 not in x.shape:
        return empty(x.shape, x.dtype)
    return empty_like(x) if memory_format in (None, torch.preserve_format) and keeps_strides(x) else None


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor | None:
    """Return the empty stack of contiguous tensors of one shape and dtype."""
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
    return empty((*indices.shape, weight.shape[1]), weight.dtype) if is_plain else None


def index(x: Tensor, indices: Sequence[Tensor | None]) -> Tensor | None:
    """Return the empty result of indexing adjacent axes by integer tensors."""
    axes = [axis for axis, each in enumerate(indices) if each is not None]
    given = [each for each in indices if each is not None]
    is_plain = is_contiguous(x) and 0 < len(axes) <= len(indices) <= x.dim() and axes[-1] - axes[0] < len(axes)
    if not is_plain or any(each.dtype not in INDICES or 0 in each.shape for each in given):
        return None
    rank = max(each.dim() for each in given)
    sizes = [*zip(*((1,) * (rank - each.dim()) + tuple(each.shape) for each in given), strict=True)]
    looked_up = [max(axis) for axis in sizes]
    if any({*axis} - {1, most} for axis, most in zip(sizes, looked_up, strict=True)):
        return None
    kept = (*x.shape[: axes[0]], *x.shape[axes[-1] + 1 :])  # the strides of axes of length 1 may be in another order
    return None if 1 in kept else empty((*kept[: axes[0]], *looked_up, *kept[axes[0] :]), x.dtype)


def index_select(x: Tensor, dim: int, index: Tensor) -> Tensor | None:
    """Return the empty rows of a contiguous tensor at a list of indices."""
    if not is_contiguous(x) or index.dim() != 1 or index.dtype not in INDICES or not -x.dim() <= dim < x.dim():
        return None
    dim %= x.dim()
    return empty((*x.shape[:dim], len(index), *x.shape[dim + 1 :]), x.dtype)


def ordered(x: Tensor, dim: int = -1, descending: bool = False) -> tuple[Tensor, Tensor] | None:
    """Return the empty values and indices of a contiguous tensor in order."""
    is_plain = is_contiguous(x) and x.dtype in (*FLOATS, *INDICES) and -x.dim() <= dim < x.dim()
    return (empty(x.shape, x.dtype), empty(x.shape, torch.int64)) if is_plain else None


def constant_pad(x: Tensor, pad: Sequence[int], value: float = 0) -> Tensor | None:
    """Return an empty tensor, padded along its last axes."""
    if x.dim() > 3 or not is_contiguous(x) or len(pad) % 2 or len(pad) > 2 * x.dim() or min(pad, default=-1) < 0:
        return None
    sizes = [*x.shape]
    for i in range(len(pad) // 2):
        sizes[-1 - i] += pad[2 * i] + pad[2 * i + 1]
    return empty(sizes, x.dtype)


def nll_loss(
    x: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> tuple[Tensor, Tensor] | None:
    """Return the empty loss of log-probabilities [n, classes], and the empty sum of weights."""
    if weight is not None or not _can_be_classified(x, target) or reduction not in range(3):
        return None
    return empty(() if reduction else target.shape, x.dtype), empty((), x.dtype)


def mse_loss(x: Tensor, target: Tensor, reduction: int = 1) -> Tensor | None:
    """Return the empty loss: a scalar, or one value per element."""
    is_plain = x.dtype in FLOATS and target.dtype == x.dtype and target.shape == x.shape
    if not is_plain or not (is_contiguous(x) and is_contiguous(target)):
        return None
    return empty(() if reduction else x.shape, x.dtype)


def mse_loss_backward(gradient: Tensor, x: Tensor, target: Tensor, reduction: int) -> Tensor | None:
    """Return the empty gradient of the input."""
    is_plain = mse_loss(x, target, reduction) is not None and gradient.dtype == x.dtype and is_contiguous(gradient)
    return empty(x.shape, x.dtype) if is_plain and gradient.shape == (() if reduction else x.shape) else None


def all_of(x: Tensor) -> Tensor | None:
    """Return the empty result of ``all`` on bools."""
    return empty((), x.dtype) if x.dtype is torch.bool else None


def _can_be_classified(x: Tensor, target: Tensor) -> bool:
    is_plain = x.dim() == 2 and x.dtype in FLOATS and is_contiguous(x)
    return is_plain and target.dtype is torch.int64 and target.shape == x.shape[:1] and target.is_contiguous()


def cumulative(x: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Tensor | None:
    """Return the empty cumulative sum of a contiguous tensor; integers give int64."""
    is_plain = dtype is None and x.dtype in (*FLOATS, *INDICES) and is_contiguous(x) and -x.dim() <= dim < x.dim()
    return empty(x.shape, torch.int64 if x.dtype in INDICES else x.dtype) if is_plain else None


def arange_from(start: int, end: int, **options: Any) -> Tensor | None:
    """Return an empty tensor of the integers from ``start`` to below ``end``."""
    return arange(end - start, **options) if type(start) is type(end) is int else None


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


def drawn(sizes: Sequence[int], *, dtype: torch.dtype | None = None, **options: Any) -> Tensor | None:
    """Return an empty tensor, for random numbers."""
    return filled(sizes, dtype=dtype, **options) if dtype is None or dtype in FLOATS else None


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
    """Return the empty means of the requested number of windows."""
    is_plain = x.dim() == 4 and x.dtype in FLOATS and is_contiguous(x)
    return empty((*x.shape[:-2], *sizes), x.dtype) if is_plain and len(sizes) == 2 and min(sizes) > 0 else None


def flip(x: Tensor, dims: Sequence[int]) -> Tensor | None:
    """Return an empty tensor like ``x``."""
    axes = {axis % x.dim() for axis in dims if -x.dim() <= axis < x.dim()}
    return empty_like(x) if len(axes) == len(dims) and has_plain_layout(x) else None


def triangle(x: Tensor, diagonal: int = 0) -> Tensor | None:
    """Return an empty tensor like ``x``, for ``tril`` and ``triu``."""
    return empty_like(x) if x.dim() > 1 and is_contiguous(x) else None


def roll(x: Tensor, shifts: Sequence[int], dims: Sequence[int] = ()) -> Tensor | None:
    """Return an empty tensor like ``x``."""
    is_plain = is_contiguous(x) and len(shifts) == len(dims) > 0
    return empty_like(x) if is_plain and all(-x.dim() <= dim < x.dim() for dim in dims) else None


def window_counts(x: Tensor, *settings: Any) -> list[int] | None:
    """Return the number of windows along both axes of a contiguous batch of images; None if PyTorch may raise."""
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
    "aten::amax": reduction,
    "aten::amin": reduction,
    "aten::mean": whole_reduction,
    "aten::sum": whole_reduction,
    "aten::any.dim": mask_reduction,
    "aten::all.dim": mask_reduction,
    "aten::linalg_vector_norm": norm,
    "aten::var.correction": spread,
    "aten::std.correction": spread,
    "aten::_softmax": softmax,
    "aten::_log_softmax": softmax,
    "aten::_safe_softmax": softmax,
    "aten::cat": cat,
    "aten::clone": clone,
    "aten::stack": stack,
    "aten::embedding": embedding,
    "aten::index.Tensor": index,
    "aten::index_select": index_select,
    "aten::index_select.out": into(index_select),
    "aten::sort": ordered,
    "aten::constant_pad_nd": constant_pad,
    "aten::nll_loss_forward": nll_loss,
    "aten::mse_loss": mse_loss,
    "aten::mse_loss_backward": mse_loss_backward,
    "aten::all": all_of,
    "aten::arange": arange,
    "aten::arange.start": arange_from,
    "aten::cumsum": cumulative,
    "aten::zeros": filled,
    "aten::ones": filled,
    **{f"aten::{name}": drawn for name in ("rand", "randn", "rand.generator", "randn.generator")},
    "aten::flip": flip,
    "aten::tril": triangle,
    "aten::triu": triangle,
    "aten::roll": roll,
    "aten::max_pool2d_with_indices": max_pool2d,
    "aten::avg_pool2d": avg_pool2d,
    "aten::_adaptive_avg_pool2d": adaptive_avg_pool2d,
}
"""Replacements by operator and overload."""


# Matrix products, convolutions and attention


Number = int | float


def mm(a: Tensor, b: Tensor) -> Tensor | None:
    """Return an empty product of ``a`` [n, k] and ``b`` [k, m]."""
    if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[0] or not _have_one_float_dtype(a, b):
        return None
    return empty((a.shape[0], b.shape[1]), a.dtype)


def addmm(bias: Tensor, a: Tensor, b: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor | None:
    """Return an empty product of ``a`` [n, k] and ``b`` [k, m], to which ``bias`` can be added."""
    product = mm(a, b)
    return product if product is not None and _can_add(bias, product, beta, alpha) else None


def bmm(a: Tensor, b: Tensor) -> Tensor | None:
    """Return the empty products of ``a`` [batch, n, k] and ``b`` [batch, k, m]."""
    if a.dim() != 3 or b.dim() != 3 or not _have_one_float_dtype(a, b):
        return None
    if a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1]:
        return None
    return empty((a.shape[0], a.shape[1], b.shape[2]), a.dtype)


def baddbmm(bias: Tensor, a: Tensor, b: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor | None:
    """Return the empty products of ``a`` [batch, n, k] and ``b`` [batch, k, m], to which ``bias`` can be added."""
    product = bmm(a, b)
    return product if product is not None and _can_add(bias, product, beta, alpha) else None


def convolution(
    x: Tensor,
    w: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Tensor | None:
    """Return the empty output of a convolution; None if an operand has no elements.

    On a CPU, the output has the channels last if the input or the weight does. Since PyTorch 2.13, PyTorch's meta
    kernel ignores this.
    """
    if not _are_convolved(x, w) or not (bias is None or bias.dtype == x.dtype) or groups < 1:
        return None
    rank = x.dim() - 2
    if any(len(values) not in (1, rank) for values in (stride, padding, dilation, output_padding)):
        return None
    steps = (_per_axis(values, rank) for values in (stride, padding, dilation, output_padding))
    if (w.shape[0] if transposed else w.shape[1] * groups) != x.shape[1] or w.shape[0] % groups:
        return None
    made = w.shape[1] * groups if transposed else w.shape[0]
    length = _transposed_length if transposed else _length
    sizes = [length(*axis) for axis in zip(x.shape[2:], w.shape[2:], *steps, strict=True)]
    if min(sizes) < 1 or (bias is not None and tuple(bias.shape) != (made,)):
        return None
    is_last = has_channels_last(w.unsqueeze(2) if rank == 1 else w) or (rank > 1 and has_channels_last(x))
    if is_last and (rank < 3 or x.dtype is not torch.float64):
        return with_channels_last((x.shape[0], made, *sizes), x.dtype)
    return empty((x.shape[0], made, *sizes), x.dtype)


def convolution_backward(
    gradient: Tensor,
    x: Tensor,
    w: Tensor,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, ...] | None:
    """Return the empty gradients of input, weight and bias, as requested by ``output_mask``."""
    if not _are_plainly_convolved(x, w) or gradient.dtype != x.dtype or (output_mask[2] and bias_sizes is None):
        return None
    shapes = (x.shape, w.shape, bias_sizes or ())
    return tuple(
        empty(shape, gradient.dtype) if is_wanted else None
        for shape, is_wanted in zip(shapes, output_mask, strict=True)
    )


def flash_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor] | None:
    """Return the empty output and log-sum-exp of the fused attention of a CPU.

    Only for contiguous queries [batch, heads, length, size], and for queries that are contiguous as [batch, length,
    heads, size].
    """
    is_plain = query.dim() == 4 and query.dtype in (torch.float32, *HALVES) and min(query.shape[1:]) > 1
    if not is_plain or not _have_one_float_dtype(query, key, value):
        return None
    (batch, heads, length, size), (of_batch, of_head, of_position, of_element) = query.shape, query.stride()
    if _attention_keeps_order() and is_contiguous(query):
        return empty(query.shape, query.dtype), empty((batch, length, heads), torch.float32).transpose(1, 2)
    if of_element != 1 or of_head != size or min(of_batch, of_position) < heads * size:
        return None
    if of_batch > of_position or not _attention_keeps_order():
        output = empty((batch, length, heads, size), query.dtype).permute(0, 2, 1, 3)
    elif of_batch < of_position or batch == 1:
        output = empty((length, batch, heads, size), query.dtype).permute(1, 2, 0, 3)
    else:
        return None
    return output, empty((batch, length, heads), torch.float32).transpose(1, 2)


@cache
def _attention_keeps_order() -> bool:
    # Since PyTorch 2.5 the output has the order of axes of the queries.
    query = torch.ones((2, 2, 2, 1), device="cpu").permute(1, 2, 0, 3)
    output = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(query, query, query)[0]
    return bool(output.stride() == query.stride())


def _have_one_float_dtype(*tensors: Tensor) -> bool:
    return tensors[0].dtype in FLOATS and all(x.dtype == tensors[0].dtype for x in tensors)


def _can_add(bias: Tensor, product: Tensor, *factors: Number) -> bool:
    return (
        bias.dtype == product.dtype
        and broadcasts(bias.shape, product.shape)
        and all(type(factor) in (int, float) for factor in factors)
    )


def _are_convolved(x: Tensor, w: Tensor) -> bool:
    has_elements = 0 not in x.shape and 0 not in w.shape
    return x.dim() == w.dim() and 3 <= x.dim() <= 5 and has_elements and _have_one_float_dtype(x, w)


def _are_plainly_convolved(x: Tensor, w: Tensor) -> bool:
    return is_contiguous(x) and is_contiguous(w) and _are_convolved(x, w)


def _per_axis(values: Sequence[int], rank: int) -> Sequence[int]:
    return values if len(values) == rank else [*values] * rank


def _length(size: int, kernel: int, stride: int, padding: int, dilation: int, _: int) -> int:
    # PyTorch may raise for an axis of length 0.
    reach = dilation * (kernel - 1) + 1
    if stride < 1 or padding < 0 or dilation < 1 or size + 2 * padding < reach:
        return 0
    return (size + 2 * padding - reach) // stride + 1


def _transposed_length(size: int, kernel: int, stride: int, padding: int, dilation: int, added: int) -> int:
    # PyTorch may raise for an axis of length 0.
    if stride < 1 or padding < 0 or dilation < 1 or not 0 <= added < max(stride, dilation):
        return 0
    return (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + added + 1


# Backward passes


_DIFFERENTIATED = "gelu silu hardtanh hardswish hardsigmoid sigmoid tanh softplus logit"

_PLAIN_FLOATS = frozenset((torch.float32, torch.float64))

HALVES = frozenset((torch.bfloat16, torch.float16))
"""Dtypes that a normalization accepts together with parameters in float32."""


def unary_backward(gradient: Tensor, x: Tensor, *_: Any, **__: Any) -> Tensor | None:
    """Return the empty gradient of an element-wise function.

    If the layouts of ``x`` and the gradient differ, some kernels that PyTorch implements in Python use the layout of
    ``x``; all others, on a CPU and a GPU, use that of the gradient.
    """
    if gradient.dtype not in FLOATS or gradient.dtype != x.dtype or gradient.shape != x.shape:
        return None
    if gradient.stride() == x.stride():
        return empty_like(x) if has_plain_layout(x) else None
    return joined(gradient, x, x.dtype)


def threshold_backward(gradient: Tensor, x: Tensor, *_: Any, **__: Any) -> Tensor | None:
    """Return the empty gradient of an element-wise function, in the layout of its input."""
    return unary_backward(x, gradient)


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
    """Return the empty gradients of input, weight and bias in training mode, as requested by ``output_mask``."""
    is_plain = x.dim() > 1 and gradient.shape == x.shape and gradient.dtype == x.dtype and x.dtype in FLOATS
    if not is_plain or not training or not output_mask[0] or not _have_contiguous_batch_norm(gradient, x):
        return None
    features, saved = (x.shape[1],), (saved_mean, saved_scale)
    dtype = x.dtype if weight is None else weight.dtype
    of_saved = torch.float32 if x.dtype in HALVES else dtype
    if dtype not in (x.dtype, of_saved) or None in saved or not are_vectors(saved, features, of_saved):
        return None
    if not are_vectors((weight, mean, var), features, dtype):
        return None
    return empty(x.shape, x.dtype), *(empty(features, dtype) if wanted else None for wanted in output_mask[1:])


def _have_contiguous_batch_norm(*tensors: Tensor) -> bool:
    # PyTorch's meta kernel returns the layout of the operand; the kernels of a CPU and of cuDNN return contiguous
    # tensors, except for channels-last images.
    return all(is_contiguous(x) or (x.dtype in _PLAIN_FLOATS and _has_channels_outside(x)) for x in tensors)


def _has_channels_outside(x: Tensor) -> bool:
    if x.dim() < 4:
        return 0 not in x.shape
    return has_one_order(x) and x.stride()[1] > min(x.stride()[2:])


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
    """Return the empty gradients of input, weight and bias, as requested by ``output_mask``.

    They are contiguous, as on a CPU. PyTorch's own kernel for the meta device keeps the strides of the gradient; up to
    PyTorch 2.9, its gradients of float32 weights have the dtype of the input.
    """
    shape = tuple(normalized_shape)
    rank = x.dim() - len(shape)
    dtypes = (torch.float32, x.dtype) if x.dtype in HALVES else (x.dtype,)
    of_weights = next((each.dtype for each in (weight, bias) if each is not None), dtypes[0])
    is_float = dtypes[0] in _PLAIN_FLOATS and gradient.dtype == x.dtype and {of_weights, mean.dtype} <= {*dtypes}
    is_plain = is_float and gradient.shape == x.shape and 0 not in x.shape
    if not is_plain or not shape or rank < 1 or tuple(x.shape[rank:]) != shape:
        return None
    rows = (*x.shape[:rank], *[1] * len(shape))
    if not are_vectors((mean, scale), rows, mean.dtype) or not are_vectors((weight, bias), shape, of_weights):
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
    """Return the empty gradients of input, weight and bias, as requested by ``output_mask``.

    On a CPU, the gradient of a lower-precision input keeps its dtype; PyTorch's meta kernel returns that of the weight.
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
    """Return the empty gradient of an embedding table."""
    is_plain = gradient.dtype in _PLAIN_FLOATS and is_contiguous(gradient) and indices.dtype in INDICES
    if not is_plain or not is_contiguous(indices) or gradient.shape[:-1] != indices.shape or scale_grad_by_freq:
        return None
    return empty((rows, gradient.shape[-1]), gradient.dtype)


def select_backward(gradient: Tensor, sizes: Sequence[int], dim: int, index: int) -> Tensor | None:
    """Return the empty gradient of a tensor from the gradient of one position along an axis."""
    rank = len(sizes)
    if gradient.dtype not in _PLAIN_FLOATS or not -rank <= dim < rank or min(sizes) < 1:
        return None
    is_plain = -sizes[dim] <= index < sizes[dim] and gradient.shape == (*sizes[: dim % rank], *sizes[dim % rank + 1 :])
    return empty(sizes, gradient.dtype) if is_plain else None


def slice_backward(gradient: Tensor, sizes: Sequence[int], dim: int, start: int, end: int, step: int) -> Tensor | None:
    """Return the empty gradient of a tensor from the gradient of some positions along an axis."""
    rank = len(sizes)
    if (
        gradient.dtype not in _PLAIN_FLOATS
        or not -rank <= dim < rank
        or min(sizes) < 1
        or min(start, end, step - 1) < 0
    ):
        return None
    length = len(range(start, min(end, sizes[dim]), step))
    is_plain = gradient.shape == (*sizes[: dim % rank], length, *sizes[dim % rank + 1 :])
    return empty(sizes, gradient.dtype) if is_plain and length else None


def nll_loss_backward(
    gradient: Tensor,
    x: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: int,
    ignore_index: int,
    total_weight: Tensor,
) -> Tensor | None:
    """Return the empty gradient of log-probabilities [n, classes]."""
    if nll_loss(x, target, weight, reduction, ignore_index) is None or total_weight.shape:
        return None
    is_plain = gradient.shape == (() if reduction else target.shape) and gradient.is_contiguous()
    return empty(x.shape, x.dtype) if is_plain and {gradient.dtype, total_weight.dtype} == {x.dtype} else None


def _are_float(gradient: Tensor, x: Tensor) -> bool:
    return x.dtype in FLOATS and gradient.dtype == x.dtype


def _are_plain(gradient: Tensor, x: Tensor, dtypes: Collection[torch.dtype] = _PLAIN_FLOATS) -> bool:
    is_float = x.dtype in dtypes and gradient.dtype == x.dtype
    return is_float and gradient.shape == x.shape and is_contiguous(gradient) and is_contiguous(x)


def are_vectors(vectors: Sequence[Tensor | None], shape: tuple[int, ...], dtype: torch.dtype) -> bool:
    """Return whether all vectors that are not None have this shape and dtype."""
    return all(v is None or (tuple(v.shape) == shape and v.dtype == dtype) for v in vectors)


GRADIENTS: Mapping[str, Callable[..., Any]] = {
    **{f"aten::{name}_backward": unary_backward for name in _DIFFERENTIATED.split()},
    **{f"aten::{name}_backward": threshold_backward for name in ("threshold", "leaky_relu")},
    "aten::_softmax_backward_data": softmax_backward,
    "aten::_log_softmax_backward_data": softmax_backward,
    "aten::native_batch_norm_backward": batch_norm_backward,
    "aten::native_layer_norm_backward": layer_norm_backward,
    "aten::native_group_norm_backward": group_norm_backward,
    "aten::max_pool2d_with_indices_backward": max_pool2d_backward,
    "aten::embedding_dense_backward": embedding_backward,
    "aten::select_backward": select_backward,
    "aten::slice_backward": slice_backward,
    "aten::nll_loss_backward": nll_loss_backward,
}
"""Replacements by operator and overload."""

# Normalizations, and the table of all kernels


FAST_DTYPES = (torch.float32, torch.float64)


def _dtype_of_statistics(vectors: Sequence[Tensor | None], x: Tensor) -> torch.dtype | None:
    # Returns None if PyTorch has to run the call.
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
    # On a CPU, batch statistics have elements only in training. If all operands have a lower precision, PyTorch's meta
    # kernel is right: float32 statistics, always with elements.
    vectors = weight, bias, mean, var
    dtype = _dtype_of_statistics(vectors, x)
    is_lower = dtype is None and x.dtype in HALVES
    of_vectors = x.dtype if is_lower else dtype
    if x.dim() < 2 or of_vectors is None or not are_vectors(vectors, (x.shape[1],), of_vectors):
        return None
    in_order = _have_contiguous_batch_norm(x)
    if not in_order and not has_plain_layout(x):
        return None
    if (mean is None or var is None) and not (training and mean is None and var is None):
        return None
    kept, dtype = x.shape[1] if training or is_lower else 0, dtype or torch.float32
    y = empty(x.shape, x.dtype) if in_order else empty_like(x)
    return y, empty((kept,), dtype), empty((kept,), dtype)


def _layer_norm(
    x: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, ...] | None:
    shape = tuple(normalized_shape)
    rank = x.dim() - len(shape)
    is_plain = x.is_contiguous() if x.dtype in FAST_DTYPES else x.dtype in HALVES and is_contiguous(x)
    if not is_plain or tuple(x.shape[rank:]) != shape or rank < 0 or not are_vectors((weight, bias), shape, x.dtype):
        return None
    rows, dtype = (*x.shape[:rank], *[1] * len(shape)), torch.float32 if x.dtype in HALVES else x.dtype
    return empty_like(x), empty(rows, dtype), empty(rows, dtype)


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
    dtype = _dtype_of_statistics((weight, bias), x)
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
    "aten::mm.out": into(mm),
    "aten::addmm.out": into(addmm),
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
"""Fast replacements by operator and overload; each returns the result on meta tensors, or None."""
