"""Results of data-dependent operators on meta tensors whose values are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from .contents import CPU, UNKNOWN, Contents, UnknownValueError, without_capture
from .operands import META, tensors_of, without_data
from .values import Values, is_small

KnownResult: TypeAlias = "Callable[..., tuple[Any, int] | None]"
"""Returns the result of a call and the assumptions behind the values that decided it; None if these are unknown.

The arguments are the known values, the operator, and those of the call.
"""

_COMPUTED = """
item _local_scalar_dense is_nonzero allclose nonzero repeat_interleave
_unique2 unique_consecutive unique_dim unique_dim_consecutive
"""

MASKS = (torch.bool, torch.uint8)


def _data(values: Values, value: Any) -> Any:
    """Return an argument with data in place of meta tensors.

    Raises:
        UnknownValueError: if the values of one are unknown.
    """
    if isinstance(value, Tensor):
        data = values.of(value)
        if data is None:
            raise UnknownValueError
        return data
    if isinstance(value, (list, tuple)):
        return [_data(values, item) for item in value]
    return {name: _data(values, item) for name, item in value.items()} if isinstance(value, dict) else value


def _computed(values: Values, func: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, int] | None:
    """Run an operator on the values of all of its operands."""
    try:
        data = _data(values, (args, kwargs))
        with without_capture():
            result = func(*data[0], **data[1])
    except UNKNOWN:
        return None
    flags = values.assumptions(tensors_of(args, kwargs))
    return on_meta(values, result, flags), flags


def on_meta(values: Values, result: Any, flags: int) -> Any:
    """Return what an operator returned, with its tensors on the meta device, where their values are known."""
    if isinstance(result, (tuple, list)):
        return tuple([on_meta(values, item, flags) for item in result])
    if not isinstance(result, Tensor):
        return result
    made = torch.empty_strided(result.shape, result.stride(), dtype=result.dtype, device=META)
    if is_small(made):
        values.put(made, Contents(result.untyped_storage, flags))
    return made


def _index(values: Values, func: Callable[..., Any], x: Tensor, indices: Sequence[Any]) -> tuple[Any, int] | None:
    """Index by the positions that known masks select, whatever is indexed."""
    masks = [index for index in indices if isinstance(index, Tensor) and index.dtype in MASKS]
    if not masks:
        return None
    computed = _computed(values, func, x, indices)
    if computed is not None:
        return computed
    positions: list[Tensor | None] = []
    for index in indices:
        if isinstance(index, Tensor) and index.dtype in MASKS:
            columns = _computed(values, torch.ops.aten.nonzero, index)
            if columns is None:
                return None
            positions += columns[0].unbind(1)
        else:
            positions.append(index)
    return func(without_data(x), without_data(positions)), values.assumptions(masks)


def _masked_select(values: Values, func: Callable[..., Any], x: Tensor, mask: Tensor) -> tuple[Any, int] | None:
    computed = _computed(values, func, x, mask)
    known = values.of(mask)
    if computed is not None or known is None:
        return computed
    with without_capture():
        shape = torch.broadcast_shapes(x.shape, mask.shape)
        selected = int(known.expand(shape).count_nonzero())
    return without_data(x).new_empty((selected,)), values.assumptions((mask,))


def _bincount(
    values: Values, func: Callable[..., Any], x: Tensor, weights: Tensor | None = None, minlength: int = 0
) -> tuple[Any, int] | None:
    """Count; with unknown weights only the size of the result is known."""
    computed = _computed(values, func, x, weights, minlength)
    if computed is not None or weights is None:
        return computed
    counted = _computed(values, func, x, None, minlength)
    if counted is None:
        return None
    dtype = weights.dtype if weights.is_floating_point() else torch.float64
    return x.new_empty(counted[0].shape, dtype=dtype), counted[1]


def _pack_padded_sequence(
    values: Values, func: Callable[..., Any], x: Tensor, lengths: Tensor, batch_first: bool = False
) -> tuple[Any, int] | None:
    """Pack to known lengths, whatever is packed; the batch size of each step has data, as it does in a run."""
    known = values.of(lengths)
    if known is None:
        return None
    with without_capture():
        running = known > torch.arange(int(known.max()))[:, None]
        sizes = running.sum(1)
    return (without_data(x).new_empty((int(known.sum()), *x.shape[2:])), sizes), values.assumptions((lengths,))


def _to_copy(
    values: Values, func: Callable[..., Any], x: Tensor, *, device: Any = None, **kwargs: Any
) -> tuple[Any, int] | None:
    """Copy to another device: the copy stays on the meta device, where its values are known."""
    if device is None or torch.device(device).type == "meta":
        return None
    return _computed(values, func, x, device=CPU, **{**kwargs, "non_blocking": False})


def _equal(values: Values, func: Callable[..., Any], x: Tensor, y: Tensor) -> tuple[Any, int] | None:
    """Compare; tensors of different shapes are not equal, whatever they hold."""
    return (False, 0) if x.shape != y.shape else _computed(values, func, x, y)


KNOWN_RESULTS: Mapping[str, KnownResult] = {
    **dict.fromkeys((f"aten::{name}" for name in _COMPUTED.split()), _computed),
    "aten::equal": _equal,
    "aten::index": _index,
    "aten::masked_select": _masked_select,
    "aten::bincount": _bincount,
    "aten::_pack_padded_sequence": _pack_padded_sequence,
    "aten::_to_copy": _to_copy,
}
"""Functions that return the result of an operator if the values that decide it are known, by its full name."""
