"""Keys of operator calls, and results made without running anything, where tensors have no data.

Many kernels of the meta device are Python and cost more than everything else; a call with the same operator, shapes,
strides, types and settings returns the same kind of tensor, so its second call needs no kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn import Parameter

Key: TypeAlias = "tuple[Any, ...]"
Again: TypeAlias = "Callable[[Sequence[Any]], Any]"
"""Makes the result of a call again, of its positional arguments."""

PLAIN = frozenset((Tensor, Parameter))
NUMBERS = frozenset((int, float, bool, complex))
_INTS = {int}


def key_of(plan: object, args: Sequence[Any], kwargs: Mapping[str, Any] | None, tensors: list[Tensor]) -> Key:
    """The key of a call, which may not be hashable; appends every tensor among the arguments to ``tensors``.

    A key never holds a tensor: it would keep it alive.

    Raises:
        RuntimeError: for tensors without strides (sparse ones).
    """
    key: list[Any] = [plan]
    for value in args:
        kind = type(value)
        if kind is Tensor or kind is Parameter:
            key += (value.shape, value.stride(), value.dtype, value.is_meta)
            tensors.append(value)
        elif kind is int or kind is float or kind is bool:
            key += (kind, value)  # 1 == 1.0 == True hash alike
        elif value is None:
            key.append(None)
        else:
            _extend(key, value, kind, tensors)
    if kwargs:
        for name, value in kwargs.items():
            key.append(name)
            _extend(key, value, type(value), tensors)
    return tuple(key)


def _extend(key: list[Any], value: Any, kind: type, tensors: list[Tensor]) -> None:
    if kind is list or kind is tuple:
        if {*map(type, value)} == _INTS:
            key.append(tuple(value))
            return
        key.append(len(value))
        for item in value:
            _extend(key, item, type(item), tensors)
    elif kind in PLAIN:
        key += (value.shape, value.stride(), value.dtype, value.is_meta)
        tensors.append(value)
    elif kind in NUMBERS:
        key += (kind, value)
    elif isinstance(value, Tensor):
        key += (kind, value.shape, value.dtype)
        tensors.append(value)
    else:
        key.append(value)


def all_tensors(values: Iterable[Any]) -> Iterable[Tensor]:
    """Every tensor in nested lists and tuples."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from all_tensors(value)


def tensors_of(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> list[Tensor]:
    """Every tensor among the arguments of a call."""
    return list(all_tensors((*args, *(kwargs or {}).values())))


def have_data(tensors: Sequence[Tensor]) -> bool:
    """Whether these are ordinary tensors with data."""
    return all(type(tensor) in PLAIN and not tensor.is_meta for tensor in tensors)


def are_distributed(tensors: Sequence[Tensor]) -> bool:
    """Whether any of these is spread over devices."""
    return any(kind.__name__ == "DTensor" for tensor in tensors for kind in type(tensor).__mro__)


def is_mixed(tensors: Sequence[Tensor]) -> bool:
    """Whether some tensors have data and others do not."""
    return len({tensor.is_meta for tensor in tensors}) > 1


def without_data(value: Any, keeps_integers: bool = False) -> Any:
    """Arguments with every tensor on the meta device; but for those of integers, which may say sizes, if asked for."""
    if isinstance(value, Tensor):
        if value.is_meta or (keeps_integers and not value.is_floating_point()):
            return value
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    if isinstance(value, dict):
        return {name: without_data(item, keeps_integers) for name, item in value.items()}
    return type(value)([without_data(x, keeps_integers) for x in value]) if type(value) in (list, tuple) else value


def is_plain_meta(value: object) -> bool:
    """Whether this is an ordinary tensor without data."""
    return (
        type(value) in PLAIN
        and isinstance(value, Tensor)
        and value.is_meta
        and value.layout is torch.strided
        and not value.is_complex()
        and not value.is_neg()
    )


def repeats(func: Any) -> Callable[[Sequence[Any], Sequence[Tensor], Any], Again | None]:
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


def _never(args: Sequence[Any], tensors: Sequence[Tensor], result: Any) -> Again | None:
    return None


def _new(args: Sequence[Any], tensors: Sequence[Tensor], result: Any) -> Again | None:
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


def _written(args: Sequence[Any], tensors: Sequence[Tensor], result: Any) -> Again | None:
    """The first argument, whose data changed: without data nothing did."""
    return _first if result is args[0] and all(map(is_plain_meta, tensors)) else None


def _first(args: Sequence[Any]) -> Any:
    return args[0]


def _viewed(args: Sequence[Any], tensors: Sequence[Tensor], result: Any) -> Again | None:
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
