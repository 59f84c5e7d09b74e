"""Storages that differ in size from the tensors in them.

Some kernels of the CPU compute in the memory of their result and then resize it, which keeps the memory. On the meta
device a result is as large as its elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor

Sizes: TypeAlias = "Iterator[tuple[Tensor, int]]"

_aten = torch.ops.aten

_FAST_SUMS = (torch.float32, torch.float16, torch.bfloat16)
"""Types of weights whose bags are summed without a list of the bag of every index."""


def _elementwise(results: Sequence[Tensor], x: Tensor, target: Tensor, *_: Any) -> Sizes:
    """Yield the storage of a loss, which has a value for every element before they are reduced."""
    n = torch.broadcast_shapes(x.shape, target.shape).numel()
    yield results[0], max(n, results[0].numel())


def _as_operand(results: Sequence[Tensor], x: Tensor, *_: Any) -> Sizes:
    """Yield the storage of a result that is made like the operand."""
    yield results[0], max(x.numel(), results[0].numel())


def _bags(
    results: Sequence[Tensor],
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    by_frequency: bool = False,
    mode: int = 0,
    sparse: bool = False,
    factors: Tensor | None = None,
    has_last: bool = False,
    padding: int = -1,
    *,
    forward_only: bool = False,
) -> Sizes:
    """Yield the storages of the bag of every index, of the sizes of bags, and of the index of every maximum."""
    is_sum, is_max = mode == 0, mode == 2
    is_fast = is_sum and weight.dtype in _FAST_SUMS and weight.stride(1) == 1 and padding < 0
    is_fast = is_fast and (factors is None or factors.stride(0) == 1)
    n_bags = offsets.numel() - has_last
    yield results[1], 0 if is_fast else indices.numel() + 1
    yield results[2], offsets.numel()
    yield results[3], n_bags * weight.shape[1] if is_max else offsets.numel() if is_sum and forward_only else n_bags


def _by_id(rules: dict[Any, Callable[..., Sizes]]) -> dict[int, Callable[..., Sizes]]:
    return {id(operator): rule for operator, rule in rules.items()}  # hashing an operator runs Python code


_RULES = _by_id(
    {
        _aten.mse_loss.default: _elementwise,
        _aten.smooth_l1_loss.default: _elementwise,
        _aten.soft_margin_loss.default: _elementwise,
        _aten.binary_cross_entropy.default: _elementwise,
        _aten.im2col.default: _as_operand,
        _aten.col2im.default: _as_operand,
        _aten._embedding_bag.default: _bags,
        _aten._embedding_bag_forward_only.default: partial(_bags, forward_only=True),
    }
)


def keep_storages(operator: Any, args: Sequence[Any], results: Any) -> None:
    """Give what a call on the meta device returned the memory that it has on a CPU."""
    rule = _RULES.get(id(operator))
    if rule is None:
        return
    tensors = (results,) if isinstance(results, Tensor) else results
    if tensors[0].is_meta:
        for tensor, n in rule(tensors, *args):
            tensor.untyped_storage().resize_(n * tensor.element_size())
