"""Replay: the result of a repeated call on meta tensors, made without running the operator.

Many kernels of the meta device are written in Python and cost more time than everything else. A call with the same
operator, shapes, strides, dtypes and arguments returns the same kind of tensor, so its repetition needs no kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor

from ..meta.operands import is_plain_meta

Replay: TypeAlias = "Callable[[Sequence[Any]], Any]"
"""Returns the result of a repeated call from its positional arguments."""

ReplayRule: TypeAlias = "Callable[[Sequence[Any], Sequence[Tensor], Any], Replay | None]"
"""Returns the replay of a call from its positional arguments, tensors and result; None: it must run again."""


def replay_rule(func: Any) -> ReplayRule:
    """Return the replay rule that the schema of an operator implies."""
    schema = func._schema
    arguments = schema.arguments
    aliased = [i for i, argument in enumerate(arguments) if argument.alias_info is not None]
    returned = schema.returns
    if not returned or torch.Tag.inplace_view in func.tags:
        return _no_replay
    if not aliased:
        is_new = all(value.alias_info is None and str(value.type) == "Tensor" for value in returned)
        return _replay_new if is_new else _no_replay
    if aliased != [0] or len(returned) != 1 or not schema.name.startswith("aten::"):
        return _no_replay
    if arguments[0].alias_info.is_write:
        is_in_place = str(returned[0].type) == "Tensor" and schema.name.endswith("_") and not schema.name.endswith("__")
        return _replay_in_place if is_in_place else _no_replay
    return _no_replay if schema.name == "aten::as_strided" else _replay_view  # as_strided ignores the view's offset


def _no_replay(args: Sequence[Any], tensors: Sequence[Tensor], result: Any) -> Replay | None:
    return None


def _replay_new(args: Sequence[Any], tensors: Sequence[Tensor], result: Any) -> Replay | None:
    """Replay an operator that returns new tensors.

    Some operators return their input although their schema does not say so (dropout in inference, a cast to the same
    dtype); these are not replayed. Neither are results that share memory, or do not fill it.
    """
    outputs = (result,) if isinstance(result, Tensor) else result
    if not tensors or not isinstance(outputs, tuple) or not all(map(is_plain_meta, (*tensors, *outputs))):
        return None
    inputs = {tensor.untyped_storage()._cdata for tensor in tensors}
    made = {tensor.untyped_storage()._cdata for tensor in outputs}
    if len(made) < len(outputs) or made & inputs or any(map(_is_part, outputs)):
        return None
    makers = [partial(torch.empty_strided, x.shape, x.stride(), dtype=x.dtype, device=x.device) for x in outputs]
    first = makers[0]
    if isinstance(result, Tensor):
        return lambda args: first()
    return lambda args: tuple([make() for make in makers])


def _is_part(tensor: Tensor) -> bool:
    """Return whether the memory of a tensor holds more than its elements."""
    if not tensor.numel():
        return False
    extent = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    return bool(tensor.untyped_storage().nbytes() != extent * tensor.element_size())


def _replay_in_place(args: Sequence[Any], tensors: Sequence[Tensor], result: Any) -> Replay | None:
    """Replay an operator that returns its first argument: a meta tensor holds no data that could change."""
    return _first_argument if result is args[0] and all(map(is_plain_meta, tensors)) else None


def _first_argument(args: Sequence[Any]) -> Any:
    return args[0]


def _replay_view(args: Sequence[Any], tensors: Sequence[Tensor], result: Any) -> Replay | None:
    """Replay an operator that returns views of its first argument."""
    views = (result,) if isinstance(result, Tensor) else tuple(result)
    if len(tensors) != 1 or not views or not all(map(is_plain_meta, (*tensors, *views))):
        return None
    (x,) = tensors
    if x is not args[0] or any(view.dtype != x.dtype for view in views):
        return None
    if any(view.untyped_storage()._cdata != x.untyped_storage()._cdata for view in views):
        return None
    base = x.storage_offset()
    layouts = [(view.shape, view.stride(), view.storage_offset() - base) for view in views]
    shape, stride, offset = layouts[0]
    if isinstance(result, Tensor):
        return lambda args: torch.as_strided(args[0], shape, stride, offset + args[0].storage_offset())
    kind = type(result)
    return lambda args: kind([torch.as_strided(args[0], s, d, o + args[0].storage_offset()) for s, d, o in layouts])
