"""The tensors among the arguments of an operator call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

META = torch.device("meta")

PLAIN = frozenset((Tensor, Parameter))

NUMBERS = frozenset((int, float, bool, complex))


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
