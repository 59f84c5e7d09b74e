"""Fast kernels agree with the meta kernels of PyTorch, on many shapes, layouts and dtypes, valid and invalid ones.

For every call a fast kernel either leaves it to PyTorch (None), or returns the shapes, strides and dtypes of PyTorch. A
call that PyTorch refuses is always left to it.
"""

from __future__ import annotations

import inspect
import math
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from costcore import ComputationalCostHook, estimate
from costcore.frontends.pytorch.meta.fast_kernels import FAST_KERNELS
from costcore.frontends.pytorch.meta.pointwise_kernels import POINTWISE

N_CALLS = 150
"""The number of random calls per operator."""

LEAST_SHARE = 0.1
"""The least share of the calls that a fast kernel has to answer."""


class Draw(random.Random):
    """Random arguments, mostly plain ones."""

    def size(self) -> int:
        return self.choice((1, 1, 2, 3, 3, 5, 8, 0) if self.random() < 0.2 else (1, 2, 3, 4, 7))

    def shape(self, rank: int) -> tuple[int, ...]:
        return tuple(self.size() for _ in range(rank))

    def dtype(self) -> torch.dtype:
        others = (torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.bool)
        return torch.float32 if self.random() < 0.8 else self.choice(others)

    def tensor(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        x = torch.empty(shape, dtype=dtype or self.dtype(), device="meta")
        kind = self.random()
        if kind < 0.75 or len(shape) < 2:
            return x
        if kind < 0.85 and len(shape) == 4:
            return torch.empty_strided(*channels_last(shape), dtype=x.dtype, device="meta")
        if kind < 0.9:
            order = self.sample(range(len(shape)), len(shape))
            return torch.empty_permuted(shape, order, dtype=x.dtype, device="meta")
        if kind < 0.95:
            return torch.empty((*shape[:-2], shape[-1], shape[-2]), dtype=x.dtype, device="meta").transpose(-1, -2)
        return torch.empty((*shape[:-1], 1), dtype=x.dtype, device="meta").expand(shape)

    def near(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return a shape that often broadcasts to ``shape``."""
        kept = shape[self.choice((0, 0, 0, 1)) :]
        return tuple(self.choice((size, size, size, 1)) if self.random() < 0.9 else self.size() for size in kept)


def channels_last(shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    _, c, h, w = shape
    return shape, (c * h * w, 1, w * c, c)


def pair(draw: Draw) -> tuple[Any, ...]:
    shape = draw.shape(draw.randint(0, 4))
    dtype = draw.dtype()
    first, second = draw.tensor(*shape, dtype=dtype), draw.tensor(*draw.near(shape), dtype=dtype)
    if draw.random() < 0.2:
        first = draw.tensor(*draw.near(shape), dtype=dtype)
    if draw.random() < 0.2:
        second = draw.choice((2, 2.0, True, 0))
    elif draw.random() < 0.2:
        second = draw.tensor(*shape)
    return (first, second) if not isinstance(second, Tensor) or draw.random() < 0.8 else (second, first)


def two_tensors(draw: Draw) -> tuple[Any, ...]:
    while True:
        args = pair(draw)
        if isinstance(args[1], Tensor):
            return args


def with_number(draw: Draw) -> tuple[Any, ...]:
    return draw.tensor(*draw.shape(draw.randint(0, 4))), draw.choice((2, 2.0, 0.5))


def product(rank: int, has_bias: bool) -> Callable[[Draw], tuple[Any, ...]]:
    def args(draw: Draw) -> tuple[Any, ...]:
        (n, k, m), batch = draw.shape(3), draw.shape(rank - 2)
        inner = k if draw.random() < 0.9 else draw.size()
        dtype = draw.dtype()
        a, b = draw.tensor(*batch, n, k, dtype=dtype), draw.tensor(*batch, inner, m, dtype=dtype)
        return (draw.tensor(*draw.near((*batch, n, m)), dtype=dtype), a, b) if has_bias else (a, b)

    return args


def convolution(draw: Draw) -> tuple[Any, ...]:
    rank, groups = draw.choice((1, 2, 2, 3)), draw.choice((1, 1, 2))
    transposed = draw.random() < 0.3
    c_in, c_out = (draw.choice((2, 4)) for _ in range(2))
    w_shape = (c_in, c_out // groups) if transposed else (c_out, c_in // groups)
    x = draw.tensor(
        draw.choice((1, 2)), c_in if draw.random() < 0.9 else 3, *(draw.choice((1, 5, 6)) for _ in range(rank))
    ).clone(memory_format=torch.contiguous_format)
    w = draw.tensor(*w_shape, *(draw.choice((1, 2, 3)) for _ in range(rank)), dtype=x.dtype).clone(
        memory_format=torch.contiguous_format
    )
    bias = draw.choice((None, draw.tensor(c_out, dtype=x.dtype)))
    stride, padding, dilation, added = (
        [draw.choice(values) for _ in range(draw.choice((rank, rank, 1)))]
        for values in ((1, 2), (0, 1), (1, 1, 2), (0, 0, 1 if transposed else 0))
    )
    return x, w, bias, stride, padding, dilation, transposed, added, groups


def convolution_backward(draw: Draw) -> tuple[Any, ...]:
    while True:
        x, w, bias, *settings = convolution(draw)
        try:
            y = torch.ops.aten.convolution.default(x, w, bias, *settings)
        except RuntimeError:
            continue
        mask = [draw.random() < 0.8, draw.random() < 0.8, bias is not None]
        return draw.tensor(*y.shape, dtype=x.dtype), x, w, None if bias is None else [len(bias)], *settings, mask


def attention(draw: Draw) -> tuple[Any, ...]:
    batch, heads, length, size = (draw.choice(sizes) for sizes in ((1, 2), (1, 2, 3), (1, 4, 5), (4, 8)))
    parts = draw.choice((1, 1, 3))
    dtype = draw.dtype()
    query = draw.tensor(batch, length, parts * heads, size, dtype=dtype).chunk(parts, 2)[-1].transpose(1, 2)
    if draw.random() < 0.5:  # a position of all sequences lies side by side, as in nn.MultiheadAttention
        query = draw.tensor(length, batch, heads, size, dtype=dtype).permute(1, 2, 0, 3)
    elif draw.random() < 0.3:
        query = torch.empty(batch, heads, length, size, dtype=dtype, device="meta")
    return query, *(draw.tensor(batch, heads, 5, size, dtype=dtype) for _ in range(2))


def reduction(draw: Draw) -> tuple[Any, ...]:
    rank = draw.randint(1, 4)
    dims = [draw.randint(-rank, rank - 1) for _ in range(draw.choice((1, 1, 2, 0)))]
    return draw.tensor(*draw.shape(rank)), dims, draw.random() < 0.5


def softmax(draw: Draw) -> tuple[Any, ...]:
    rank = draw.randint(1, 4)
    return draw.tensor(*draw.shape(rank)), draw.randint(-rank - 1, rank), False


def list_of(near: bool) -> Callable[[Draw], tuple[Any, ...]]:
    def args(draw: Draw) -> tuple[Any, ...]:
        rank = draw.randint(1, 4)
        shape, dim, dtype = list(draw.shape(rank)), draw.randint(-rank - 1, rank), draw.dtype()
        tensors = []
        for _ in range(draw.randint(1, 3)):
            if near and -rank <= dim < rank:
                shape[dim] = draw.size()
            tensors.append(draw.tensor(*shape, dtype=dtype if draw.random() < 0.95 else None))
        if draw.random() < 0.1:
            tensors.insert(0, draw.tensor(0, dtype=dtype))
        return tensors, dim

    return args


def embedding(draw: Draw) -> tuple[Any, ...]:
    return draw.tensor(7, draw.size()), draw.tensor(*draw.shape(draw.randint(0, 3)), dtype=torch.int64)


def windows(n_settings: int) -> Callable[[Draw], tuple[Any, ...]]:
    def args(draw: Draw) -> tuple[Any, ...]:
        x = draw.tensor(*draw.shape(2), *(draw.choice((1, 4, 5, 9)) for _ in range(2)))
        values = [(1, 2, 3), (1, 2, 3), (0, 0, 1), (1, 1, 2)][:n_settings]
        lists = [[draw.choice(v) for _ in range(draw.choice((1, 2)))] for v in values]
        lists[1] = draw.choice((lists[1], []))
        return x, *lists, draw.random() < 0.5

    return args


def adaptive(draw: Draw) -> tuple[Any, ...]:
    return draw.tensor(*draw.shape(4)), [draw.size(), draw.size()]


def rolled(draw: Draw) -> tuple[Any, ...]:
    rank = draw.randint(1, 4)
    return draw.tensor(*draw.shape(rank)), [1], [draw.randint(-rank - 1, rank)]


def masked(draw: Draw) -> tuple[Any, ...]:
    shape = draw.shape(draw.randint(1, 4))
    return draw.tensor(*shape), draw.tensor(*draw.near(shape), dtype=torch.bool), draw.choice((0, 1.0))


def masks(draw: Draw) -> tuple[Any, ...]:
    shape, dtype = draw.shape(draw.randint(0, 4)), torch.bool if draw.random() < 0.8 else draw.dtype()
    return draw.tensor(*shape, dtype=dtype), draw.tensor(*draw.near(shape), dtype=torch.bool)


def mask_along(draw: Draw) -> tuple[Any, ...]:
    x = masks(draw)[0]
    return x, draw.randint(-x.dim() - 1, x.dim()), draw.random() < 0.5


def rows(draw: Draw) -> tuple[Any, ...]:
    x = draw.tensor(*draw.shape(draw.randint(0, 4)))
    index = draw.tensor(*draw.shape(1), dtype=draw.choice((torch.int64, torch.int64, torch.int32, torch.float32)))
    return x, draw.randint(-x.dim() - 1, x.dim()), index


def flipped(draw: Draw) -> tuple[Any, ...]:
    shape = draw.shape(draw.randint(0, 4))
    return draw.tensor(*shape), [draw.randint(-len(shape) - 1, len(shape)) for _ in range(draw.randint(0, 2))]


def chosen(draw: Draw) -> tuple[Any, ...]:
    x, y = two_tensors(draw)
    return draw.tensor(*draw.near(tuple(max(x.shape, y.shape, key=len))), dtype=torch.bool), x, y


def two_alike(draw: Draw) -> tuple[Any, ...]:
    shape, dtype = draw.shape(draw.randint(0, 4)), draw.dtype()
    others = draw.shape(len(shape)) if draw.random() < 0.1 else shape
    return draw.tensor(*shape, dtype=dtype), draw.tensor(*others, dtype=dtype if draw.random() < 0.9 else None)


def two_layouts(draw: Draw) -> tuple[Any, ...]:
    # Kernels of a CPU do not check shapes and dtypes as those of the meta device do.
    shape, dtype = draw.shape(draw.randint(0, 4)), draw.choice((torch.float32, torch.float64))
    return draw.tensor(*shape, dtype=dtype), draw.tensor(*shape, dtype=dtype)


def two_alike_with(*settings: Any) -> Callable[[Draw], tuple[Any, ...]]:
    return lambda draw: (*two_alike(draw), *settings)


def three_alike(draw: Draw) -> tuple[Any, ...]:
    x, y = two_alike(draw)
    return x, y, draw.tensor(*draw.near(tuple(x.shape)), dtype=x.dtype)


def softmax_backward(draw: Draw) -> tuple[Any, ...]:
    gradient, result = two_alike(draw)
    return gradient, result, draw.randint(-result.dim() - 1, result.dim()), result.dtype


def batch_of_one(draw: Draw) -> tuple[Any, ...]:
    """Two tensors of one shape, whose first axes have length 1 and any strides."""
    sizes, dtype = draw.shape(draw.randint(0, 3)), draw.dtype()
    pair = [draw.tensor(*sizes, dtype=dtype) for _ in range(2)]
    steps = [draw.choice((1, 2, x.stride()[0] if sizes else 1, x.numel() or 1, 3 * x.numel() + 1)) for x in pair]
    return tuple(x.as_strided((1, *sizes), (step, *x.stride())) for x, step in zip(pair, steps, strict=True))


def pair_or_batch(draw: Draw) -> tuple[Any, ...]:
    return pair(draw) if draw.random() < 0.6 else batch_of_one(draw)


def divided(draw: Draw) -> tuple[Any, ...]:
    """An image of means that are expanded to windows, or any tensor."""
    if draw.random() < 0.5:
        return with_number(draw)
    rank = draw.randint(1, 4)
    shape, kept = draw.shape(rank), [draw.random() < 0.6 for _ in range(rank)]
    means = draw.tensor(*(size if is_kept else 1 for size, is_kept in zip(shape, kept, strict=True)))
    return means.expand(shape), draw.choice((2, 0.5))


def batch_norm_backward(draw: Draw) -> tuple[Any, ...]:
    gradient, x = two_alike(draw)
    features = (x.shape[1] if x.dim() > 1 and draw.random() < 0.9 else draw.size(),)
    saved = torch.float32 if x.dtype in (torch.bfloat16, torch.float16) else x.dtype
    vectors = [draw.tensor(*features, dtype=dtype) for dtype in (*[x.dtype] * 3, saved, saved)]
    vectors[0] = draw.choice((vectors[0], None))
    return gradient, x, *vectors, draw.random() < 0.8, 1e-5, [draw.random() < 0.9 for _ in range(3)]


def batch_norm(draw: Draw) -> tuple[Any, ...]:
    x = draw.tensor(draw.choice((2, 3)), *draw.shape(draw.randint(1, 4)))  # of one value there is no variance
    weight, bias, mean, var = (draw.tensor(x.shape[1], dtype=x.dtype) for _ in range(4))
    if draw.random() < 0.5:
        mean = var = None
    training = x.dtype in (torch.float32, torch.float64) or mean is None or draw.random() < 0.5
    return x, *draw.choice(((weight, bias), (None, None))), mean, var, training, 0.1, 1e-5


def layer_norm(draw: Draw) -> tuple[Any, ...]:
    x = torch.empty(draw.shape(draw.randint(1, 4)), dtype=draw.dtype(), device="meta")
    shape = [*x.shape[draw.randint(0, x.dim() - 1) :]]
    return x, shape, *(draw.choice((None, draw.tensor(*shape, dtype=x.dtype))) for _ in range(2)), 1e-5


def cumulative(draw: Draw) -> tuple[Any, ...]:
    return draw.tensor(*draw.shape(draw.randint(0, 3)), dtype=draw.choice((None, torch.int32))), draw.randint(-3, 2)


def prelu(draw: Draw) -> tuple[Any, ...]:
    x = draw.tensor(*draw.shape(draw.randint(2, 4)))
    slopes = draw.choice((1, x.shape[1]))
    return x, draw.tensor(1, slopes, *[1] * (x.dim() - 2), dtype=x.dtype)


def selected(draw: Draw) -> tuple[Any, ...]:
    shape = draw.shape(draw.randint(1, 4))
    dim, index = draw.randint(-len(shape), len(shape) - 1), draw.randint(-2, 2)
    return draw.tensor(*(size for i, size in enumerate(shape) if i != dim % len(shape))), [*shape], dim, index


def group_norm(draw: Draw) -> tuple[Any, ...]:
    groups = draw.choice((1, 2, 2, 3))
    channels = groups * draw.choice((1, 2, 4)) + (draw.random() < 0.05)
    x = draw.tensor(draw.choice((1, 2)), channels, *draw.shape(draw.randint(0, 3)))
    weight, bias = (draw.choice((None, draw.tensor(channels, dtype=x.dtype))) for _ in range(2))
    return x, weight, bias, x.shape[0], channels, math.prod(x.shape[2:]), groups, 1e-5


def group_norm_backward(draw: Draw) -> tuple[Any, ...]:
    x, weight, _, batch, channels, positions, groups, _ = group_norm(draw)
    gradient = draw.tensor(*x.shape, dtype=x.dtype)
    statistics = [draw.tensor(batch, groups, dtype=x.dtype) for _ in range(2)]
    mask = [draw.random() < 0.8 for _ in range(3)]
    return gradient, x, *statistics, weight, batch, channels, positions, groups, mask


def interpolation(corners: bool) -> Callable[[Draw], tuple[Any, ...]]:
    def args(draw: Draw) -> tuple[Any, ...]:
        sizes = [draw.choice((1, 3, 8, 8, 0)) for _ in range(draw.choice((2, 2, 2, 1)))]
        scales = draw.choice(((2.0, 2.0), (None, None)))
        return (
            draw.tensor(*draw.shape(draw.choice((4, 4, 3)))),
            sizes,
            *([draw.random() < 0.5] if corners else []),
            *scales,
        )

    return args


def interpolation_backward(corners: bool) -> Callable[[Draw], tuple[Any, ...]]:
    def args(draw: Draw) -> tuple[Any, ...]:
        batch, channels, *sizes, height, width = (draw.size() for _ in range(6))
        gradient = draw.tensor(batch, channels, *sizes)
        larger = [height if draw.random() < 0.9 else 0, width]
        sizes = sizes if draw.random() < 0.9 else sizes[::-1]
        return gradient, sizes, [batch, channels, *larger], *([False] if corners else []), None, None

    return args


def layer_norm_backward(draw: Draw) -> tuple[Any, ...]:
    gradient, x = two_alike(draw)
    rank = draw.randint(0, x.dim())
    shape, rows = tuple(x.shape[rank:]), (*x.shape[:rank], *[1] * (x.dim() - rank))
    is_mixed = x.dtype in (torch.float16, torch.bfloat16) and draw.random() < 0.5
    dtype = torch.float32 if is_mixed else x.dtype
    vectors = [draw.tensor(*shape, dtype=dtype) if draw.random() < 0.8 or is_mixed else None for _ in range(2)]
    statistics = [draw.tensor(*rows, dtype=dtype) for _ in range(2)]
    return gradient, x, [*shape], *statistics, *vectors, [draw.random() < 0.8 for _ in range(3)]


def max_pool2d_backward(draw: Draw) -> tuple[Any, ...]:
    while True:
        x, *settings = windows(4)(draw)
        try:
            y, indices = torch.ops.aten.max_pool2d_with_indices.default(x, *settings)
        except RuntimeError:
            continue
        return draw.tensor(*y.shape, dtype=x.dtype), x, *settings, indices


def embedding_backward(draw: Draw) -> tuple[Any, ...]:
    shape = draw.shape(draw.randint(0, 3))
    others = draw.shape(len(shape)) if draw.random() < 0.1 else shape
    return draw.tensor(*shape, draw.size()), draw.tensor(*others, dtype=torch.int64), 7, -1, draw.random() < 0.2


def indexed(draw: Draw) -> tuple[Any, ...]:
    x = draw.tensor(*draw.shape(draw.randint(1, 4)))
    shape = draw.shape(draw.randint(0, 3))
    of_int = (torch.int64, torch.int64, torch.int64, torch.int32)
    each = [draw.tensor(*draw.near(shape), dtype=draw.choice(of_int)) for _ in range(draw.randint(1, x.dim()))]
    return x, [None if draw.random() < 0.3 else index for index in each]


def padded(draw: Draw) -> tuple[Any, ...]:
    shape = draw.shape(draw.randint(1, 4))
    return draw.tensor(*shape), [draw.choice((0, 1, 3, -1)) for _ in range(2 * draw.randint(1, len(shape)))], 0.5


def sliced(draw: Draw) -> tuple[Any, ...]:
    shape = draw.shape(draw.randint(1, 4))
    dim, start, step = draw.randint(-len(shape), len(shape) - 1), draw.randint(0, 3), draw.choice((1, 1, 2))
    end = draw.choice((2**63 - 1, draw.size()))
    sizes = [len(range(start, min(end, n), step)) if i == dim % len(shape) else n for i, n in enumerate(shape)]
    return draw.tensor(*sizes), [*shape], dim, start, end, step


def loss(draw: Draw) -> tuple[Any, ...]:
    n = draw.size()
    x = draw.tensor(n, draw.size())
    weight = draw.tensor(x.shape[1], dtype=x.dtype) if draw.random() < 0.1 else None
    target = draw.tensor(n if draw.random() < 0.9 else n + 1, dtype=torch.int64)
    return x, target, weight, draw.randint(0, 2), -100


def mse_loss_backward(draw: Draw) -> tuple[Any, ...]:
    x, target = two_alike(draw)
    reduction = draw.randint(0, 2)
    return draw.tensor(*(() if reduction else x.shape), dtype=x.dtype), x, target, reduction


def loss_backward(draw: Draw) -> tuple[Any, ...]:
    x, target, weight, reduction, ignored = loss(draw)
    gradient = draw.tensor(*(() if reduction else target.shape), dtype=x.dtype)
    return gradient, x, target, weight, reduction, ignored, draw.tensor(dtype=x.dtype)


ARGUMENTS: dict[str, Callable[[Draw], tuple[Any, ...]]] = {
    **{name: pair_or_batch for name in FAST_KERNELS if name.endswith(".Tensor")},
    **{f"aten::{name}.Tensor": two_tensors for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    **{name: with_number for name in FAST_KERNELS if name.endswith((".Scalar", ".Tensor_Scalar"))},
    **{
        f"aten::{name}_like": lambda draw: with_number(draw)[:1] for name in ("empty", "zeros", "ones", "rand", "randn")
    },
    "aten::full_like": with_number,
    "aten::sort": lambda draw: softmax(draw)[:2],
    "aten::index_select": rows,
    **{
        f"aten::{name}": lambda draw: with_number(draw)[:1]
        for name in ("log1p", "log2", "expm1", "floor", "ceil", "round", "sign", "tan", "celu")
    },
    **{f"aten::{name}": with_number for name in ("clamp_min", "clamp_max")},
    "aten::clamp": lambda draw: (*with_number(draw), draw.choice((None, 3, 1.5))),
    **{f"aten::{name}imum": two_tensors for name in ("max", "min")},
    **{f"aten::{name}": reduction for name in ("amax", "amin")},
    **{f"aten::{name}": lambda draw: with_number(draw)[:1] for name in ("isnan", "isinf", "mean", "sum")},
    **{f"aten::{name}": lambda draw: masks(draw)[:1] for name in ("bitwise_not", "logical_not")},
    **{f"aten::{name}.dim": mask_along for name in ("any", "all")},
    "aten::linalg_vector_norm": lambda draw: (x := reduction(draw), (x[0], draw.choice((2, 2, 1)), *x[1:]))[1],
    **{f"aten::{name}.correction": lambda draw: reduction(draw)[:2] for name in ("var", "std")},
    **{f"aten::{name}": masks for name in ("bitwise_and.Tensor", "bitwise_or.Tensor", "logical_and", "logical_or")},
    **{f"aten::{name}": lambda draw: with_number(draw)[:1] for name in ("tril", "triu")},
    "aten::flip": flipped,
    "aten::_safe_softmax": lambda draw: softmax(draw)[:2],
    "aten::where.self": chosen,
    "aten::mm": product(2, has_bias=False),
    "aten::bmm": product(3, has_bias=False),
    "aten::addmm": product(2, has_bias=True),
    "aten::baddbmm": product(3, has_bias=True),
    "aten::convolution": convolution,
    "aten::convolution_backward": convolution_backward,
    "aten::_scaled_dot_product_flash_attention_for_cpu": attention,
    "aten::mean.dim": reduction,
    "aten::sum.dim_IntList": reduction,
    "aten::_softmax": softmax,
    "aten::_log_softmax": softmax,
    "aten::cat": list_of(near=True),
    "aten::clone": lambda draw: with_number(draw)[:1],
    "aten::stack": list_of(near=False),
    "aten::embedding": embedding,
    "aten::constant_pad_nd": padded,
    "aten::nll_loss_forward": loss,
    "aten::index.Tensor": indexed,
    "aten::mse_loss": lambda draw: (*two_alike(draw), draw.randint(0, 2)),
    "aten::mse_loss_backward": mse_loss_backward,
    "aten::all": lambda draw: (draw.tensor(*draw.shape(draw.randint(0, 3)), dtype=draw.choice((None, torch.bool))),),
    "aten::nll_loss_backward": loss_backward,
    "aten::slice_backward": sliced,
    "aten::max_pool2d_with_indices": windows(4),
    "aten::avg_pool2d": windows(3),
    "aten::_adaptive_avg_pool2d": adaptive,
    "aten::roll": rolled,
    "aten::masked_fill.Scalar": masked,
    **{f"aten::{name}_backward": two_alike for name in ("silu", "sigmoid", "tanh", "gelu")},
    **{f"aten::{name}_backward": two_layouts for name in ("hardswish", "hardsigmoid")},
    "aten::logit_backward": lambda draw: (*two_layouts(draw), None),
    "aten::softplus_backward": lambda draw: (*two_layouts(draw), 1, 20),
    "aten::threshold_backward": two_alike_with(0),
    "aten::hardtanh_backward": lambda draw: (*two_layouts(draw), 0, 6),
    "aten::leaky_relu_backward": two_alike_with(0.1, False),
    "aten::_softmax_backward_data": softmax_backward,
    "aten::_log_softmax_backward_data": softmax_backward,
    "aten::native_batch_norm_backward": batch_norm_backward,
    "aten::native_layer_norm_backward": layer_norm_backward,
    "aten::max_pool2d_with_indices_backward": max_pool2d_backward,
    "aten::embedding_dense_backward": embedding_backward,
    "aten::div.Scalar": divided,
    "aten::native_batch_norm": batch_norm,
    "aten::_prelu_kernel": prelu,
    "aten::select_backward": selected,
    "aten::native_group_norm": group_norm,
    "aten::native_layer_norm": layer_norm,
    "aten::cumsum": cumulative,
    **{f"aten::{name}": lambda draw: cumulative(draw)[:1] for name in ("neg", "abs")},
    "aten::native_group_norm_backward": group_norm_backward,
    **{f"aten::upsample_{way}2d": interpolation(way != "nearest") for way in ("nearest", "bilinear", "bicubic")},
    **{
        f"aten::upsample_{way}2d_backward": interpolation_backward(way != "nearest")
        for way in ("nearest", "bilinear", "bicubic")
    },
    "aten::lerp_.Scalar": two_alike_with(0.5),
    "aten::addcmul_": three_alike,
    "aten::addcdiv_": three_alike,
}


def look(result: Any) -> Any:
    tensors = (result,) if isinstance(result, Tensor) else result
    return [None if x is None else (x.shape, x.stride(), x.dtype, x.device.type) for x in tensors]


def run(name: str, args: tuple[Any, ...]) -> Any:
    """Return the result of PyTorch's own kernel, or the error that it raises."""
    operator, _, overload = name.removeprefix("aten::").partition(".")
    try:
        return getattr(getattr(torch.ops.aten, operator), overload or "default")(*args)
    except (RuntimeError, IndexError, ValueError, NotImplementedError, TypeError, AssertionError) as error:
        return error


LAID_OUT_ON_A_CPU = {
    *(f"aten::{name}_backward" for name in ("hardswish", "hardsigmoid", "hardtanh", "softplus", "logit")),
    *(f"aten::{name}_backward" for name in ("silu", "sigmoid", "tanh", "gelu", "threshold", "leaky_relu")),
    *POINTWISE,
}
NORMALIZATIONS = {
    "aten::native_batch_norm",
    "aten::native_batch_norm_backward",
    "aten::native_layer_norm",
    "aten::native_layer_norm_backward",
}
"""Operators whose kernel for the meta device has other strides than that of a CPU, which is what is estimated.

Normalizations of 16-bit numbers have other dtypes on a CPU.
"""


def on_cpu(args: Any) -> Any:
    """Return the arguments with tensors of zeros on a CPU, of the same strides."""
    if isinstance(args, (tuple, list)):
        return type(args)(map(on_cpu, args))
    return (
        torch.empty_strided(args.shape, args.stride(), dtype=args.dtype).zero_() if isinstance(args, Tensor) else args
    )


def to_meta(results: tuple[Tensor | None, ...]) -> list[Tensor | None]:
    """Return empty tensors of the same strides on the meta device."""
    return [
        None if x is None else torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta") for x in results
    ]


def described(args: tuple[Any, ...]) -> list[Any]:
    return [(x.shape, x.stride(), x.dtype) if isinstance(x, Tensor) else x for x in args]


@pytest.mark.parametrize("name", sorted(ARGUMENTS))
def test_the_result_is_that_of_pytorch(name):
    draw, n_answered = Draw(name), 0
    for _ in range(N_CALLS):
        args = ARGUMENTS[name](draw)
        result = FAST_KERNELS[name](*args)
        if result is None:
            continue
        n_answered += 1
        is_half = name in NORMALIZATIONS and args[0].dtype in (torch.bfloat16, torch.float16)
        is_on_cpu = name in LAID_OUT_ON_A_CPU | NORMALIZATIONS and not is_half
        expected = run(name, on_cpu(args) if is_on_cpu else args)
        assert not isinstance(expected, Exception), (described(args), expected)
        if is_on_cpu:
            expected = to_meta((expected,) if isinstance(expected, Tensor) else expected)
        assert look(result) == look(expected), described(args)
    assert n_answered >= LEAST_SHARE * N_CALLS


CONVOLUTIONS = {
    "plain": (functional.conv2d, (6, 4, 3, 3), {"padding": 1}),
    "pointwise": (functional.conv2d, (6, 4, 1, 1), {}),
    "depthwise": (functional.conv2d, (4, 1, 3, 3), {"groups": 4}),
    "dilated": (functional.conv2d, (6, 4, 3, 3), {"dilation": 2}),
    "transposed": (functional.conv_transpose2d, (4, 6, 2, 2), {"stride": 2}),
    "of one axis": (functional.conv1d, (6, 4, 3), {}),
    "of three axes": (functional.conv3d, (6, 4, 3, 3, 3), {}),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("last", [(True, True), (True, False), (False, True), (False, False)])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_convolution_keeps_the_channels_last_as_on_a_cpu(name, last, dtype):
    run, shape, settings = CONVOLUTIONS[name]
    shapes = (2, 4, *[7] * (len(shape) - 2)), shape
    x, w = (
        torch.ones(s, dtype=dtype).movedim(1, -1).contiguous().movedim(-1, 1) if is_last else torch.ones(s, dtype=dtype)
        for s, is_last in zip(shapes, last, strict=True)
    )
    seen = []

    def strides(x, w):
        y = run(x, w, **settings)
        seen.append(y.stride())
        return y

    estimate(strides, [x, w])
    assert {*seen} == {run(x, w, **settings).stride()}


ORDERS = {"channels last": (0, 2, 3, 1), "transposed": (0, 1, 3, 2), "swapped": (0, 2, 1, 3)}

LAID_OUT = {
    **{
        f"{name} {reduction}": lambda x, y, name=name, reduction=reduction: getattr(functional, f"{name}_loss")(
            x, y, reduction=reduction
        )
        for name in ("mse", "smooth_l1", "huber")
        for reduction in ("mean", "none")
    },
    "binary_cross_entropy": lambda x, y: functional.binary_cross_entropy(x, y, reduction="none"),
    "glu": lambda x, y: functional.glu(x, 1),
    "logsigmoid": lambda x, y: functional.logsigmoid(x),
    "softmax": lambda x, y: x.softmax(1).transpose(1, 2).contiguous(),
    "log_softmax": lambda x, y: x.log_softmax(1).transpose(1, 2).contiguous(),
    "batch_norm": lambda x, y: functional.batch_norm(x, None, None, training=True),
    "batch_norm in inference": lambda x, y: functional.batch_norm(x, y[0, :, 0, 0], y[0, :, 0, 0]),
    "group_norm": lambda x, y: functional.group_norm(x, 2),
    "group_norm with weights": lambda x, y: functional.group_norm(x, 2, y[0, :, 0, 0], y[0, :, 0, 0]),
    "pixel_shuffle": lambda x, y: functional.pixel_shuffle(x, 2),
    "channel_shuffle": lambda x, y: functional.channel_shuffle(x, 2),
    "roll": lambda x, y: x.roll((1, 2), (2, 3)),
    "reflection": lambda x, y: functional.pad(x, (1, 1, 1, 1), mode="reflect"),
    "replication": lambda x, y: functional.pad(x, (1, 1, 1, 1), mode="replicate"),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", LAID_OUT)
def test_results_and_gradients_have_the_strides_of_a_cpu(name, order):
    seen: list[tuple[Any, Any]] = []

    class Layer(nn.Module):
        def forward(self, x, y):
            result = LAID_OUT[name](x, y)
            gradients = []
            if result.requires_grad:
                x.register_hook(lambda gradient: gradients.append(gradient.stride()))
            seen.append((result.stride(), gradients))
            return result

    axes = ORDERS[order]
    x = torch.full([(2, 8, 6, 4)[axis] for axis in axes], 0.5).permute([axes.index(axis) for axis in range(4)])
    y = torch.full((2, 8, 6, 4), 0.5)
    inputs = [x.requires_grad_(), y]
    result = Layer()(*inputs)
    result.backward(torch.ones_like(result))
    expected = seen.pop()
    estimate(Layer(), inputs, backward=True)
    assert seen == [expected]


def test_batch_normalization_writes_no_gradient_of_an_input_that_needs_none():
    model = nn.BatchNorm2d(8)
    report = estimate(model, (2, 8, 6, 4), backward=True)
    result = model(torch.ones(2, 8, 6, 4))
    gradient = torch.ones_like(result)
    with ComputationalCostHook() as cch:
        result.backward(gradient)
    assert report.by("phase")["backward"]["mwrite"] == cch.total_report["mwrite"] == 2 * 8 * 4


@pytest.mark.parametrize("memory_format", [None, torch.contiguous_format, torch.preserve_format, torch.channels_last])
def test_clone(memory_format):
    draw = Draw(0)
    results = []
    for x in (draw.tensor(*draw.shape(4)) for _ in range(N_CALLS)):
        results.append(result := FAST_KERNELS["aten::clone"](x, memory_format=memory_format))
        assert result is None or look(result) == look(torch.clone(x, memory_format=memory_format))
    assert ({*results} == {None}) == (memory_format is torch.channels_last)


@pytest.mark.parametrize("name", ["zeros", "ones", "rand", "randn"])
@pytest.mark.parametrize(("sizes", "dtype"), [((2, 0, 1), None), ((), torch.int64), ((3,), torch.bfloat16)])
def test_filled_tensors(name, sizes, dtype):
    if name.startswith("rand") and dtype is torch.int64:
        assert FAST_KERNELS[f"aten::{name}"]([*sizes], dtype=dtype, device="meta") is None
        return
    result = FAST_KERNELS[f"aten::{name}"]([*sizes], dtype=dtype, device=torch.device("meta"), pin_memory=False)
    assert look(result) == look(getattr(torch, name)(sizes, dtype=dtype, device="meta"))
    assert FAST_KERNELS[f"aten::{name}"]([*sizes], dtype=dtype) is None
    assert FAST_KERNELS[f"aten::{name}"]([-1], device="meta") is None


@pytest.mark.parametrize("end", [0, 5])
def test_arange(end):
    result = FAST_KERNELS["aten::arange"](end, device=torch.device("meta"), pin_memory=False)
    assert look(result) == look(torch.arange(end, device="meta"))
    result = FAST_KERNELS["aten::arange.start"](-2, end, device=torch.device("meta"), pin_memory=False)
    assert look(result) == look(torch.arange(-2, end, device="meta"))


@pytest.mark.parametrize("name", ["mul", "div", "mm"])
def test_results_that_are_written_to_another_tensor(name):
    draw, kernel = Draw(name), FAST_KERNELS[f"aten::{name}.out"]
    for x, y in ((product(2, has_bias=False) if name == "mm" else pair)(draw) for _ in range(N_CALLS)):
        shape = (len(x), y.shape[1]) if name == "mm" else x.shape
        out = torch.empty(shape, dtype=x.dtype, device="meta")
        result = kernel(x, y, out=out)
        assert result is None or result is out is getattr(torch, name)(x, y, out=out)
    assert kernel(x, x.T if name == "mm" else 2.0, out=torch.empty(9, 9, device="meta")) is None


def test_arange_leaves_everything_else_to_pytorch():
    kernel = FAST_KERNELS["aten::arange"]
    for args, options in [
        ((2.5,), {"device": "meta"}),
        ((-1,), {"device": "meta"}),
        ((3,), {}),
        ((3,), {"device": "cpu"}),
    ]:
        assert kernel(*args, **options) is None
        assert FAST_KERNELS["aten::arange.start"](0, *args, **options) is None


def test_kernels_take_the_arguments_of_their_operators():
    # PyTorch leaves out trailing arguments that have their default values.
    for name, kernel in FAST_KERNELS.items():
        operator, _, overload = name.removeprefix("aten::").partition(".")
        arguments = getattr(getattr(torch.ops.aten, operator), overload or "default")._schema.arguments
        for given in (arguments, [each for each in arguments if not each.has_default_value()]):
            named = {each.name: None for each in given if each.kwarg_only}
            inspect.signature(kernel).bind(*[None for each in given if not each.kwarg_only], **named)


def test_no_operator_goes_unchecked():
    elsewhere = (
        "aten::mkldnn_rnn",  # rows/test_saved_for_backward.py
        "aten::arange",
        "aten::div.out",
        "aten::mul.out",
        "aten::mm.out",
        "aten::addmm.out",
        "aten::index_select.out",
        "aten::zeros",
        "aten::ones",
        "aten::rand",
    )
    unary = {name for name, kernel in FAST_KERNELS.items() if kernel.__name__ in ("unary", "unary_in_place")}
    assert not {name for name in FAST_KERNELS if not name.startswith(elsewhere)} - set(ARGUMENTS) - unary
