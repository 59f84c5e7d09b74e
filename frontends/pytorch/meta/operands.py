"""The tensors among the arguments of an operator call, and whether they hold data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

META = torch.device("meta")

PLAIN = frozenset((Tensor, Parameter))
"""The types of ordinary tensors; every other type is a subclass with a behavior of its own."""

NUMBERS = frozenset((int, float, bool, complex))


def all_tensors(values: Iterable[Any]) -> Iterable[Tensor]:
    """Yield every tensor in nested lists and tuples."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from all_tensors(value)


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Yield every tensor in what a model returned: nested lists, tuples, dicts and dataclasses."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from tensors_in(getattr(value, name))


def tensors_of(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> list[Tensor]:
    """Return every tensor among the arguments of a call."""
    return list(all_tensors((*args, *(kwargs or {}).values())))


def have_data(tensors: Sequence[Tensor]) -> bool:
    """Return whether all tensors are ordinary tensors with data."""
    return all(type(tensor) in PLAIN and not tensor.is_meta for tensor in tensors)


def has_complex(tensors: Sequence[Tensor]) -> bool:
    """Return whether any tensor is complex."""
    return any(tensor.is_complex() for tensor in tensors)


def are_distributed(tensors: Sequence[Tensor]) -> bool:
    """Return whether any tensor is distributed over devices."""
    return any(kind.__name__ == "DTensor" for tensor in tensors for kind in type(tensor).__mro__)


def is_mixed(tensors: Sequence[Tensor]) -> bool:
    """Return whether some tensors have data and others are meta tensors."""
    return len({tensor.is_meta for tensor in tensors}) > 1


def without_data(value: Any, keeps_integers: bool = False) -> Any:
    """Return arguments with every tensor moved to the meta device.

    Args:
        value: a tensor, or lists, tuples and dicts that contain tensors.
        keeps_integers: whether integer tensors keep their data, which may be sizes.
    """
    if isinstance(value, Tensor):
        if value.is_meta or (keeps_integers and not value.is_floating_point()):
            return value
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    if isinstance(value, dict):
        return {name: without_data(item, keeps_integers) for name, item in value.items()}
    return type(value)([without_data(x, keeps_integers) for x in value]) if type(value) in (list, tuple) else value


def is_plain_meta(value: object) -> bool:
    """Return whether a value is an ordinary meta tensor."""
    return (
        type(value) in PLAIN
        and isinstance(value, Tensor)
        and value.is_meta
        and value.layout is torch.strided
        and not value.is_complex()
        and not value.is_neg()
    )


def broadcasts(shape: Sequence[int], to: Sequence[int]) -> bool:
    """Return whether a tensor of ``shape`` can be expanded to the shape ``to``."""
    kept = to[len(to) - len(shape) :]
    return len(shape) <= len(to) and all(size in (1, other) for size, other in zip(shape, kept, strict=True))
