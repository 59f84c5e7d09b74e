"""Results made without running anything, where tensors have no data.

Many kernels of the meta device are Python and cost more than everything else; a call with the same operator, shapes,
strides, types and settings returns the same kind of tensor, so its second call needs no kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor

from ..meta.operands import is_plain_meta

Replay: TypeAlias = "Callable[[Sequence[Any]], Any]"
"""Makes the result of a call again, of its positional arguments."""


def replay_rule(func: Any) -> Callable[[Sequence[Any], Sequence[Tensor], Any], Replay | None]:
    """How the result of an operator's call can be made again, as far as its schema tells.

    What is returned takes the positional arguments, the tensors and the result of a first call.
    """
    schema = func._schema
    arguments = schema.arguments
    changes = [i for i, argument in enumerate(arguments) if argument.alias_info is not None]
    returned = schema.returns
    if not returned or torch.Tag.inplace_view in func.tags:
        return _never
    if not changes:
        is_new = all(value.alias_info is None and str(value.type) == "Tensor" for value in returned)
        return _new if is_new else _never
    if changes != [0] or len(returned) != 1 or not schema.name.startswith("aten::"):
        return _never
    if arguments[0].alias_info.is_write:
        is_first = str(returned[0].type) == "Tensor" and schema.name.endswith("_") and not schema.name.endswith("__")
        return _written if is_first else _never
    return _never if schema.name == "aten::as_strided" else _viewed  # which counts from the start of the memory


def _never(args: Sequence[Any], tensors: Sequence[Tensor], result: Any) -> Replay | None:
    return None


def _new(args: Sequence[Any], tensors: Sequence[Tensor], result: Any) -> Replay | None:
    """New tensors.

    Some operators return their input without saying so (dropout in inference, a cast that changes nothing).
    """
    made = (result,) if isinstance(result, Tensor) else result
    if not tensors or not isinstance(made, tuple) or not all(map(is_plain_meta, (*tensors, *made))):
        return None
    inputs = {tensor.untyped_storage()._cdata for tensor in tensors}
    if any(tensor.untyped_storage()._cdata in inputs for tensor in made):
        return None
    makers = [partial(torch.empty_strided, x.shape, x.stride(), dtype=x.dtype, device=x.device) for x in made]
    first = makers[0]
    if isinstance(result, Tensor):
        return lambda args: first()
    return lambda args: tuple([make() for make in makers])


def _written(args: Sequence[Any], tensors: Sequence[Tensor], result: Any) -> Replay | None:
    """The first argument, whose data changed: without data nothing did."""
    return _first if result is args[0] and all(map(is_plain_meta, tensors)) else None


def _first(args: Sequence[Any]) -> Any:
    return args[0]


def _viewed(args: Sequence[Any], tensors: Sequence[Tensor], result: Any) -> Replay | None:
    """Views of the first argument."""
    made = (result,) if isinstance(result, Tensor) else tuple(result)
    if len(tensors) != 1 or not made or not all(map(is_plain_meta, (*tensors, *made))):
        return None
    (x,) = tensors
    if x is not args[0] or any(view.dtype != x.dtype for view in made):
        return None
    if any(view.untyped_storage()._cdata != x.untyped_storage()._cdata for view in made):
        return None
    shift = x.storage_offset()
    likes = [(view.shape, view.stride(), view.storage_offset() - shift) for view in made]
    shape, stride, start = likes[0]
    if isinstance(result, Tensor):
        return lambda args: torch.as_strided(args[0], shape, stride, start + args[0].storage_offset())
    kind = type(result)
    return lambda args: kind([torch.as_strided(args[0], s, d, o + args[0].storage_offset()) for s, d, o in likes])
