"""Keys of operator calls; calls with equal keys have results of the same kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from torch import Tensor, strided
from torch.nn import Parameter

from ..meta.operands import NUMBERS, PLAIN

CallKey: TypeAlias = "tuple[Any, ...]"

_ONLY_INT = {int}

_NO_STRIDES = "a sparse tensor has strides of 0 or none, whatever the number of its elements"


def call_key(plan: object, args: Sequence[Any], kwargs: Mapping[str, Any] | None, tensors: list[Tensor]) -> CallKey:
    """Return the key of a call, and append every tensor among the arguments to ``tensors``.

    The key may not be hashable. It never holds a tensor, which it would keep alive.

    Raises:
        RuntimeError: for tensors without strides (sparse ones).
    """
    key: list[Any] = [plan]
    for value in args:
        kind = type(value)
        if (kind is Tensor or kind is Parameter) and not value.is_sparse:
            key += (value.shape, value.stride(), value.dtype, value.is_meta)
            tensors.append(value)
        elif kind is int or kind is float or kind is bool:
            key += (kind, value)  # 1, 1.0 and True have equal hashes
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
        if {*map(type, value)} == _ONLY_INT:
            key.append(tuple(value))
            return
        key.append(len(value))
        for item in value:
            _extend(key, item, type(item), tensors)
    elif kind in PLAIN:
        if value.is_sparse:
            raise RuntimeError(_NO_STRIDES)
        key += (value.shape, value.stride(), value.dtype, value.is_meta)
        tensors.append(value)
    elif kind in NUMBERS:
        key += (kind, value)
    elif isinstance(value, Tensor):
        key += (kind, value.shape, value.stride() if value.layout is strided else None, value.dtype)
        tensors.append(value)
    else:
        key.append(value)
