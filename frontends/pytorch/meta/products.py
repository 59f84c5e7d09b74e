"""Matrix products, convolutions and attention on the meta device: the shapes that PyTorch's own kernels give.

Each function returns None unless its operands plainly fit, so that PyTorch refuses what it refuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

from .operands import broadcasts
from .plain_layouts import FLOATS, empty, is_contiguous

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
    """Return the empty output of a convolution of contiguous operands with elements."""
    if not _can_convolve(x, w) or not (bias is None or bias.dtype == x.dtype) or groups < 1:
        return None
    rank = x.dim() - 2
    if any(len(values) not in (1, rank) for values in (stride, padding, dilation, output_padding)):
        return None
    steps = (_per_axis(values, rank) for values in (stride, padding, dilation, output_padding))
    if (w.shape[0] if transposed else w.shape[1] * groups) != x.shape[1] or w.shape[0] % groups:
        return None
    made = w.shape[1] * groups if transposed else w.shape[0]
    length = _spread_length if transposed else _length
    sizes = [length(*axis) for axis in zip(x.shape[2:], w.shape[2:], *steps, strict=True)]
    if min(sizes) < 1 or (bias is not None and tuple(bias.shape) != (made,)):
        return None
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
    """Return the empty gradients of input, weight and bias, as far as ``output_mask`` asks for them."""
    if not _can_convolve(x, w) or gradient.dtype != x.dtype or (output_mask[2] and bias_sizes is None):
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
    """Return the empty output and logarithms of sums of the fused attention of a CPU.

    Only for queries [batch, heads, length, size] whose heads lie side by side in memory for each position.
    """
    is_plain = query.dim() == 4 and query.dtype is torch.float32 and min(query.shape[1:]) > 1
    if not is_plain or not _have_one_float_dtype(query, key, value):
        return None
    (batch, heads, length, size), (of_batch, of_head, of_position, of_element) = query.shape, query.stride()
    if of_element != 1 or of_head != size or min(of_batch, of_position) < heads * size:
        return None
    if of_batch > of_position or not _attention_keeps_order():
        output = empty((batch, length, heads, size), query.dtype).permute(0, 2, 1, 3)
    elif of_batch < of_position or batch == 1:
        output = empty((length, batch, heads, size), query.dtype).permute(1, 2, 0, 3)
    else:
        return None
    return output, empty((batch, length, heads), query.dtype).transpose(1, 2)


@cache
def _attention_keeps_order() -> bool:
    """Return whether attention on a CPU orders the axes of the output as those of the queries; since PyTorch 2.5."""
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


def _can_convolve(x: Tensor, w: Tensor) -> bool:
    is_ranked = x.dim() == w.dim() and 3 <= x.dim() <= 5
    return is_ranked and is_contiguous(x) and is_contiguous(w) and _have_one_float_dtype(x, w)


def _per_axis(values: Sequence[int], rank: int) -> Sequence[int]:
    return values if len(values) == rank else [*values] * rank


def _length(size: int, kernel: int, stride: int, padding: int, dilation: int, _: int) -> int:
    """Return the length of an axis of a convolution; 0 if PyTorch may refuse it."""
    reach = dilation * (kernel - 1) + 1
    if stride < 1 or padding < 0 or dilation < 1 or size + 2 * padding < reach:
        return 0
    return (size + 2 * padding - reach) // stride + 1


def _spread_length(size: int, kernel: int, stride: int, padding: int, dilation: int, added: int) -> int:
    """Return the length of an axis of a transposed convolution; 0 if PyTorch may refuse it."""
    if stride < 1 or padding < 0 or dilation < 1 or not 0 <= added < max(stride, dilation):
        return 0
    return (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + added + 1
