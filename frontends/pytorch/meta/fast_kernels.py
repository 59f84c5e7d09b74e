"""Fast replacements for kernels of the meta device that are written in Python and take a millisecond.

They cover plain cases, in which the operands determine the result. Every other call, and every invalid one, is left to
the kernel of PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from .lstm import lstm_layer, lstm_layer_backward

FAST_DTYPES = (torch.float32, torch.float64)

_ELEMENTWISE = """
relu sigmoid tanh silu mish gelu elu leaky_relu hardtanh hardswish hardsigmoid
neg abs exp log sqrt rsqrt reciprocal erf sin cos
"""


def _is_dense_float(x: Tensor) -> bool:
    is_dense = x.is_contiguous() or (x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last))
    return bool(is_dense and x.dtype in FAST_DTYPES)


def _match(vectors: Sequence[Tensor | None], shape: tuple[int, ...], x: Tensor) -> bool:
    return all(v is None or (tuple(v.shape) == shape and v.dtype == x.dtype) for v in vectors)


def _like_input(x: Tensor, *_: Any, **__: Any) -> Tensor | None:
    return torch.empty_like(x) if _is_dense_float(x) else None


def _in_place(x: Tensor, *_: Any, **__: Any) -> Tensor | None:
    return x if _is_dense_float(x) else None


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
    if x.dim() < 2 or not _is_dense_float(x) or not _match((weight, bias, mean, var), (x.shape[1],), x):
        return None
    if mean is None or var is None:
        return None
    kept = x.shape[1] if training else 0
    return torch.empty_like(x), x.new_empty((kept,)), x.new_empty((kept,))


def _layer_norm(
    x: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, ...] | None:
    shape = tuple(normalized_shape)
    rank = x.dim() - len(shape)
    if x.dtype not in FAST_DTYPES or not x.is_contiguous() or tuple(x.shape[rank:]) != shape or rank < 0:
        return None
    if not _match((weight, bias), shape, x):
        return None
    rows = (*x.shape[:rank], *[1] * len(shape))
    return torch.empty_like(x), x.new_empty(rows), x.new_empty(rows)


FAST_KERNELS: Mapping[str, Callable[..., Any]] = {
    **{f"aten::{name}": _like_input for name in _ELEMENTWISE.split()},
    **{f"aten::{name}_": _in_place for name in _ELEMENTWISE.split()},
    "aten::native_batch_norm": _batch_norm,
    "aten::native_layer_norm": _layer_norm,
    "aten::mkldnn_rnn_layer": lstm_layer,
    "aten::mkldnn_rnn_layer_backward": lstm_layer_backward,
}
"""Functions that return the result of an operator on meta tensors, or None, by the name in its schema."""

WITHOUT_META_KERNEL = frozenset(("aten::_fused_sgd_", "aten::_fused_adagrad_"))
"""Operators on lists of tensors that write to their operands, return nothing, and have no kernel for meta tensors."""


def unless_on_meta(run: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs one of these operators, which on meta tensors does nothing."""

    def run_unless_on_meta(parameters: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
        if not any(parameter.is_meta for parameter in parameters):
            run(parameters, *args, **kwargs)

    return run_unless_on_meta
